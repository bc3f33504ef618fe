/* A wall clock that a test sets while a program runs, preloaded:
 *
 *     time of day = real time + offset + (real time - origin) * (rate - 1)
 *
 * The three numbers are doubles, in seconds, in the file that SET_CLOCK names. Clocks that nobody sets (monotonic, CPU
 * time) are left alone, as they are when a person or NTP sets the clock of a machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct setting { volatile double offset, rate, origin; };

static struct setting none = {0, 1, 0};
static struct setting *setting = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("SET_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof(struct setting), PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            setting = mapped;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result;
    double shift;
    long long ns;
    if (real_clock_gettime == NULL)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    result = real_clock_gettime(clock, now);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return result;
    shift = setting->offset + (now->tv_sec + now->tv_nsec / 1e9 - setting->origin) * (setting->rate - 1);
    ns = now->tv_sec * 1000000000LL + now->tv_nsec + (long long)(shift * 1e9);
    now->tv_sec = ns / 1000000000LL;
    now->tv_nsec = ns % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
