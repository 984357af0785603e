/* Products with weights that are kept in panels: called once, and made ready for a plan. Which
 * products go this way is decided by their sizes alone, so that the same call gives the same bits
 * the first time and the thousandth. */
#include "bf16.h"
#include "gemm.h"
#include "int8.h"
#include "narrow.h"

#include "../../tensor/packed.h"

/* The panels of a matrix, those of bf16.h or of tile.h. */
typedef struct {
    const cfx__storage *storage;
    const tile_matrix *matrix;
    bool pairs;
    uint64_t key;
    size_t size;
} panel_form;

static cfx__packed *make_panels(void *user) {
    const panel_form *p = user;
    cfx__packed *form = cfx__packed_new(p->storage, p->key, p->size);
    if (form && p->pairs)
        bf16_panels_make(p->matrix, form->data);
    else if (form)
        tile_panels_make(p->matrix, form->data);
    return form;
}

/* The panels of a k by n matrix, kept with the storage of w; the caller owns a count. NULL when
 * there is no memory. */
static cfx__packed *panels_of(const cfx_tensor *w, const tile_matrix *m, bool pairs) {
    const int64_t facts[] = {m->k, m->n, m->row, m->col, m->kept, pairs, w->offset};
    panel_form p = {w->storage, m, pairs, cfx__packed_key("product", COUNT(facts), facts),
                pairs ? bf16_panels_size(m->k, m->n) : tile_panels_size(m->k, m->n, m->kept)};
    return cfx__packed_get(w->storage, p.key, p.size, make_panels, &p);
}

typedef struct {
    const cfx_tensor *of;
    uint64_t key;
    size_t size;
} columns;

static cfx__packed *make_columns(void *user) {
    const columns *c = user;
    const size_t size = (size_t)c->of->numel * sizeof(float);
    cfx__packed *form = cfx__packed_new(c->of->storage, c->key, c->size);
    if (form) {
        form->local = true; /* as fast to make as to read from a file */
        memcpy(form->data, c->of->data, size);
        memset((char *)form->data + size, 0, c->size - size);
    }
    return form;
}

cfx__packed *product_bias(const cfx_tensor *bias) {
    const int64_t n = (bias->numel + TILE_WIDEST - 1) / TILE_WIDEST * TILE_WIDEST;
    const size_t size = (size_t)n * sizeof(float);
    columns c = {bias, cfx__packed_key("bias", 1, &bias->numel), size};
    const bool whole = bias->storage->size == (size_t)bias->numel * sizeof(float);
    return whole ? cfx__packed_get(bias->storage, c.key, size, make_columns, &c) : make_columns(&c);
}

bool gemm_packed(const gemm *g, const cfx_tensor *weights, const cfx_tensor *bias) {
    enum { LEAST = 1 << 16 }; /* multiplications that are worth it */
    const tile_epilogue none = {0};
    if ((double)g->m * (double)g->n * (double)g->k < LEAST)
        return false;
    const tile_matrix m = {g->k, g->n, (const float *)g->b.data, g->b.row, g->b.col, NULL,
                           CFX_PRECISION_F32};
    cfx__packed *panels = panels_of(weights, &m, false);
    cfx__packed *added = panels && bias ? product_bias(bias) : NULL;
    if (!panels || (bias && !added)) {
        cfx_drop(panels);
        return false;
    }
    product p = {.m = g->m,
                 .n = g->n,
                 .k = g->k,
                 .a = (const float *)g->a.data,
                 .a_row = g->a.row,
                 .line = g->m,
                 .panels = panels->data,
                 .bias = added ? added->data : NULL,
                 .c = (float *)g->c.data,
                 .c_row = g->c.row,
                 .epilogue = &none};
    product_run(&p);
    cfx_drop(added);
    cfx_drop(panels);
    return true;
}

/* ---- ready kernels --------------------------------------------------------------------------- */

typedef struct {
    cfx__ready pub;
    product product;
    bf16_way way; /* BF16_NONE: over the panels of tile.h */
    tile_epilogue epilogue;
    cfx__packed *panels, *bias; /* counted */
} kernel;

