/* Gradients of solving and of triangular factors. H is the adjoint: transposed and conjugated. */
#include "linalg.h"

#include "../back.h"

#define matmul(a, b) cfx_matmul(a, b)

static cfx_tensor *triangular(cfx_tensor *a, cfx_tensor *b, bool upper, bool left, bool unit) {
    return cfx_linalg_solve_triangular(a, b, CFX_KW(upper, cfx_bool(upper)),
                                       CFX_KW(left, cfx_bool(left)),
                                       CFX_KW(unitriangular, cfx_bool(unit)));
}

/* ---- inverse, solutions ---------------------------------------------------------------------- */

void grad_inv(cfx_back *b) {
    if (!b->gout[0])
        return;
    cfx_tensor *inverse = adjoint_of(b->out[0]);
    back_give(b, 0, cfx_neg(matmul(inverse, matmul(b->gout[0], inverse))));
}

/* A^-H x, or x A^-H where not left: by the factors of A, or A^T, that the call kept, or, where that
 * is to be differentiated again, from A itself. */
static cfx_tensor *solve_adjoint(cfx_tensor *a, cfx_tensor *lu, cfx_tensor *pivots, bool transposed,
                                 cfx_tensor *x, bool left) {
    if (back_recorded())
        return cfx_linalg_solve(adjoint_of(a), x, CFX_KW(left, cfx_bool(left)));
    return cfx_linalg_lu_solve(lu, pivots, x, CFX_KW(left, cfx_bool(left)),
                               CFX_KW(adjoint, cfx_bool(!transposed)));
}

void grad_solve(cfx_back *b) {
    cfx_tensor *g = b->gout[0], *x = b->out[0], *a = back_arg(b, 0);
    const cfx_tensor *rhs = back_arg(b, 1);
    const bool left = back_bool(b, 2);
    bool vector = rhs->ndim == 1;
    if (a->ndim - 1 == rhs->ndim && !vector)
        vector = !memcmp(a->shape, rhs->shape, (size_t)rhs->ndim * sizeof *rhs->shape);
    if (!g)
        return;
    if (vector)
        g = cfx_unsqueeze(g, -1), x = cfx_unsqueeze(x, -1);
    cfx_tensor *gb = solve_adjoint(a, b->out[1], b->out[2], false, g, left);
    if (b->needs[0]) {
        cfx_tensor *ga = left ? matmul(gb, adjoint_of(x)) : matmul(adjoint_of(x), gb);
        back_give_sum(b, 0, cfx_neg(ga));
    }
    if (b->needs[1])
        back_give_sum(b, 1, vector ? cfx_squeeze(gb, -1) : gb);
}

/* ---- determinants ---------------------------------------------------------------------------- */

/* Determinants keep the factors of A as it lies in memory: those of its transpose where it is real
 * and contiguous. */
static bool factors_of_transpose(const cfx_tensor *a) {
    return cfx__tensor_is_contiguous(a) && !cfx__dtype_is_complex(a->dtype);
}

/* Each number on the diagonal of a matrix as large as A. */
static cfx_tensor *on_diagonal(cfx_tensor *numbers, const cfx_tensor *a) {
    int64_t shape[CFX_MAX_DIMS];
    memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    cfx_value sizes = cfx_ints_value(a->ndim - 1, shape);
    return cfx_diag_embed(cfx_expand(cfx_unsqueeze(numbers, -1), sizes));
}

/* det A A^-H; where A is singular its factors are moved by a little first. */
void grad_det(cfx_back *b) {
    cfx_tensor *a = back_arg(b, 0), *lu = b->out[1];
    if (!b->gout[0])
        return;
    cfx_tensor *d = on_diagonal(cfx_mul(b->gout[0], conj_of(b->out[0])), a);
    if (!back_recorded()) {
        const double eps = a->dtype == CFX_F64 || a->dtype == CFX_C128 ? 2.22e-16 : 1.1920929e-7;
        cfx_tensor *zero = cfx_eq(cfx_diagonal(lu, 0, -2, -1), 0);
        cfx_tensor *more = cfx_mul(cfx_to(zero, cfx_dtype_value(lu->dtype)), eps);
        lu = cfx_add(lu, cfx_diag_embed(more));
    }
    back_give(b, 0, solve_adjoint(a, lu, b->out[2], factors_of_transpose(a), d, true));
}

