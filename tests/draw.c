/* A generator of numbers for tests: see draw.h. */
#include "draw.h"

static uint64_t state = 1;

void test_seed(uint64_t seed) { state = seed; }

uint32_t test_draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

double test_draw_real(void) { return (double)test_draw(1 << 24) / (1 << 23) - 1; }
