/* An allocator and a clock that fail when told to. See faults.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "faults.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic long left; /* allocations until the one that fails; 0: none does */
static _Atomic bool hit, forever;

void faults_begin(long n, bool all) {
    hit = false;
    forever = all;
    left = n;
}

bool faults_end(void) {
    left = 0;
    return hit;
}

#ifdef CFX_SANITIZE
static bool is_fragile(void *caller) {
    (void)caller;
    return false;
}
#else
/* Whether the code there belongs to a library that ends the process when it gets no memory; libcfx
 * asks before it enters one whether there is some (cfx__memory_headroom). */
static int belongs(struct dl_phdr_info *info, size_t size, void *caller) {
    static const char *const fragile[] = {"libdnnl", "libstdc++", "libgomp", "libomp",
                                          "libopenblas", "libgfortran"};
    (void)size;
    for (size_t i = 0; i < sizeof fragile / sizeof *fragile; i++)
        if (strstr(info->dlpi_name, fragile[i]))
            for (int k = 0; k < info->dlpi_phnum; k++)
                if ((ElfW(Addr))caller - info->dlpi_addr - info->dlpi_phdr[k].p_vaddr <
                    info->dlpi_phdr[k].p_memsz)
                    return 1;
    return 0;
}

static bool is_fragile(void *caller) { return dl_iterate_phdr(belongs, caller); }
#endif

static bool refuse(void *caller) {
    if (left == 0 || is_fragile(caller))
        return false;
    if (hit)
        return forever;
    if (atomic_fetch_sub(&left, 1) != 1)
        return false;
    hit = true;
    left = forever;
    return true;
}

#ifdef CFX_SANITIZE
#define FAULTY(name) __wrap_##name
#define REAL(name) __real_##name
#else
#define FAULTY(name) name
#define REAL(name) __libc_##name
#endif

#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default) /* the libraries below are to find these */
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *p, size_t size);
void *FAULTY(calloc)(size_t n, size_t size);
void *FAULTY(realloc)(void *p, size_t size);
int FAULTY(posix_memalign)(void **p, size_t align, size_t size);

void *FAULTY(calloc)(size_t n, size_t size) {
    return refuse(CALLER) ? NULL : REAL(calloc)(n, size);
}
void *FAULTY(realloc)(void *p, size_t size) {
    return refuse(CALLER) ? NULL : REAL(realloc)(p, size);
}

#ifdef CFX_SANITIZE
int REAL(posix_memalign)(void **p, size_t align, size_t size);
int FAULTY(posix_memalign)(void **p, size_t align, size_t size) {
    return refuse(CALLER) ? ENOMEM : REAL(posix_memalign)(p, align, size);
}
#else
void *REAL(malloc)(size_t size);
void *REAL(memalign)(size_t align, size_t size);
void *malloc(size_t size) { return refuse(CALLER) ? NULL : REAL(malloc)(size); }
void *memalign(size_t align, size_t size) {
    return refuse(CALLER) ? NULL : REAL(memalign)(align, size);
}
void *aligned_alloc(size_t align, size_t size) {
    return refuse(CALLER) ? NULL : REAL(memalign)(align, size);
}
int posix_memalign(void **p, size_t align, size_t size) {
    *p = refuse(CALLER) ? NULL : REAL(memalign)(align, size);
    return *p ? 0 : ENOMEM;
}
#endif

/* ---- the clock ------------------------------------------------------------------------------- */

static _Atomic long looks; /* until the one at which it is late; 0: it is right */
static _Atomic bool late;

void faults_clock_begin(long n) {
    late = false;
    looks = n;
}

bool faults_clock_end(void) {
    looks = 0;
    bool came = late;
    late = false;
    return came;
}

#ifdef CFX_SANITIZE
int REAL(clock_gettime)(clockid_t clock, struct timespec *t);
#else
#define __libc_clock_gettime(clock, t) ((int)syscall(SYS_clock_gettime, clock, t))
#endif

int FAULTY(clock_gettime)(clockid_t clock, struct timespec *t);
int FAULTY(clock_gettime)(clockid_t clock, struct timespec *t) {
    enum { YEARS = 1 << 30 };
    int status = REAL(clock_gettime)(clock, t);
    if (clock != CLOCK_MONOTONIC || (!late && !looks))
        return status;
    if (!late && atomic_fetch_sub(&looks, 1) == 1)
        late = true;
    t->tv_sec += late ? YEARS : 0;
    return status;
}
#pragma GCC visibility pop
