/* Numbers that look random and are the same in every run, which begins as if at test_seed(1). */
#ifndef CFX_TEST_DRAW_H
#define CFX_TEST_DRAW_H

#include <stdint.h>

void test_seed(uint64_t seed);
uint32_t test_draw(uint32_t below); /* 0 to below - 1 */
double test_draw_real(void);        /* [-1, 1) */

#endif
