/* Products by cuBLASLt: linear, mm, addmm, bmm and baddbmm, as layers with bias, addition and
 * relu in the epilogue, or as calls. cuBLASLt is column-major, so the row-major result [m, n] is
 * its n x m matrix. Start at cfx__cuda_try_product. */
#include <cfx/ops.h>

#include "../compile/layers.h"
#include "plan.h"

enum { /* as the library numbers them */
       REAL_32 = 0,
       REAL_64 = 1,
       REAL_16 = 2,
       REAL_BF16 = 14,
       COMPUTE_32 = 68,
       COMPUTE_64 = 70,
       COMPUTE_F16 = 74,
       COMPUTE_TF32 = 77,
       DESC_TRANSPOSE_A = 3,
       DESC_TRANSPOSE_B = 4,
       DESC_EPILOGUE = 7,
       DESC_BIAS = 8,
       LAYOUT_BATCH = 5,
       LAYOUT_BATCH_STRIDE = 6,
       CHOICE_SCRATCH = 1,
       CHOICE_REDUCTION = 3,
       IN_FLOAT32 = 2, /* parts of a sum are added up as they were computed */
       CHOICE_ALIGN_A = 5,
       EPILOGUE_RELU = 2,
       EPILOGUE_BIAS = 4,
       EPILOGUE_NONE = 1
};

enum { WAYS = 6 }; /* that are tried */

typedef struct {
    uint64_t algorithm[8];
    size_t scratch;
    int state;
    float waves;
    int reserved[4];
} choice;

/* A matrix, or one for each of a batch: rows, columns and strides in elements. */
typedef struct {
    const cfx__c_ref *ref;
    int64_t rows, cols, row, col, batch; /* strides but the first two */
} matrix;

typedef struct {
    cfx__cuda_job job;
    const cfx__cuda_blas *blas;
    cfx__cuda_device *device;
    void *desc, *layout[4]; /* of a, b, c, d */
    choice how[WAYS];
    cfx__c_ref a, b, c, d, bias;
    bool biased, wide;
    double alpha, beta;
} product;

static void product_free(void *obj) {
    product *p = obj;
    for (int i = 0; i < 4; i++)
        if (p->layout[i])
            p->blas->layout_destroy(p->layout[i]);
    if (p->desc)
        p->blas->desc_destroy(p->desc);
}

static const cfx__obj_type product_type = {.name = "product on a card", .free = product_free};

static bool product_run(const cfx__cuda_job *job, cfx__cuda_plan *plan) {
    const product *p = (const product *)job;
    const choice *how = &p->how[job->way];
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    const cfx__cuda_address bias = p->biased ? cfx__cuda_where(plan, &p->bias) : 0;
    const cfx__cuda_address scratch = plan->arena + (uint64_t)plan->scratch_at;
    if (p->biased && p->blas->desc_set(p->desc, DESC_BIAS, &bias, sizeof bias)) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "cuBLASLt takes no bias");
        return false;
    }
#define AT(ref) ((void *)(uintptr_t)cfx__cuda_where(plan, &p->ref))
    const int answer =
        p->blas->run(p->device->blas, p->desc, p->wide ? (const void *)&p->alpha : &alpha, AT(a),
                     p->layout[0], AT(b), p->layout[1], p->wide ? (const void *)&p->beta : &beta,
                     AT(c), p->layout[2], AT(d), p->layout[3], how->algorithm,
                     (void *)(uintptr_t)scratch, how->scratch, p->device->stream);
#undef AT
    if (answer)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "a product failed on cuda:%d: cuBLASLt says %d",
                 p->device->number, answer);
    return !answer;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int type_of(cfx_dtype d) {
    return d == CFX_F32    ? REAL_32
           : d == CFX_F64  ? REAL_64
           : d == CFX_F16  ? REAL_16
           : d == CFX_BF16 ? REAL_BF16
                           : -1;
}

/* The dims of a ref before its last as one; false where they do not lie so. */
static bool flat_rows(const cfx__c_ref *r, matrix *m) {
    const int last = r->ndim - 1;
    if (last < 0)
        return false;
    *m = (matrix){r, 1, r->shape[last], 0, r->stride[last], 0};
    return cfx__cuda_flatten(r, 1, &m->rows, &m->row);
}

static matrix batch_of(const cfx__c_ref *r) {
    return (matrix){r,
                    r->shape[1],
                    r->shape[2],
                    r->stride[1],
                    r->stride[2],
                    r->shape[0] == 1 ? 0 : r->stride[0]};
}

static matrix turned(matrix m) { return (matrix){m.ref, m.cols, m.rows, m.col, m.row, m.batch}; }