void grad_slogdet(cfx_back *b) {
    cfx_tensor *a = back_arg(b, 0), *sign = b->gout[0];
    bool turns = sign && cfx__dtype_is_complex(a->dtype); /* a real sign is 1 or -1 */
    if (!b->gout[1] && !turns)
        return;
    cfx_tensor *g = back_gout(b, 1);
    if (turns)
        g = cfx_complex(g, cfx_neg(cfx_imag(cfx_mul(cfx_conj(sign), b->out[0]))));
    cfx_tensor *d = cast_to(on_diagonal(g, a), a->dtype);
    back_give(b, 0, solve_adjoint(a, b->out[2], b->out[3], factors_of_transpose(a), d,
                                  true));
}

/* ---- LU -------------------------------------------------------------------------------------- */

static cfx_tensor *first_rows(cfx_tensor *t, int64_t k) {
    return rows_of(t) == k ? t : cfx_slice(t, -2, 0, k);
}
static cfx_tensor *first_columns(cfx_tensor *t, int64_t k) {
    return cols_of(t) == k ? t : cfx_slice(t, -1, 0, k);
}

/* A = P L U with L [m, k] and U [k, n], k the smaller: from gradients of L and U, of which one may
 * be NULL, to that of A. L1 and U1 are the square parts; with M = tril(L1^H gL1 - gU2 U2^H, -1) +
 * triu(gU1 U1^H - L2^H gL2) it is P L1^-H [M U1^-H | gU2], and below gL2 U1^-H. */
static cfx_tensor *back_lu(cfx_tensor *gl, cfx_tensor *gu, cfx_tensor *p, cfx_tensor *l,
                           cfx_tensor *u) {
    const int64_t m = rows_of(l), n = cols_of(u), k = m < n ? m : n;
    gl = gl ? gl : zeros_as(l);
    gu = gu ? gu : zeros_as(u);
    cfx_tensor *l1 = first_rows(l, k), *u1 = first_columns(u, k), *below = NULL;
    cfx_tensor *lower = matmul(adjoint_of(l1), first_rows(gl, k));
    cfx_tensor *upper = matmul(first_columns(gu, k), adjoint_of(u1));
    if (n > k) {
        cfx_tensor *u2 = cfx_slice(u, -1, k), *gu2 = cfx_slice(gu, -1, k);
        lower = cfx_sub(lower, matmul(gu2, adjoint_of(u2)));
    }
    if (m > k) {
        cfx_tensor *l2 = cfx_slice(l, -2, k), *gl2 = cfx_slice(gl, -2, k);
        upper = cfx_sub(upper, matmul(adjoint_of(l2), gl2));
        below = triangular(adjoint_of(u1), gl2, false, false, false);
    }
    cfx_tensor *ga = cfx_add(cfx_tril(lower, -1), cfx_triu(upper));
    ga = triangular(adjoint_of(u1), ga, false, false, false);
    if (n > k)
        ga = cfx_cat(cfx_list(ga, cfx_slice(gu, -1, k)), -1);
    ga = triangular(adjoint_of(l1), ga, true, true, true);
    if (below)
        ga = cfx_cat(cfx_list(ga, below), -2);
    return p ? matmul(p, ga) : ga;
}

void grad_lu(cfx_back *b) {
    if (b->gout[1] || b->gout[2])
        back_give(b, 0, back_lu(b->gout[1], b->gout[2], back_bool(b, 1) ? b->out[0] : NULL,
                                b->out[1], b->out[2]));
}

void grad_lu_factor(cfx_back *b) {
    cfx_tensor *g = b->gout[0];
    if (!g)
        return;
    const int64_t m = rows_of(g), n = cols_of(g), k = m < n ? m : n;
    const bool pivot = back_bool(b, 1);
    cfx_value parts = cfx_lu_unpack(b->out[0], b->out[1], cfx_bool(true), cfx_bool(pivot));
    back_give(b, 0, back_lu(cfx_tril(first_columns(g, k), -1), cfx_triu(first_rows(g, k)),
                            pivot ? cfx_tensor_at(parts, 0) : NULL, cfx_tensor_at(parts, 1),
                            cfx_tensor_at(parts, 2)));
}

void grad_lu_unpack(cfx_back *b) {
    const cfx_tensor *lu = back_arg(b, 0);
    const int64_t m = rows_of(lu), n = cols_of(lu);
    cfx_tensor *l = b->gout[1] ? cfx_tril(b->gout[1], -1) : NULL;
    cfx_tensor *u = b->gout[2] ? cfx_triu(b->gout[2]) : NULL;
    if (l && n > m)
        l = cfx_constant_pad_nd(l, cfx_list(0, n - m));
    else if (l && n < cols_of(l))
        l = first_columns(l, n);
    if (u && m > n)
        u = cfx_constant_pad_nd(u, cfx_list(0, 0, 0, m - n));
    back_give(b, 0, plus(l, u));
}

