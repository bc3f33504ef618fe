"""Places on the earth as scores of a sorted set: 52 bits, such that what is near has often a near score.

    longitude   -180 … 180        26 bits  a b c …      halves of the range that the coordinate is in
    latitude  -85.05 … 85.05      26 bits  A B C …
    score                         52 bits  a A b B c C …

The first 2·n bits name a cell of the grid that n halvings make, and its places are a range of scores. A search takes
the cell around its centre, as small as that it and its eight neighbours have all of the area, and looks at each place
in these nine ranges.

Distances are along the surface of a sphere, by the haversine formula. The order of operations is that of Redis, so that
doubles are rounded as there and scores, ranges and distances are the same to the last digit.
"""

cimport cython
from libc.math cimport M_PI, asin, cos, sin, sqrt
from libc.stdint cimport int64_t, uint32_t, uint64_t

from collections import namedtuple

cdef enum:
    FINEST = 26         # bits of each coordinate

cdef double LEAST_LONGITUDE = -180.0
cdef double GREATEST_LONGITUDE = 180.0
cdef double LEAST_LATITUDE = -85.05112878
cdef double GREATEST_LATITUDE = 85.05112878
cdef double EARTH_RADIUS = 6372797.560856       # in metres
cdef double HALF_OF_EQUATOR = 20037726.37       # of the map that the grid is on, in metres
cdef double RADIANS = M_PI / 180.0

LONGITUDES = (LEAST_LONGITUDE, GREATEST_LONGITUDE)
LATITUDES = (LEAST_LATITUDE, GREATEST_LATITUDE)

Place = namedtuple("Place", ("member", "score", "longitude", "latitude", "distance"))

cdef bytes ALPHABET = b"0123456789bcdefghjkmnpqrstuvwxyz"


# --- bits --------------------------------------------------------------------------------------------------------


cdef inline uint64_t spread(uint64_t bits) noexcept nogil:
    """Put a 0 in front of each of 32 bits."""
    bits = (bits | bits << 16) & 0x0000ffff0000ffffULL
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ffULL
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0fULL
    bits = (bits | bits << 2) & 0x3333333333333333ULL
    return (bits | bits << 1) & 0x5555555555555555ULL


cdef inline uint32_t gathered(uint64_t bits) noexcept nogil:
    """Take every second bit."""
    bits &= 0x5555555555555555ULL
    bits = (bits | bits >> 1) & 0x3333333333333333ULL
    bits = (bits | bits >> 2) & 0x0f0f0f0f0f0f0f0fULL
    bits = (bits | bits >> 4) & 0x00ff00ff00ff00ffULL
    bits = (bits | bits >> 8) & 0x0000ffff0000ffffULL
    return <uint32_t>(bits | bits >> 16)


cdef inline uint64_t bits_of(double score) noexcept nogil:
    """The whole part of any score, as a processor converts it: ZADD may have given any."""
    if score >= 18446744073709551616.0 or score < -9223372036854775808.0:
        return 0 if score > 0 else <uint64_t>1 << 63
    return <uint64_t>score if score >= 0 else <uint64_t>(<int64_t>score)


# --- cells -------------------------------------------------------------------------------------------------------


cdef inline Cell cell_at(double longitude, double latitude, int step, double least, double greatest) noexcept nogil:
    """The cell of a place, on a map that reaches from a least to a greatest latitude."""
    cdef double across = (longitude - LEAST_LONGITUDE) / (GREATEST_LONGITUDE - LEAST_LONGITUDE)
    cdef double up = (latitude - least) / (greatest - least)
    cdef Cell cell
    across *= <double>(<uint64_t>1 << step)
    up *= <double>(<uint64_t>1 << step)
    cell.bits = spread(<uint32_t>up) | spread(<uint32_t>across) << 1
    cell.step = step
    return cell


cdef inline Bounds bounds_of(Cell cell) noexcept nogil:
    cdef double cells = <double>(<uint64_t>1 << cell.step)
    cdef double wide = GREATEST_LONGITUDE - LEAST_LONGITUDE
    cdef double high = GREATEST_LATITUDE - LEAST_LATITUDE
    cdef uint32_t up = gathered(cell.bits)
    cdef uint32_t across = gathered(cell.bits >> 1)
    cdef Bounds bounds
    bounds.south = LEAST_LATITUDE + up * 1.0 / cells * high
    bounds.north = LEAST_LATITUDE + <uint32_t>(up + 1) * 1.0 / cells * high
    bounds.west = LEAST_LONGITUDE + across * 1.0 / cells * wide
    bounds.east = LEAST_LONGITUDE + <uint32_t>(across + 1) * 1.0 / cells * wide
    return bounds


