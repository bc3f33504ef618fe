/* A disk that refuses or waits when a test says so: preloaded into a server, under everything that it is made of.

   The controls are a file that both sides map. Only files of the data directory are concerned: what is in appendonlydir,
   and snapshots. The system calls are made directly, so that the functions they replace are not needed.

   Beside that, every operation that changes something below a directory (FAULTY_BELOW) is counted: writes, syncs,
   truncations, files and directories that are made, renamed, removed. From one of them on, so many are refused. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct controls {
    volatile int write_error;      /* an errno; 0: write */
    volatile int write_most;       /* bytes that one write takes; 0: any */
    volatile int sync_error;       /* of fdatasync */
    volatile int sync_waits;       /* fdatasync does not return while this is 1 */
    volatile int syncs;            /* how often it was called */
    volatile int directory_error;  /* of fsync, which is for directories only */
    volatile int rename_error;
    volatile int operations;       /* that were counted */
    volatile int refuse_from;      /* the number of the first that is refused; 0: none is */
    volatile int refuse_count;
    volatile int refuse_error;
    volatile int sync_delay_ms;    /* how long each fdatasync takes at least */
};

static struct controls *controls;
static const char *below;

__attribute__((constructor)) static void map_controls(void) {
    const char *path = getenv("FAULTY_DISK");
    below = getenv("FAULTY_BELOW");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof *controls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) controls = mapped;
        close(file);
    }
}

static int concerns_path(const char *path) {
    return strstr(path, "appendonlydir") != NULL || strstr(path, ".rdb") != NULL;
}

static int path_of(int file, char *path, size_t room) {
    char link[64];
    ssize_t size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, room - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return 1;
}

static int concerns(int file) {
    char path[4096];
    return controls && path_of(file, path, sizeof path) && concerns_path(path);
}

/* Count an operation on a path; return the error it is to fail with, or 0. */
static int counted(const char *path) {
    int number, first;
    if (!controls || !below || strncmp(path, below, strlen(below)) != 0) return 0;
    number = __sync_add_and_fetch(&controls->operations, 1);
    first = controls->refuse_from;
    return first && number >= first && number - first < controls->refuse_count ? controls->refuse_error : 0;
}

static int counted_file(int file) {
    char path[4096];
    return controls && below && path_of(file, path, sizeof path) ? counted(path) : 0;
}

static int refuse(int error) {
    errno = error;
    return -1;
}

/* Whether a write goes on; if so, how much of it. */
static int admit(int file, size_t *size) {
    if (controls && (controls->write_error || controls->write_most) && concerns(file)) {
        if (controls->write_most) {
            size_t most = (size_t)controls->write_most;
            controls->write_most = 0;
            if (*size > most) *size = most;
        } else {
            return 0;
        }
    }
    return 1;
}

ssize_t write(int file, const void *data, size_t size) {
    int error = counted_file(file);
    if (error) return refuse(error);
    if (!admit(file, &size)) return refuse(controls->write_error);
    return syscall(SYS_write, file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    int error = counted_file(file);
    if (error) return refuse(error);
    if (!admit(file, &size)) return refuse(controls->write_error);
    return syscall(SYS_pwrite64, file, data, size, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) {
    return pwrite(file, data, size, offset);
}

int fdatasync(int file) {
    int error = counted_file(file);
    if (error) return refuse(error);
    if (concerns(file)) {
        __sync_add_and_fetch(&controls->syncs, 1);
        while (controls->sync_waits) usleep(1000);
        if (controls->sync_delay_ms) usleep(1000 * (useconds_t)controls->sync_delay_ms);
        if (controls->sync_error) return refuse(controls->sync_error);
    }
    return (int)syscall(SYS_fdatasync, file);
}

int fsync(int file) {
    int error = counted_file(file);
    if (error) return refuse(error);
    if (controls && controls->directory_error) return refuse(controls->directory_error);
    return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to) {
    int error = counted(to);
    if (error) return refuse(error);
    if (controls && controls->rename_error && concerns_path(to)) return refuse(controls->rename_error);
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int ftruncate(int file, off_t size) {
    int error = counted_file(file);
    return error ? refuse(error) : (int)syscall(SYS_ftruncate, file, size);
}

int ftruncate64(int file, off_t size) {
    return ftruncate(file, size);
}

int unlink(const char *path) {
    int error = counted(path);
    return error ? refuse(error) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode) {
    int error = counted(path);
    return error ? refuse(error) : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    int error;
    if (flags & O_CREAT) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        error = counted(path);
        if (error) return refuse(error);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    return open(path, flags, mode);
}
