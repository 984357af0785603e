/* Gradients of orthogonal factors, singular values and eigenvalues. H is the adjoint. */
#include "linalg.h"

#include "../back.h"

#define matmul(a, b) cfx_matmul(a, b)

static cfx_tensor *rows(cfx_tensor *t) { return cfx_unsqueeze(t, -2); }    /* one for each column */
static cfx_tensor *columns(cfx_tensor *t) { return cfx_unsqueeze(t, -1); } /* one for each row */

/* ---- QR -------------------------------------------------------------------------------------- */

/* A = Q R with R square: (gQ + Q S) R^-H, where S mirrors the upper part of gR R^H - Q^H gQ. */
static cfx_tensor *back_square_qr(cfx_tensor *gq, cfx_tensor *gr, cfx_tensor *q, cfx_tensor *r) {
    cfx_tensor *s = NULL;
    if (gr)
        s = matmul(gr, adjoint_of(r));
    if (gq)
        s = plus(s, cfx_neg(matmul(adjoint_of(q), gq)));
    cfx_tensor *strict = cfx_triu(s, 1);
    cfx_tensor *diagonal = cfx_diag_embed(real_of(cfx_diagonal(s, 0, -2, -1)));
    s = cfx_add(cfx_add(strict, adjoint_of(strict)), diagonal);
    cfx_tensor *ga = plus(matmul(q, s), gq);
    return cfx_linalg_solve_triangular(adjoint_of(r), ga, CFX_KW(upper, cfx_bool(false)),
                                       CFX_KW(left, cfx_bool(false)));
}

void grad_qr(cfx_back *b) {
    cfx_tensor *gq = b->gout[0], *gr = b->gout[1], *q = b->out[0], *r = b->out[1];
    const char *mode = cfx_text(b->args[1]);
    const cfx_tensor *a = back_arg(b, 0);
    const int64_t m = rows_of(a), n = cols_of(a);
    if (!strcmp(mode, "r")) {
        cfx_fail(CFX_RUNTIME_ERROR, b->at,
                 "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
                 "Please use linalg.qr(A, mode='reduced') if you are going to require gradients "
                 "through 'Q' or 'R'.");
        return;
    }
    if (!strcmp(mode, "complete") && m > n) {
        cfx_fail(CFX_RUNTIME_ERROR, b->at,
                 "The QR decomposition is not differentiable when mode='complete' and nrows > "
                 "ncols");
        return;
    }
    if (!gq && !gr)
        return;
    if (m >= n) {
        back_give(b, 0, back_square_qr(gq, gr, q, r));
        return;
    }
    /* [A1 A2] = Q [R1 R2]: the columns that are too many are Q R2, and depend on A1 through Q */
    cfx_tensor *g2 = NULL, *r2 = cfx_slice(r, -1, m);
    if (gr) {
        cfx_tensor *gr2 = cfx_slice(gr, -1, m);
        g2 = matmul(q, gr2);
        gq = plus(gq, matmul(matmul(q, r2), adjoint_of(gr2)));
        gr = cfx_slice(gr, -1, 0, m);
    } else {
        g2 = zeros_as(r2);
    }
    cfx_tensor *g1 = back_square_qr(gq, gr, q, cfx_slice(r, -1, 0, m));
    back_give(b, 0, cfx_cat(cfx_list(g1, g2), -1));
}

/* ---- products of reflections ----------------------------------------------------------------- */

/* Column i of the reflectors, [m, 1]: zeros, a one, then what is below the diagonal. */
static cfx_tensor *reflector(cfx_tensor *a, int64_t i) {
    const int64_t m = rows_of(a);
    cfx_tensor *below = cfx_slice(cfx_slice(a, -1, i, i + 1), -2, i + 1);
    return cfx_constant_pad_nd(cfx_constant_pad_nd(below, cfx_list(0, 0, 1, 0), 1),
                               cfx_list(0, 0, m - rows_of(below) - 1, 0));
}

/* (I - tau v v^H) x */
static cfx_tensor *reflect(cfx_tensor *v, cfx_tensor *tau, cfx_tensor *x) {
    return cfx_sub(x, cfx_mul(tau, matmul(v, matmul(adjoint_of(v), x))));
}

/* The factor of reflection i; of the adjoint, whose reflections stand in the other order, its
 * conjugate. */
static cfx_tensor *factor(cfx_tensor *taus, int64_t i, bool adjoint) {
    cfx_tensor *tau = columns(cfx_slice(taus, -1, i, i + 1));
    return adjoint ? conj_of(tau) : tau;
}

/* H1 ... Hk x = y (or the adjoint of it) with reflections H = I - tau v v^H: the gradients of the
 * reflectors (arguments 0 and 1) from that of y. Each H stands between what is on its right, made
 * first, and what the gradient becomes on its way to it. */