/* Strides of a single row or column may be anything. */
static void settle(matrix *m) {
    if (m->rows == 1)
        m->row = m->col == 1 ? m->cols : 1;
    if (m->cols == 1)
        m->col = m->row == 1 ? m->rows : 1;
}

/* A layout of an operand of rows times cols that lies by columns, turned or not. */
static void *layout_of(const cfx__cuda_blas *b, const matrix *m, int64_t count, int *turn) {
    void *layout = NULL;
    const bool straight = m->row == 1;
    const int64_t step = straight ? m->col : m->row, rows = straight ? m->rows : m->cols;
    const int32_t n = (int32_t)count;
    if ((!straight && m->col != 1) || step < rows || type_of(m->ref->dtype) < 0)
        return NULL;
    *turn = !straight;
    if (b->layout_create(&layout, type_of(m->ref->dtype), (uint64_t)rows,
                         (uint64_t)(straight ? m->cols : m->rows), step))
        return NULL;
    if (count > 1) {
        b->layout_set(layout, LAYOUT_BATCH, &n, sizeof n);
        b->layout_set(layout, LAYOUT_BATCH_STRIDE, &m->batch, sizeof m->batch);
    }
    return layout;
}

/* What the address of a ref can be divided by, at most 256. */
static uint32_t alignment(const cfx__c_ref *r) {
    const uint64_t at =
        (uint64_t)((r->where == CFX__C_ARENA ? r->base : 0) + r->at * cfx_dtype_size(r->dtype));
    return at ? (uint32_t)(at & -at) < 256 && at & 255 ? (uint32_t)(at & -at) : 256 : 256;
}

/* ---- making ---------------------------------------------------------------------------------- */

enum { SCRATCH = 32 << 20 };

/* Algorithms, the one that the library takes to be the fastest first. */
static bool choose(product *p) {
    const cfx__cuda_blas *b = p->blas;
    void *prefer = NULL;
    const size_t scratch = SCRATCH;
    const uint32_t reduction = IN_FLOAT32;
    const cfx__c_ref *refs[] = {&p->a, &p->b, &p->c, &p->d};
    int found = 0;
    if (b->choice_create(&prefer))
        return false;
    b->choice_set(prefer, CHOICE_SCRATCH, &scratch, sizeof scratch);
    b->choice_set(prefer, CHOICE_REDUCTION, &reduction, sizeof reduction);
    for (int i = 0; i < 4; i++) {
        const uint32_t by = alignment(refs[i]);
        b->choice_set(prefer, CHOICE_ALIGN_A + i, &by, sizeof by);
    }
    const int answer = b->choose(p->device->blas, p->desc, p->layout[0], p->layout[1], p->layout[2],
                                 p->layout[3], prefer, WAYS, p->how, &found);
    b->choice_destroy(prefer);
    for (int i = 0; !answer && i < found && i < WAYS; i++)
        if (!p->how[i].state)
            p->how[p->job.ways++] = p->how[i];
    return p->job.ways > 0;
}

/* What a product is of: x [m, k] times w [k, n], and what comes to it. */
typedef struct {
    matrix x, w, out;
    const cfx__c_ref *bias, *add; /* bias: one for each column */
    int64_t batch;
    double alpha, beta;
    bool relu;
} problem;

static int compute_of(cfx_dtype d) {
    static const int by_precision[] = {[CFX_PRECISION_F32] = COMPUTE_32,
                                       [CFX_PRECISION_BF16] = COMPUTE_32, /* see halves.c */
                                       [CFX_PRECISION_F16] = COMPUTE_F16,
                                       [CFX_PRECISION_TF32] = COMPUTE_TF32};
    return d == CFX_F64   ? COMPUTE_64
           : d == CFX_F32 ? by_precision[cfx_get_precision()]
                          : COMPUTE_32;
}

