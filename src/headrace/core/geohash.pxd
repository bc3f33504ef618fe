from libc.stdint cimport uint64_t


cdef struct Cell:
    uint64_t bits
    int step            # bits of each coordinate; 0: no cell


cdef struct Bounds:
    double west
    double east
    double south
    double north


cdef class SearchArea:
    cdef readonly double longitude
    cdef readonly double latitude
    cdef double radius              # of a circle, in metres; below 0: it is a box
    cdef double width
    cdef double height

    cdef int surround(self, Cell *cells, int step) noexcept
    cdef Bounds bounds(self) noexcept
    cdef double distance_to(self, double longitude, double latitude) noexcept
    cdef bint holds(self, double longitude, double latitude, double *distance) noexcept