cdef inline Cell moved(Cell cell, int across, int up) noexcept nogil:
    """The cell beside one; on the other side of the map where it ends."""
    cdef int shift = 64 - cell.step * 2
    cdef uint64_t odd = 0xaaaaaaaaaaaaaaaaULL
    cdef uint64_t even = 0x5555555555555555ULL
    cdef uint64_t longitude = cell.bits & odd
    cdef uint64_t latitude = cell.bits & even
    if across > 0:
        longitude += (even >> shift) + 1
    elif across < 0:
        longitude = (longitude | even >> shift) - ((even >> shift) + 1)
    if across:
        longitude &= odd >> shift
    if up > 0:
        latitude += (odd >> shift) + 1
    elif up < 0:
        latitude = (latitude | odd >> shift) - ((odd >> shift) + 1)
    if up:
        latitude &= even >> shift
    cell.bits = longitude | latitude
    return cell


cdef inline double between(double least, double value, double greatest) noexcept nogil:
    return greatest if value > greatest else least if value < least else value


cdef void place_of(double score, double *longitude, double *latitude) noexcept nogil:
    """The middle of the finest cell of a score."""
    cdef Cell cell
    cdef Bounds bounds
    cell.bits = bits_of(score)
    cell.step = FINEST
    bounds = bounds_of(cell)
    longitude[0] = between(LEAST_LONGITUDE, (bounds.west + bounds.east) / 2, GREATEST_LONGITUDE)
    latitude[0] = between(LEAST_LATITUDE, (bounds.south + bounds.north) / 2, GREATEST_LATITUDE)


cdef double distance_in_metres(double west, double south, double east, double north) noexcept nogil:
    cdef double first = south * RADIANS
    cdef double second = north * RADIANS
    cdef double u = sin((second - first) / 2)
    cdef double v = sin((east * RADIANS - west * RADIANS) / 2)
    return 2.0 * EARTH_RADIUS * asin(sqrt(u * u + cos(first) * cos(second) * v * v))


# --- single places -----------------------------------------------------------------------------------------------


def encode(double longitude, double latitude) -> int:
    """Return the score of a place on the map."""
    return cell_at(longitude, latitude, FINEST, LEAST_LATITUDE, GREATEST_LATITUDE).bits


def decode(double score) -> tuple[float, float]:
    """Return longitude and latitude of a score."""
    cdef double longitude, latitude
    place_of(score, &longitude, &latitude)
    return longitude, latitude


def standard_text(double score) -> bytes:
    """Return the usual geohash of a score: 11 letters, of a map from pole to pole, of which the last is always 0."""
    cdef double longitude, latitude
    cdef uint64_t bits
    cdef int at
    place_of(score, &longitude, &latitude)
    bits = cell_at(longitude, latitude, FINEST, -90, 90).bits
    return bytes([ALPHABET[bits >> (2 * FINEST - at) & 31] for at in range(5, 51, 5)]) + b"0"


def distance_between(double first, double second) -> float:
    """Return how many metres the places of two scores are from each other."""
    cdef double west, south, east, north
    place_of(first, &west, &south)
    place_of(second, &east, &north)
    return distance_in_metres(west, south, east, north)


# --- searching ---------------------------------------------------------------------------------------------------


cdef int step_for(double radius, double latitude) noexcept nogil:
    """How fine a cell may be so that, with its neighbours, it has all of a circle: coarser near the poles."""
    cdef int step = 1
    if radius == 0:
        return FINEST
    while radius < HALF_OF_EQUATOR:
        radius *= 2
        step += 1
    step -= 2
    if latitude > 66 or latitude < -66:
        step -= 1
        if latitude > 80 or latitude < -80:
            step -= 1
    return min(max(step, 1), FINEST)


