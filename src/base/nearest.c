/* The edit distance of names, for suggestions. */
#include "base.h"

enum { LONGEST = 64 };

static int least(int a, int b) { return a < b ? a : b; }

int cfx__text_distance(const char *a, const char *b, int most) {
    int n = (int)strlen(a), m = (int)strlen(b), rows[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST || n - m > most || m - n > most)
        return most + 1;
    for (int i = 0; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        for (int k = 0; k <= m; k++) {
            if (!i || !k) {
                row[k] = i + k;
                continue;
            }
            row[k] = least(above[k - 1] + (a[i - 1] != b[k - 1]), least(row[k - 1], above[k]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least(row[k], second[k - 2] + 1);
        }
    }
    return rows[n % 3][m];
}
