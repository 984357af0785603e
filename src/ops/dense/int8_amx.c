/* Sums of integer products by the machine's own tiles (AMX): up to 32 rows by a panel of 32
 * columns, 64 bytes of each row at a time. A panel lies as tiles read it: a group is a row of a
 * tile. What is left of a run is added by dot products, with the rest that is done to sums. */
#include "int8.h"

#include "../../base/machine.h"
#include "../ops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TILES __attribute__((target("amx-tile,amx-int8")))

enum { TILE_ROWS = 16, STEP = INT8_STEP * INT8_GROUP, LINE = INT8_COLUMNS * INT8_GROUP };

bool int8_has_tiles(void) { return int8_has_dots() && cfx__machine_has_byte_tiles(); }

/* 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns; the second of two rows may stand for none. Tiles
 * are as high as what is there, so that nothing behind the last row is read. */
TILES static void set_tiles(int rows) {
    const uint8_t first = (uint8_t)(rows < TILE_ROWS ? rows : TILE_ROWS);
    const uint8_t second = (uint8_t)(rows > TILE_ROWS ? rows - TILE_ROWS : 1);
    const cfx__tile_config config = {
        .palette = 1,
        .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {first, first, second, second, first, second, INT8_STEP, INT8_STEP}};
    /* compilers believe that less of it is read than is */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

TILES void int8_tiles_end(int *set) {
    if (*set)
        _tile_release();
    *set = 0;
}

TILES static void sum_two(const int8_tile *t, int64_t steps, const char *panel, int32_t *sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t run = 0; run < t->w->runs; run++, panel += t->w->groups * LINE) {
        const uint8_t *a = t->a + t->at[run], *b = a + TILE_ROWS * t->row;
        const char *p = panel;
        for (int64_t i = 0; i < steps; i++, a += STEP, b += STEP, p += INT8_STEP * LINE) {
            _tile_loadd(6, p, LINE);
            _tile_loadd(4, a, t->row);
            _tile_loadd(7, p + 64, LINE);
            _tile_dpbusd(0, 4, 6);
            _tile_loadd(5, b, t->row);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
    }
    _tile_stored(0, sums, LINE);
    _tile_stored(1, sums + 16, LINE);
    _tile_stored(2, sums + TILE_ROWS * INT8_COLUMNS, LINE);
    _tile_stored(3, sums + TILE_ROWS * INT8_COLUMNS + 16, LINE);
}

TILES static void sum_one(const int8_tile *t, int64_t steps, const char *panel, int32_t *sums) {
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t run = 0; run < t->w->runs; run++, panel += t->w->groups * LINE) {
        const uint8_t *a = t->a + t->at[run];
        const char *p = panel;
        for (int64_t i = 0; i < steps; i++, a += STEP, p += INT8_STEP * LINE) {
            _tile_loadd(4, a, t->row);
            _tile_loadd(6, p, LINE);
            _tile_loadd(7, p + 64, LINE);
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
        }
    }
    _tile_stored(0, sums, LINE);
    _tile_stored(1, sums + 16, LINE);
}

int64_t int8_tiles_sum(const int8_tile *t, int rows, int32_t *sums) {
    const int64_t steps = t->w->groups / INT8_STEP;
    const char *panel = (const char *)t->w->panels + t->panel * t->w->runs * t->w->groups * LINE;
    if (*t->set != rows)
        set_tiles(rows);
    *t->set = rows;
    if (rows > TILE_ROWS)
        sum_two(t, steps, panel, sums);
    else
        sum_one(t, steps, panel, sums);
    return steps * INT8_STEP;
}

#else

bool int8_has_tiles(void) { return false; }
void int8_tiles_end(int *set) { (void)set; }
int64_t int8_tiles_sum(const int8_tile *t, int rows, int32_t *sums) {
    (void)t, (void)rows, (void)sums;
    return 0; /* never: int8_has_tiles() */
}

#endif