@cython.final
cdef class SearchArea:
    """A circle or a box around a place; sizes are in metres."""

    @classmethod
    def circle(cls, double longitude, double latitude, double radius):
        """Return all that is so near to a place."""
        cdef SearchArea made = SearchArea()
        made.longitude, made.latitude, made.radius = longitude, latitude, radius
        return made

    @classmethod
    def box(cls, double longitude, double latitude, double width, double height):
        """Return what is in a box with a place in its middle."""
        cdef SearchArea made = SearchArea()
        made.longitude, made.latitude, made.radius, made.width, made.height = longitude, latitude, -1, width, height
        return made

    cdef bint holds(self, double longitude, double latitude, double *distance) noexcept:
        """Whether a place is in the area, and then how far from its centre."""
        if self.radius < 0:
            if distance_in_metres(longitude, latitude, self.longitude, latitude) > self.width / 2:
                return False
            if distance_in_metres(longitude, latitude, longitude, self.latitude) > self.height / 2:
                return False
        distance[0] = self.distance_to(longitude, latitude)
        return self.radius < 0 or not distance[0] > self.radius

    cdef double distance_to(self, double longitude, double latitude) noexcept:
        return distance_in_metres(self.longitude, self.latitude, longitude, latitude)

    cdef Bounds bounds(self) noexcept:
        """The sides of the area; the wider end of it, which is the one at the pole, decides."""
        cdef double height = self.radius if self.radius >= 0 else self.height / 2
        cdef double width = self.radius if self.radius >= 0 else self.width / 2
        cdef double up = height / EARTH_RADIUS / RADIANS
        cdef double towards_pole = self.latitude - up if self.latitude < 0 else self.latitude + up
        cdef double across = width / EARTH_RADIUS / cos(towards_pole * RADIANS) / RADIANS
        cdef Bounds bounds
        bounds.west = self.longitude - across
        bounds.east = self.longitude + across
        bounds.south = self.latitude - up
        bounds.north = self.latitude + up
        return bounds

    def score_ranges(self) -> list[tuple[float, float]]:
        """List the half-open ranges of scores that have all places of the area, and others."""
        cdef Bounds area = self.bounds()
        cdef double radius = self.radius
        cdef Cell[9] cells
        cdef Bounds middle
        cdef int step, i
        cdef int last = 0
        cdef bint too_fine
        cdef list ranges = []
        if radius < 0:
            radius = sqrt(self.width / 2 * (self.width / 2) + self.height / 2 * (self.height / 2))
        step = step_for(radius, self.latitude)
        self.surround(cells, step)
        too_fine = (
            bounds_of(cells[1]).north < area.north or bounds_of(cells[2]).south > area.south
            or bounds_of(cells[3]).east < area.east or bounds_of(cells[4]).west > area.west
        )
        if step > 1 and too_fine:
            step -= 1
            self.surround(cells, step)
        if step >= 2:
            middle = bounds_of(cells[0])
            if middle.south < area.south:
                cells[2].step = cells[7].step = cells[8].step = 0
            if middle.north > area.north:
                cells[1].step = cells[5].step = cells[6].step = 0
            if middle.west < area.west:
                cells[4].step = cells[6].step = cells[8].step = 0
            if middle.east > area.east:
                cells[3].step = cells[5].step = cells[7].step = 0
        for i in range(9):
            if cells[i].step == 0:
                continue
            # Around a large part of the earth, neighbours are the same cell.
            if last and cells[i].bits == cells[last].bits:
                continue
            shift = 2 * (FINEST - cells[i].step)
            ranges.append((float(cells[i].bits << shift), float((cells[i].bits + 1) << shift)))
            last = i
        return ranges

    cdef int surround(self, Cell *cells, int step) noexcept:
        """The cell of the centre, and those north, south, east, west, then north-east to south-west of it."""
        cells[0] = cell_at(self.longitude, self.latitude, step, LEAST_LATITUDE, GREATEST_LATITUDE)
        cells[1] = moved(cells[0], 0, 1)
        cells[2] = moved(cells[0], 0, -1)
        cells[3] = moved(cells[0], 1, 0)
        cells[4] = moved(cells[0], -1, 0)
        cells[5] = moved(cells[0], 1, 1)
        cells[6] = moved(cells[0], -1, 1)
        cells[7] = moved(cells[0], 1, -1)
        cells[8] = moved(cells[0], -1, -1)
        return 0

    def collect(self, pairs, list found not None, Py_ssize_t most) -> None:
        """Add to a list the places among members with their scores that are in the area, up to so many; 0 is all."""
        cdef double longitude, latitude, distance
        for member, score in pairs:
            place_of(score, &longitude, &latitude)
            if self.holds(longitude, latitude, &distance):
                found.append(Place(member, score, longitude, latitude, distance))
                if most and len(found) >= most:
                    return