/* The gradient of A first, where A X = B, X A = B, or the same with A^H; then A = P L U. */
void grad_lu_solve(cfx_back *b) {
    cfx_tensor *x = b->out[0];
    const bool left = back_bool(b, 3), adjoint = back_bool(b, 4);
    cfx_tensor *gb = cfx_linalg_lu_solve(b->args[0], b->args[1], b->gout[0],
                                         CFX_KW(left, b->args[3]),
                                         CFX_KW(adjoint, cfx_bool(!adjoint)));
    if (b->needs[2])
        back_give_sum(b, 2, gb);
    if (!b->needs[0])
        return;
    cfx_tensor *ga = left ? matmul(gb, adjoint_of(x)) : matmul(adjoint_of(x), gb);
    ga = cfx_neg(adjoint ? adjoint_of(ga) : ga);
    cfx_value parts = cfx_lu_unpack(b->args[0], b->args[1]);
    cfx_tensor *l = cfx_tensor_at(parts, 1), *u = cfx_tensor_at(parts, 2);
    ga = matmul(cfx_transpose(cfx_tensor_at(parts, 0), -2, -1), ga);
    back_give_sum(b, 0, cfx_add(cfx_tril(matmul(ga, adjoint_of(u)), -1),
                                cfx_triu(matmul(adjoint_of(l), ga))));
}

/* ---- triangles ------------------------------------------------------------------------------- */

static cfx_tensor *half_of(cfx_tensor *t, bool upper, bool unit) {
    return upper ? cfx_triu(t, (int)unit) : cfx_tril(t, -(int)unit);
}

void grad_solve_triangular(cfx_back *b) {
    const bool upper = back_bool(b, 2), left = back_bool(b, 3), unit = back_bool(b, 4);
    cfx_tensor *x = b->out[0];
    cfx_tensor *gb = triangular(adjoint_of(back_arg(b, 0)), b->gout[0], !upper, left, unit);
    if (b->needs[0]) {
        cfx_tensor *ga = left ? matmul(gb, adjoint_of(x)) : matmul(adjoint_of(x), gb);
        back_give_sum(b, 0, half_of(cfx_neg(ga), upper, unit));
    }
    if (b->needs[1])
        back_give_sum(b, 1, gb);
}

