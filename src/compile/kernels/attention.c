/* attention: softmax(q k' scale + mask) v.
 *
 * Keys and values of a head are brought to panels once, and all heads of q that share them go
 * through some rows at a time: their scores, weights and sums stay in the cache. For a few rows,
 * or few scores, keys and values are read as they lie. */

typedef struct {
    ptrdiff_t batch, heads, shared; /* heads of q; as many of them share one of k and v */
    ptrdiff_t rows, keys, size, value; /* of a head; elements of a row of q and k, of one of v */
    ptrdiff_t q[3], k[3], v[3], out[3]; /* strides of batch, head, row; rows are without gaps */
    ptrdiff_t mask[4];                  /* of batch, head, row, key; 0 where it is broadcast */
    int causal;                         /* row i sees keys up to i alone */
    float scale;
} NAME_attention_shape;

enum { NAME_ATTENTION_ROWS = 28, NAME_ATTENTION_FEW = 4, NAME_ATTENTION_SMALL = 256 };

/* Scores of a row become weights: scaled, masked, e^(score - most); their sum. `seen` keys are
 * seen, those behind them up to n weigh nothing. */
static float NAME_attention_soften(const NAME_attention_shape *s, float *score, ptrdiff_t seen,
                                   ptrdiff_t n, const float *add, const unsigned char *take,
                                   float *most) {
    for (ptrdiff_t i = 0; i < seen; i++)
        score[i] *= s->scale;
    for (ptrdiff_t i = 0; add && i < seen; i++)
        score[i] += add[i * s->mask[3]];
    for (ptrdiff_t i = 0; take && i < seen; i++)
        score[i] = take[i * s->mask[3]] ? score[i] : -INFINITY;
    *most = NAME_row_max(score, seen);
    for (ptrdiff_t i = seen; i < n; i++)
        score[i] = 0;
    if (*most == -INFINITY) { /* nothing is to be seen, or NaN alone */
        float sum = 0;
        for (ptrdiff_t i = 0; i < seen; i++)
            sum += score[i] = score[i] == -INFINITY ? 0 : NAN;
        return sum;
    }
    return NAME_row_exp(score, seen, *most);
}

/* The mask is added (floats) or says what is seen (bytes); NULL: none. lse: the logarithms of the
 * sums, [batch][heads][rows]; NULL: not wanted. The scratch holds the scores of some rows, and keys
 * and values of a head in panels. */
static void NAME_attention(const NAME_attention_shape *s, const float *q, const float *k,
                           const float *v, const float *mask, const unsigned char *taken,
                           float *out, float *lse, float *scratch) {
    const NAME_epilogue plain = {.low = -INFINITY, .high = INFINITY};
    const int few = s->rows <= NAME_ATTENTION_FEW || s->rows * s->keys <= NAME_ATTENTION_SMALL;
    const ptrdiff_t most_rows = s->rows < NAME_ATTENTION_ROWS ? s->rows : NAME_ATTENTION_ROWS;
    float *score = scratch, *keys = scratch + most_rows * s->keys;
    float *values = keys + (s->keys + NAME_PANEL - 1) / NAME_PANEL * NAME_PANEL * s->size;
    for (ptrdiff_t head = 0; head < s->batch * s->heads; head++) {
        const ptrdiff_t b = head / s->heads, h = head % s->heads;
        const float *kh = k + b * s->k[0] + h / s->shared * s->k[1];
        const float *vh = v + b * s->v[0] + h / s->shared * s->v[1];
        if (!few && h % s->shared == 0) {
            NAME_panels(kh, 1, s->k[2], s->size, s->keys, 1, keys);
            NAME_panels(vh, s->v[2], 1, s->keys, s->value, 1, values);
        }
        for (ptrdiff_t top = 0, rows; top < s->rows; top += rows) {
            const float *from = q + b * s->q[0] + h * s->q[1] + top * s->q[2];
            float *to = out + b * s->out[0] + h * s->out[1] + top * s->out[2];
            float sum[NAME_ATTENTION_ROWS];
            rows = s->rows - top < NAME_ATTENTION_ROWS ? s->rows - top : NAME_ATTENTION_ROWS;
            const ptrdiff_t n = s->causal && top + rows < s->keys ? top + rows : s->keys;
            if (few)
                for (ptrdiff_t i = 0; i < rows * n; i++)
                    score[i] = NAME_row_dot(from + i / n * s->q[2], kh + i % n * s->k[2], s->size);
            else
                NAME_product(rows, n, s->size, from, s->q[2], keys, score, n, &plain);
            for (ptrdiff_t i = 0; i < rows; i++) {
                const ptrdiff_t at = b * s->mask[0] + h * s->mask[1] + (top + i) * s->mask[2];
                const ptrdiff_t seen = s->causal && top + i + 1 < n ? top + i + 1 : n;
                float most;
                sum[i] = NAME_attention_soften(s, score + i * n, seen, n, mask ? mask + at : NULL,
                                               taken ? taken + at : NULL, &most);
                if (lse)
                    lse[head * s->rows + top + i] = most + logf(sum[i]);
            }
            if (!few)
                NAME_product_part(rows, s->value, n, s->keys, score, n, values, to, s->out[2],
                                  &plain);
            for (ptrdiff_t i = 0; i < rows; i++) {
                float *restrict row = to + i * s->out[2];
                const float by = sum[i] == 0 ? 1 : 1 / sum[i];
                if (few)
                    memset(row, 0, (size_t)s->value * sizeof *row);
                for (ptrdiff_t j = 0; few && j < n; j++)
                    for (ptrdiff_t d = 0; d < s->value; d++)
                        row[d] += score[i * n + j] * vh[j * s->v[2] + d];
                for (ptrdiff_t d = 0; d < s->value; d++)
                    row[d] *= by;
            }
        }
    }
}