static product *make(cfx__cuda_device *d, problem q) {
    const cfx__cuda_blas *b = cfx__cuda_blas_open();
    const cfx_dtype type = q.x.ref->dtype;
    int ta = 0, tb = 0, none = 0;
    if (!b || (!d->blas && b->create(&d->blas)))
        return NULL;
    product *p = cfx__obj_make(&product_type, sizeof *p);
    p->job.name = "product (cuBLASLt)";
    p->job.uses = CFX__CUDA_USES_BLAS;
    p->job.run = product_run;
    p->blas = b;
    p->device = d;
    p->alpha = q.alpha;
    p->beta = q.add ? q.beta : 0;
    p->wide = type == CFX_F64;
    matrix a = turned(q.w), x = turned(q.x), o = turned(q.out);
    settle(&a), settle(&x), settle(&o);
    p->a = *q.w.ref, p->b = *q.x.ref, p->d = *q.out.ref;
    p->c = q.add ? *q.add : p->d;
    matrix c = o;
    c.ref = &p->c;
    const int scale = type == CFX_F64 ? REAL_64 : REAL_32;
    bool fine = !b->desc_create(&p->desc, compute_of(type), scale);
    p->layout[0] = layout_of(b, &a, q.batch, &ta);
    p->layout[1] = layout_of(b, &x, q.batch, &tb);
    p->layout[2] = layout_of(b, &c, q.batch, &none);
    p->layout[3] = layout_of(b, &o, q.batch, &none);
    for (int i = 0; i < 4; i++)
        fine &= p->layout[i] != NULL;
    if (fine && !none) {
        const int epilogue = (q.relu ? EPILOGUE_RELU : 0) | (q.bias ? EPILOGUE_BIAS : 0);
        const int does = epilogue ? epilogue : EPILOGUE_NONE;
        fine = !b->desc_set(p->desc, DESC_TRANSPOSE_A, &ta, sizeof ta) &&
               !b->desc_set(p->desc, DESC_TRANSPOSE_B, &tb, sizeof tb) &&
               !b->desc_set(p->desc, DESC_EPILOGUE, &does, sizeof does);
        p->biased = q.bias != NULL;
        if (q.bias)
            p->bias = *q.bias;
        const cfx__c_ref *reads[] = {&p->a, &p->b, &p->c, &p->bias};
        p->job.nreads = 3 + p->biased;
        memcpy(p->job.reads, reads, sizeof reads);
        fine = fine && choose(p);
        if (fine)
            return p;
    }
    cfx_drop(p);
    return NULL;
}

/* Takes the way that was found before, or leaves room for all of them to be tried. */
static void settle_way(product *p, int way) {
    p->job.way = way > 0 && way < p->job.ways ? way : 0;
    for (int i = way < 0 ? 0 : p->job.way; i < (way < 0 ? p->job.ways : p->job.way + 1); i++)
        if ((int64_t)p->how[i].scratch > p->job.scratch)
            p->job.scratch = (int64_t)p->how[i].scratch;
}

/* ---- what steps say -------------------------------------------------------------------------- */

/* The operands of a call of one of these operators; false where it is another, or lies otherwise.
 */
static bool read_problem(const cfx__c_work *k, const cfx_op *op, problem *q) {
    const cfx__c_ref *x = k->x, *w = k->w, *out = k->out;
    *q = (problem){.batch = 1, .alpha = k->alpha, .beta = 1, .add = k->add};
    if (op == &cfx_op_linear || op == &cfx_op_mm || op == &cfx_op_addmm) {
        if (w->ndim != 2 || !flat_rows(x, &q->x) || !flat_rows(out, &q->out))
            return false;
        q->w = (matrix){w, w->shape[0], w->shape[1], w->stride[0], w->stride[1], 0};
        if (op == &cfx_op_linear)
            q->w = turned(q->w);
    } else if (op == &cfx_op_bmm || op == &cfx_op_baddbmm) {
        if (x->ndim != 3 || w->ndim != 3 || out->ndim != 3)
            return false;
        q->x = batch_of(x), q->w = batch_of(w), q->out = batch_of(out);
        q->batch = out->shape[0];
    } else {
        return false;
    }
    const cfx__c_ref *b = k->bias;
    if (b && b->dtype == out->dtype && k->alpha == 1 && k->beta == 1 && b->ndim >= 1 &&
        cfx__c_count(b) == b->shape[b->ndim - 1] && b->shape[b->ndim - 1] == q->out.cols &&
        b->stride[b->ndim - 1] == 1)
        q->bias = b;
    else if (b)
        return false;
    return q->x.cols == q->w.rows && q->x.rows == q->out.rows && q->w.cols == q->out.cols &&
           q->out.col == 1 && x->dtype == w->dtype && out->dtype == x->dtype && q->x.rows &&
           q->x.cols && q->w.cols && q->batch && type_of(x->dtype) >= 0;
}

bool cfx__cuda_try_product(cfx__cuda_making *m, int slot) {
    cfx__c_work k;
    const cfx_op *op = cfx__cuda_work_of(m, slot, &k);
    problem q;
    if (!op || !k.w || !read_problem(&k, op, &q))
        return false;
    const int done = cfx__cuda_library_posts(&k, &q.add, &q.relu);
    if (k.packs)
        k.w = q.w.ref = cfx__c_constant(&m->c, k.packs, "weight");
    product *p = q.w.ref ? make(m->p->device, q) : NULL;
    if (!p)
        return false;
    settle_way(p, m->way);
    cfx__cuda_add_job(m, slot, &p->job);
    return cfx__cuda_posts(m, slot, &k, done);
}
