/* Integer products: exact, whatever the machine and the sizes. */
#include "int8.h"

#include "test.h"

/* Sums of tiles against plain ones: odd depths, columns that fill no panel, all rows of a tile. */
TEST(int8_tiles_are_exact) {
    enum { K = 37, N = 75 };
    int8_t w[K * N];
    uint8_t a[INT8_ROWS * 40];
    int32_t c[INT8_ROWS * INT8_COLUMNS];
    for (int i = 0; i < K * N; i++)
        w[i] = (int8_t)(i * 89 % 256 - 128); /* with -128 and 127: what saturates elsewhere */
    for (int i = 0; i < INT8_ROWS * 40; i++)
        a[i] = (uint8_t)(255 - i * 31 % 256);
    int8_weights packed;
    CHECK(int8_pack(&packed, K, N, w, N, 1));
    CHECK_INT(packed.depth, 40);
    const int columns = int8_columns();
    for (int rows = 1; rows <= INT8_ROWS; rows++)
        for (int panel = 0; panel * columns < N; panel++) {
            int8_tile(&packed, panel, rows, a, 40, c);
            for (int r = 0; r < rows; r++)
                for (int j = 0; j < columns && panel * columns + j < N; j++) {
                    int32_t sum = 0;
                    for (int i = 0; i < K; i++)
                        sum += a[r * 40 + i] * w[i * N + panel * columns + j];
                    if (sum != c[r * columns + j])
                        test_fail(CFX_HERE, "row %d of %d, column %d: %d, not %d", r, rows,
                                  panel * columns + j, c[r * columns + j], sum);
                }
        }
    int32_t first = 0;
    for (int i = 0; i < K; i++)
        first += w[i * N];
    CHECK_INT(packed.sums[0], first);
    int8_weights_free(&packed);
}
