/* A disk that refuses or waits when a test says so: preloaded into a server, under everything that it is made of.

   The controls are a file that both sides map. Only files of the data directory are concerned: what is in appendonlydir,
   and snapshots. The system calls are made directly, so that the functions they replace are not needed. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
};

static struct controls *controls;

__attribute__((constructor)) static void map_controls(void) {
    const char *path = getenv("FAULTY_DISK");
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

static int concerns(int file) {
    char link[64], path[4096];
    ssize_t size;
    if (!controls) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return concerns_path(path);
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
    if (!admit(file, &size)) return refuse(controls->write_error);
    return syscall(SYS_write, file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    if (!admit(file, &size)) return refuse(controls->write_error);
    return syscall(SYS_pwrite64, file, data, size, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) {
    return pwrite(file, data, size, offset);
}

int fdatasync(int file) {
    if (concerns(file)) {
        __sync_add_and_fetch(&controls->syncs, 1);
        while (controls->sync_waits) usleep(1000);
        if (controls->sync_error) return refuse(controls->sync_error);
    }
    return (int)syscall(SYS_fdatasync, file);
}

int fsync(int file) {
    if (controls && controls->directory_error) return refuse(controls->directory_error);
    return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to) {
    if (controls && controls->rename_error && concerns_path(to)) return refuse(controls->rename_error);
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
