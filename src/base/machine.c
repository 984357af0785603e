/* Tests once whether the machine really supports AMX tiles. */
#define _GNU_SOURCE /* syscall */
#include "machine.h"

#include <pthread.h>
#include <string.h>

static bool has_byte_tiles;

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 16, PAIRS = 32 };

static sigjmp_buf escape;
static pthread_t trying;
static struct sigaction others; /* who else handles what is no instruction */

static void no_instruction(int sig) {
    if (pthread_equal(pthread_self(), trying))
        siglongjmp(escape, 1);
    sigaction(sig, &others, NULL); /* another thread's: it is raised again, for them */
}

/* A product of ones. */
__attribute__((target("amx-tile,amx-bf16"))) static bool multiplies(void) {
    static const cfx__tile_config three = {
        .palette = 1, .bytes = {64, 64, 64}, .rows = {ROWS, ROWS, ROWS}};
    _Alignas(64) uint16_t ones[ROWS * PAIRS];
    _Alignas(64) float sum[ROWS * ROWS];
    for (int i = 0; i < ROWS * PAIRS; i++)
        ones[i] = 0x3f80;
    memset(sum, 0, sizeof sum);
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&three);
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sum, 64);
    _tile_release();
    bool right = true;
    for (int i = 0; i < ROWS * ROWS; i++)
        right &= sum[i] == PAIRS;
    return right;
}

/* Whether they work when they are tried: some virtual machines say that they are there, and raise
 * SIGILL. */
static bool tiles_work(void) {
    struct sigaction mine = {.sa_handler = no_instruction};
    volatile bool fine = false;
    trying = pthread_self();
    if (sigaction(SIGILL, &mine, &others))
        return false;
    if (!sigsetjmp(escape, 1))
        fine = multiplies();
    sigaction(SIGILL, &others, NULL);
    return fine;
}

/* The processor says so, the system keeps the tiles of a thread and lets this process use them. */
static bool find_tiles(void) {
    enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, OSXSAVE = 1 << 27 };
    enum { STATES = 3 << 17, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE) ||
        !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & BF16) || !(d & TILE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    has_byte_tiles = d & INT8;
    return (low & STATES) == STATES && !syscall(SYS_arch_prctl, REQUEST, TILE_DATA) && tiles_work();
}

#else

static bool find_tiles(void) { return false; }

#endif

static bool has_tiles;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void) { has_tiles = find_tiles(); }

bool cfx__machine_has_tiles(void) {
    pthread_once(&once, find);
    return has_tiles;
}

bool cfx__machine_has_byte_tiles(void) { return cfx__machine_has_tiles() && has_byte_tiles; }