static void back_reflections(cfx_back *b, cfx_tensor *x, cfx_tensor *g, bool reversed) {
    cfx_tensor *a = back_arg(b, 0), *taus = back_arg(b, 1);
    const int64_t k = taus->shape[taus->ndim - 1], wide = cols_of(a);
    cfx_value right = cfx_list_value(0, NULL), ga = cfx_list_value(0, NULL);
    cfx_value gtau = cfx_list_value(0, NULL);
    for (int64_t step = 0; step < k && !op_failed(); step++) {
        int64_t i = reversed ? step : k - 1 - step;
        cfx_list_append(cfx_as_list(right), cfx_tensor_value(x));
        x = reflect(reflector(a, i), factor(taus, i, reversed), x);
    }
    for (int64_t step = k; step-- > 0 && !op_failed();) {
        int64_t i = reversed ? step : k - 1 - step;
        cfx_tensor *v = reflector(a, i), *tau = factor(taus, i, reversed);
        cfx_tensor *r = cfx_tensor_at(right, step);
        cfx_tensor *kv = matmul(g, matmul(adjoint_of(r), v));
        cfx_tensor *khv = matmul(r, matmul(adjoint_of(g), v));
        cfx_tensor *gv = cfx_neg(cfx_add(cfx_mul(conj_of(tau), kv), cfx_mul(tau, khv)));
        cfx_tensor *gt = cfx_squeeze(cfx_neg(matmul(adjoint_of(v), kv)), -1);
        cfx_list_append(cfx_as_list(ga), cfx_tensor_value(gv));
        cfx_list_append(cfx_as_list(gtau), cfx_tensor_value(reversed ? conj_of(gt) : gt));
        g = reflect(v, conj_of(tau), g);
    }
    for (int64_t i = 0, j = k - 1; reversed && i < j; i++, j--) { /* made from last to first */
        cfx_value one = cfx_as_list(ga)->items[i], other = cfx_as_list(gtau)->items[i];
        cfx_as_list(ga)->items[i] = cfx_as_list(ga)->items[j], cfx_as_list(ga)->items[j] = one;
        cfx_as_list(gtau)->items[i] = cfx_as_list(gtau)->items[j],
        cfx_as_list(gtau)->items[j] = other;
    }
    if (b->needs[0]) {
        cfx_tensor *all = k ? cfx_tril(cfx_cat(ga, -1), -1) : zeros_as(a);
        back_give(b, 0, k && wide > k ? cfx_constant_pad_nd(all, cfx_list(0, wide - k)) : all);
    }
    if (b->needs[1])
        back_give(b, 1, k ? cfx_cat(gtau, -1) : zeros_as(taus));
}

void grad_householder(cfx_back *b) {
    const cfx_tensor *a = back_arg(b, 0);
    const int64_t m = rows_of(a), n = cols_of(a);
    cfx_tensor *eye = cfx_eye(m, n, CFX_KW(dtype, cfx_dtype_value(a->dtype)));
    back_reflections(b, cfx_expand(eye, sizes_of(a)), b->gout[0], false);
}

void grad_ormqr(cfx_back *b) {
    cfx_tensor *other = back_arg(b, 2), *g = b->gout[0];
    const bool left = back_bool(b, 3), transpose = back_bool(b, 4);
    if (b->needs[2])
        back_give(b, 2, cfx_ormqr(b->args[0], b->args[1], g, b->args[3], cfx_bool(!transpose)));
    if (!b->needs[0] && !b->needs[1])
        return;
    if (left)
        back_reflections(b, other, g, transpose);
    else
        back_reflections(b, adjoint_of(other), adjoint_of(g), !transpose);
}

/* ---- singular values ------------------------------------------------------------------------- */

static cfx_tensor *skew(cfx_tensor *t) { return cfx_sub(t, adjoint_of(t)); }

/* d_j - d_i, and 1 on the diagonal. */
static cfx_tensor *differences(cfx_tensor *d) {
    const int64_t n = d->shape[d->ndim - 1];
    cfx_tensor *eye = cfx_eye(n, CFX_KW(dtype, cfx_dtype_value(d->dtype)));
    return cfx_add(cfx_sub(rows(d), columns(d)), eye);
}