void grad_triangular_solve(cfx_back *b) {
    const bool upper = back_bool(b, 2), transpose = back_bool(b, 3), unit = back_bool(b, 4);
    cfx_tensor *ga = NULL, *x = conj_of(b->out[0]);
    if (b->gout[0]) {
        cfx_tensor *gb = cfx_tensor_at(
            cfx_triangular_solve(b->gout[0], conj_of(back_arg(b, 1)), b->args[2],
                                 cfx_bool(!transpose), b->args[4]), 0);
        if (b->needs[0])
            back_give_sum(b, 0, gb);
        ga = transpose ? matmul(x, cfx_mT(gb)) : matmul(gb, cfx_mT(x));
        ga = half_of(cfx_neg(ga), upper, unit);
    }
    if (b->needs[1])
        back_give_sum(b, 1, plus(ga, b->gout[1]));
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* L^-H S L^-1 / 2, where S is L^H gL with its lower part mirrored. */
void grad_cholesky(cfx_back *b) {
    cfx_tensor *g = b->gout[0], *l = b->out[0];
    const bool upper = back_bool(b, 1);
    if (!g)
        return;
    if (upper)
        g = adjoint_of(g), l = adjoint_of(l);
    cfx_tensor *s = matmul(adjoint_of(l), g);
    s = cfx_add(cfx_tril(s), adjoint_of(cfx_tril(s, -1)));
    s = triangular(adjoint_of(l), s, true, true, false);
    back_give(b, 0, cfx_mul(triangular(l, s, false, false, false), 0.5));
}

/* -(C + C^H) L, or -U (C + C^H): what a change of A = L L^H, or U^H U, does to its factor. */
static cfx_tensor *factor_grad(cfx_tensor *c, cfx_tensor *factor, bool upper) {
    c = cfx_neg(cfx_add(c, adjoint_of(c)));
    return upper ? matmul(factor, c) : matmul(c, factor);
}

void grad_cholesky_inverse(cfx_back *b) {
    cfx_tensor *inverse = b->out[0];
    cfx_tensor *c = matmul(inverse, matmul(b->gout[0], inverse));
    back_give(b, 0, factor_grad(c, back_arg(b, 0), back_bool(b, 1)));
}

void grad_cholesky_solve(cfx_back *b) {
    cfx_tensor *gb = cfx_cholesky_solve(b->gout[0], b->args[1], b->args[2]);
    if (b->needs[0])
        back_give_sum(b, 0, gb);
    if (b->needs[1])
        back_give_sum(b, 1, factor_grad(matmul(gb, adjoint_of(b->out[0])), back_arg(b, 1),
                                        back_bool(b, 2)));
}

/* ---- pseudo-inverse and least squares -------------------------------------------------------- */

/* By Golub and Pereyra, for matrices whose rank does not change nearby. */
static cfx_tensor *back_pinv(cfx_tensor *g, cfx_tensor *pinv, cfx_tensor *a) {
    cfx_tensor *pinvh = adjoint_of(pinv), *gh = adjoint_of(g);
    if (rows_of(a) <= cols_of(a)) {
        cfx_tensor *k = matmul(gh, pinv), *kp = matmul(k, pinvh);
        cfx_tensor *sum = cfx_sub(kp, adjoint_of(matmul(pinv, k)));
        sum = cfx_sub(sum, matmul(matmul(a, pinv), kp));
        return cfx_add(sum, matmul(matmul(pinvh, pinv), cfx_sub(gh, matmul(k, a))));
    }
    cfx_tensor *k = matmul(pinv, gh), *pk = matmul(pinvh, k);
    cfx_tensor *sum = cfx_sub(pk, adjoint_of(matmul(k, pinv)));
    sum = cfx_sub(sum, matmul(matmul(pk, pinv), a));
    return cfx_add(sum, matmul(matmul(cfx_sub(gh, matmul(a, k)), pinv), pinvh));
}

void grad_pinv(cfx_back *b) {
    if (b->needs[0])
        back_give(b, 0, back_pinv(b->gout[0], b->out[0], back_arg(b, 0)));
}

void grad_lstsq(cfx_back *b) {
    cfx_tensor *a = back_arg(b, 0), *rhs = back_arg(b, 1), *x = b->out[0], *g = b->gout[0];
    cfx_tensor *gl = b->gout[1] && b->gout[1]->numel ? b->gout[1] : NULL, *ga = NULL, *gb = NULL;
    const bool vector = rhs->ndim == 1 || rhs->ndim == a->ndim - 1;
    if (vector) {
        rhs = cfx_unsqueeze(rhs, -1), x = cfx_unsqueeze(x, -1);
        g = g ? cfx_unsqueeze(g, -1) : g, gl = gl ? cfx_unsqueeze(gl, -1) : gl;
    }
    if (g) {
        cfx_tensor *pinv = cfx_linalg_pinv(a);
        if (b->needs[0])
            ga = back_pinv(matmul(g, adjoint_of(rhs)), pinv, a);
        gb = matmul(adjoint_of(pinv), g);
    }
    if (gl) { /* residuals: the squared lengths of the columns of A X - B */
        cfx_tensor *r = cfx_mul(cfx_sub(matmul(a, x), rhs), cfx_mul(cfx_unsqueeze(gl, -2), 2));
        ga = plus(ga, matmul(r, adjoint_of(x)));
        gb = plus(gb, cfx_neg(r));
    }
    if (b->needs[0] && ga)
        back_give_sum(b, 0, ga);
    if (b->needs[1] && gb)
        back_give_sum(b, 1, vector ? cfx_squeeze(gb, -1) : gb);
}

/* ---- cross products, exponentials ------------------------------------------------------------ */

void grad_cross(cfx_back *b) {
    if (b->needs[0])
        back_give_sum(b, 0, cfx_linalg_cross(conj_of(back_arg(b, 1)), b->gout[0],
                                             CFX_KW(dim, b->args[2])));
    if (b->needs[1])
        back_give_sum(b, 1, cfx_linalg_cross(b->gout[0], conj_of(back_arg(b, 0)),
                                             CFX_KW(dim, b->args[2])));
}

/* The upper right block of exp [A^H g; 0 A^H]. */
void grad_matrix_exp(cfx_back *b) {
    cfx_tensor *a = adjoint_of(back_arg(b, 0)), *g = b->gout[0];
    const int64_t n = cols_of(a);
    cfx_tensor *top = cfx_cat(cfx_list(a, g), -1), *bottom = cfx_cat(cfx_list(zeros_as(a), a), -1);
    cfx_tensor *e = cfx_linalg_matrix_exp(cfx_cat(cfx_list(top, bottom), -2));
    back_give(b, 0, cfx_slice(cfx_slice(e, -2, 0, n), -1, n));
}
