/* Tests of the products of gemm_own.h, beside sums in order: sizes on both sides of every block,
 * rows, columns and anything as the adjacent dim, all of alpha and beta. */
#include "gemm_own.h"

#include "test.h"

#include <complex.h>
#include <math.h>

typedef double _Complex number;

/* Some way in which a matrix lies; elements from one row and one column to the next. */
static matrices lying(int how, int64_t rows, int64_t cols) {
    return how == 0   ? (matrices){.row = cols, .col = 1}
           : how == 1 ? (matrices){.row = 1, .col = rows}
                      : (matrices){.row = 2 * cols + 3, .col = 2};
}

static int64_t extent(const matrices *m, int64_t rows, int64_t cols) {
    return (rows - 1) * m->row + (cols - 1) * m->col + 1;
}

static uint64_t drawn(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 40;
}

#define CASES(T, id, draw, room, scale)                                                            \
    static void check_##id(int64_t m, int64_t n, int64_t k, int how_a, int how_b, T alpha,         \
                           T beta) {                                                               \
        const matrices as = lying(how_a, m, k), bs = lying(how_b, k, n);                           \
        const int64_t ldc = n + 5, na = extent(&as, m, k), nb = extent(&bs, k, n);                 \
        uint64_t state = (uint64_t)(m * 31 + n * 7 + k);                                           \
        T *a = malloc((size_t)na * sizeof *a), *b = malloc((size_t)nb * sizeof *b);                \
        const size_t size_c = (size_t)(m * ldc) * sizeof(T);                                       \
        T *c = malloc(size_c), *was = malloc(size_c);                                              \
        void *space = aligned_alloc(64, (room(m, n, k) + 63) / 64 * 64);                           \
        for (int64_t i = 0; i < na; i++)                                                           \
            a[i] = draw;                                                                           \
        for (int64_t i = 0; i < nb; i++)                                                           \
            b[i] = draw;                                                                           \
        for (int64_t i = 0; i < m * ldc; i++)                                                      \
            c[i] = was[i] = beta == 0 ? (T)NAN : draw;                                             \
        gemm_##id(m, n, k, a, &as, b, &bs, alpha, beta, c, ldc, space);                            \
        double worst = 0;                                                                          \
        for (int64_t i = 0; i < m; i++)                                                            \
            for (int64_t j = 0; j < n; j++) {                                                      \
                number sum = 0;                                                                    \
                for (int64_t p = 0; p < k; p++)                                                    \
                    sum += (number)a[i * as.row + p * as.col] * b[p * bs.row + j * bs.col];        \
                sum *= alpha;                                                                      \
                if (beta != 0)                                                                     \
                    sum += (number)beta * was[i * ldc + j];                                        \
                const double far = cabs(sum - (number)c[i * ldc + j]);                             \
                worst = far <= worst ? worst : far;                                                \
            }                                                                                      \
        if (!(worst <= scale * sqrt((double)k)))                                                   \
            test_fail(CFX_HERE, #id " %d x %d x %d, a %d, b %d: %g off", (int)m, (int)n, (int)k,   \
                      how_a, how_b, worst);                                                        \
        for (int64_t i = 0; i + 1 < m; i++)                                                        \
            for (int64_t j = n; j < ldc; j++)                                                      \
                if (memcmp(&c[i * ldc + j], &was[i * ldc + j], sizeof *c))                         \
                    test_fail(CFX_HERE, #id " %d x %d x %d: wrote beside C", (int)m, (int)n,       \
                              (int)k);                                                             \
        free(a), free(b), free(c), free(was), free(space);                                         \
    }

#define REAL_DRAW ((double)drawn(&state) / (1 << 23) - 1)
CASES(float, f32, (float)REAL_DRAW, gemm_room_f32, 2e-6)
CASES(double, f64, REAL_DRAW, gemm_room_wide, 1e-14)
#define COMPLEX_DRAW (REAL_DRAW + I * REAL_DRAW)
CASES(float _Complex, c64, (float _Complex)COMPLEX_DRAW, gemm_room_c64, 8e-6)
CASES(double _Complex, c128, COMPLEX_DRAW, gemm_room_c128, 2e-14)

static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 5},      {13, 31, 17},   {14, 32, 256},
                                   {15, 33, 257}, {1, 600, 70},   {113, 40, 300}, {64, 64, 512},
                                   {7, 513, 9},   {300, 17, 33}, {260, 258, 259}};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(products_of_floats) {
    for (int i = 0; i < SIZES; i++)
        for (int how = 0; how < 9; how++) {
            check_f32(sizes[i][0], sizes[i][1], sizes[i][2], how / 3, how % 3, 1, 0);
            check_f32(sizes[i][0], sizes[i][1], sizes[i][2], how / 3, how % 3, -0.5f, 1);
        }
    check_f32(40, 50, 60, 0, 0, 2, 0.25f);
}

TEST(products_of_doubles) {
    for (int i = 0; i < SIZES; i++)
        for (int how = 0; how < 9; how += 2)
            check_f64(sizes[i][0], sizes[i][1], sizes[i][2], how / 3, how % 3, 1.5, how ? 0.5 : 0);
}

TEST(products_of_complex_numbers) {
    for (int i = 0; i < SIZES; i++) {
        check_c64(sizes[i][0], sizes[i][1], sizes[i][2], i % 3, (i + 1) % 3, 1 + 2 * I, 0);
        check_c128(sizes[i][0], sizes[i][1], sizes[i][2], (i + 1) % 3, i % 3, 0.5 * I, 1 - I);
    }
}

/* What is not finite goes through; with beta 0 what C held does not. */
TEST(products_with_nan) {
    float a[2 * 40] = {0}, b[40 * 33] = {0}, c[2 * 33];
    _Alignas(64) char space[1 << 20];
    const matrices as = {.row = 40, .col = 1}, bs = {.row = 33, .col = 1};
    a[39] = INFINITY;
    for (int i = 0; i < 2 * 33; i++)
        c[i] = NAN;
    CHECK(gemm_room_f32(2, 33, 40) <= sizeof space);
    gemm_f32(2, 33, 40, a, &as, b, &bs, 1, 0, c, 33, space);
    for (int j = 0; j < 33; j++)
        CHECK(isnan(c[j]) && c[33 + j] == 0);
}