static cfx_tensor *back_svd(cfx_tensor *gu, cfx_tensor *gs, cfx_tensor *gvh, cfx_tensor *u,
                            cfx_tensor *s, cfx_tensor *vh) {
    const int64_t m = rows_of(u), n = cols_of(vh), k = s->shape[s->ndim - 1];
    if (!gu && !gvh)
        return m >= n ? matmul(u, cfx_mul(columns(gs), vh)) : matmul(cfx_mul(u, rows(gs)), vh);
    cfx_tensor *apart = differences(cfx_mul(s, s)), *inner = NULL;
    cfx_tensor *turned = gu ? skew(matmul(adjoint_of(u), gu)) : NULL;
    if (gu)
        inner = cfx_mul(cfx_div(turned, apart), rows(s));
    if (gvh)
        inner = plus(inner, cfx_mul(columns(s), cfx_div(skew(matmul(vh, adjoint_of(gvh))), apart)));
    if (gs)
        inner = cfx_add(inner, cfx_diag_embed(gs));
    if (gu && cfx__dtype_is_complex((cfx_dtype)u->dtype)) { /* vectors may turn by a phase */
        cfx_tensor *phase = cfx_div(cfx_diagonal(turned, 0, -2, -1), cfx_mul(s, 2));
        inner = cfx_add(inner, cfx_diag_embed(phase));
    }
    if (m > k && gu) { /* and what leads out of the space of U */
        cfx_tensor *out = cfx_div(gu, rows(s));
        inner = cfx_add(matmul(u, inner), cfx_sub(out, matmul(u, matmul(adjoint_of(u), out))));
        return matmul(inner, vh);
    }
    if (n > k && gvh) {
        cfx_tensor *out = cfx_div(gvh, columns(s));
        inner = cfx_add(matmul(inner, vh), cfx_sub(out, matmul(matmul(out, adjoint_of(vh)), vh)));
        return matmul(u, inner);
    }
    return m >= n ? matmul(u, matmul(inner, vh)) : matmul(matmul(u, inner), vh);
}

void grad_svd(cfx_back *b) {
    cfx_tensor *gu = b->gout[0], *gs = b->gout[1], *gvh = b->gout[2];
    cfx_tensor *u = b->out[0], *s = b->out[1], *vh = b->out[2];
    const int64_t k = s->shape[s->ndim - 1];
    if (!gu && !gs && !gvh)
        return;
    if (!back_bool(b, 2)) { /* values alone: the vectors are needed now */
        cfx_value parts = cfx_aten__linalg_svd(b->args[0], cfx_bool(false), cfx_bool(true));
        u = cfx_tensor_at(parts, 0), s = cfx_tensor_at(parts, 1), vh = cfx_tensor_at(parts, 2);
        gu = gvh = NULL;
    } else if (back_bool(b, 1)) { /* vectors beyond the values are not determined */
        u = cfx_slice(u, -1, 0, k), vh = cfx_slice(vh, -2, 0, k);
        gu = gu ? cfx_slice(gu, -1, 0, k) : NULL, gvh = gvh ? cfx_slice(gvh, -2, 0, k) : NULL;
    }
    back_give(b, 0, back_svd(gu, gs, gvh, u, s, vh));
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

void grad_eigh(cfx_back *b) {
    cfx_tensor *gl = b->gout[0], *gv = b->gout[1], *l = b->out[0], *v = b->out[1], *inner = NULL;
    if (!gl && !gv)
        return;
    if (!back_bool(b, 2)) {
        cfx_value parts = cfx_aten__linalg_eigh(b->args[0], b->args[1], cfx_bool(true));
        l = cfx_tensor_at(parts, 0), v = cfx_tensor_at(parts, 1), gv = NULL;
    }
    if (gv) {
        cfx_tensor *turn = cfx_mul(skew(matmul(adjoint_of(v), gv)), 0.5);
        inner = cfx_div(turn, differences(l));
    }
    if (!inner && gl)
        inner = matmul(cfx_mul(v, rows(gl)), adjoint_of(v));
    else
        inner = matmul(matmul(v, gl ? cfx_add(inner, cfx_diag_embed(gl)) : inner), adjoint_of(v));
    back_give(b, 0, inner);
}

/* Any square matrix: V^-H (diag gL + (V^H gV - V^H V diag Re(V^H gV)) / E*) V^H. */
static cfx_tensor *back_eig(cfx_tensor *gl, cfx_tensor *gv, cfx_tensor *l, cfx_tensor *v) {
    cfx_tensor *vh = adjoint_of(v), *inner = NULL;
    if (gv) {
        cfx_tensor *vhgv = matmul(vh, gv);
        cfx_tensor *length = cfx_real(cfx_diagonal(vhgv, 0, -2, -1));
        vhgv = cfx_sub(vhgv, cfx_mul(matmul(vh, v), rows(length)));
        inner = cfx_div(vhgv, conj_of(differences(l)));
        inner = cfx_sub(inner, cfx_diag_embed(cfx_diagonal(inner, 0, -2, -1)));
    }
    if (gl)
        inner = plus(inner, cfx_diag_embed(gl));
    return cfx_linalg_solve(vh, matmul(inner, vh));
}

void grad_eig(cfx_back *b) {
    if (b->gout[0] || b->gout[1])
        back_give(b, 0, cast_to(back_eig(b->gout[0], b->gout[1], b->out[0], b->out[1]),
                                back_arg(b, 0)->dtype));
}

void grad_eigvals(cfx_back *b) {
    cfx_value parts = cfx_linalg_eig(b->args[0]);
    back_give(b, 0, cast_to(back_eig(b->gout[0], NULL, cfx_tensor_at(parts, 0),
                                     cfx_tensor_at(parts, 1)), back_arg(b, 0)->dtype));
}