static void kernel_free(void *obj) {
    kernel *k = obj;
    cfx_drop(k->panels);
    cfx_drop(k->bias);
}

static const cfx__obj_type kernel_type = {.name = "ready kernel", .free = kernel_free};

static bool run(const cfx__ready *r, const void *x, void *out, void *scratch) {
    const kernel *k = (const kernel *)r;
    product p = k->product;
    (void)scratch;
    p.a = x;
    p.c = out;
    if (k->way == BF16_NONE)
        product_run(&p);
    else
        bf16_product(&p, k->way);
    return cfx_ok();
}

int64_t product_row(const cfx_tensor *out) {
    const int last = out->ndim - 1;
    int64_t row = 0, next = 0;
    if (out->shape[last] != 1 && out->stride[last] != 1)
        return 0;
    for (int i = last - 1; i >= 0; i--) {
        if (out->shape[i] == 1)
            continue;
        row = row ? row : out->stride[i];
        if (next && out->stride[i] != next)
            return 0;
        next = out->stride[i] * out->shape[i];
    }
    return row ? row : out->shape[last];
}

bool gemm_takes(const product_layer *l, const cfx__epilogue *e) {
    const cfx_tensor *x = l->x, *w = l->w, *bias = l->bias, *out = l->out;
    tile_epilogue epilogue;
    if (e->integers)
        return int8_gemm_takes(l, e);
    if (e->narrow)
        return narrow_gemm_takes(l, e);
    return x->dtype == CFX_F32 && w->dtype == CFX_F32 && w->ndim == 2 && w->data && x->ndim &&
           out->numel && x->numel && w->storage && product_row(out) >= out->shape[out->ndim - 1] &&
           (!bias || (bias->dtype == CFX_F32 && bias->ndim == 1 && bias->data &&
                      cfx__tensor_is_contiguous(bias) &&
                      bias->shape[0] == w->shape[l->w_transposed ? 0 : 1])) &&
           (cfx__tensor_is_contiguous(x) || (x->ndim == 2 && x->stride[1] == 1)) &&
           tile_epilogue_of(e, &epilogue);
}

cfx__ready *gemm_ready(const product_layer *l, const cfx__epilogue *e) {
    const cfx_tensor *x = l->x, *w = l->w, *bias = l->bias, *out = l->out;
    if (e->integers)
        return int8_gemm_ready(l, e);
    if (e->narrow)
        return narrow_gemm_ready(l, e);
    matrices wm = l->w_transposed ? transposed(matrices_of(w)) : matrices_of(w);
    const int64_t k = x->shape[x->ndim - 1], m = x->numel / k;
    const int64_t n = w->shape[l->w_transposed ? 0 : 1];
    const tile_matrix matrix = {k, n, (const float *)wm.data, wm.row, wm.col, NULL,
                                tile_precision()};
    const bf16_way way = matrix.kept == CFX_PRECISION_BF16 ? bf16_best(m) : BF16_NONE;
    cfx__packed *panels = panels_of(w, &matrix, way != BF16_NONE);
    cfx__packed *added = panels && bias ? product_bias(bias) : NULL;
    if (!panels || (bias && !added)) {
        cfx_drop(panels);
        return NULL;
    }
    kernel *r = cfx__obj_make(&kernel_type, sizeof *r);
    r->panels = panels;
    r->bias = added;
    r->way = way;
    tile_epilogue_of(e, &r->epilogue);
    r->product = (product){.m = m,
                           .n = n,
                           .k = k,
                           .a_row = x->ndim == 2 && m > 1 ? x->stride[0] : k,
                           .line = m,
                           .panels = panels->data,
                           .kept = matrix.kept,
                           .bias = added ? added->data : NULL,
                           .c_row = product_row(out),
                           .epilogue = &r->epilogue};
    r->pub.name = way == BF16_NONE ? "product in tiles" : "product in tiles of bf16";
    r->pub.run = run;
    return &r->pub;
}
