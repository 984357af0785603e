/* Kernels as CUDA C. Start at cfx__cuda_render. */
#include <ctype.h>

#include "../compile/layers.h"
#include "kernels.h"
#include "render.h"

/* What rendered kernels stand on. */
static const char *prelude(void) { return cfx__cuda_text("rendered"); }

static cfx__cuda_pen *text_of(const cfx__c *c) { return (cfx__cuda_pen *)c->card; }

/* What an int counts to, with room for threads of a last block, which count on behind the end. */
enum { NARROW_MOST = INT32_MAX - 1024 };

/* ---- pointers -------------------------------------------------------------------------------- */

static void note_pointer(cfx__c *c, const cfx__c_ref *r, const char *name, bool written) {
    cfx__cuda_pen *t = text_of(c);
    cfx__cuda_name n = {name, *r, written};
    int64_t reach = 1;
    for (int i = 0; i < r->ndim; i++)
        reach += (r->shape[i] - 1) * (r->stride[i] < 0 ? -r->stride[i] : r->stride[i]);
    t->wide |= reach > NARROW_MOST;
    if (r->moves || cfx__dtype_is_complex(r->dtype) || r->where == CFX__C_NOWHERE)
        t->card.loose = true;
    for (size_t i = 0; i < t->names.len; i++)
        if (!strcmp(t->names.data[i].name, name)) {
            t->names.data[i] = n;
            return;
        }
    VEC_PUSH(t->names, n);
}

static bool is_name(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

static bool has_word(const char *text, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || !is_name(at[-1])) && !is_name(at[n]))
            return true;
    return false;
}

/* Whether all functions of ours that a body calls are there on a card: those of the prelude, and
 * helpers that were written with it. What calls a kernel of the C file is for the host. */
static bool has_functions(const cfx__c *c, const char *body) {
    for (const char *at = body; (at = strstr(at, "cfx_")); at++) {
        size_t n = 0;
        if (at != body && is_name(at[-1]))
            continue;
        while (is_name(at[n]))
            n++;
        const char *name = cfx__text_format("%.*s", (int)n, at);
        if (at[n] == '(' && !strstr(prelude(), cfx__text_format(" %s(", name)) &&
            !strstr(prelude(), cfx__text_format("struct %s ", name)) &&
            !(c->helpers.len && strstr(c->helpers.data, cfx__text_format(" %s(", name))))
            return false;
    }
    return true;
}

/* ---- the beginning and the end of a kernel --------------------------------------------------- */

static const char *index_type(const cfx__cuda_pen *t) { return t->wide ? "int64_t" : "int"; }

static void begin(cfx__c *c) {
    cfx__cuda_pen *t = text_of(c);
    t->start = c->out.len;
    t->card.inside = true;
    c->indent = 1;
}

/* The variables of a walk, of a number that counts its elements. */
static void put_indices(cfx__c *c, const cfx__c_walk *w, const char *of) {
    const char *type = index_type(text_of(c));
    int64_t below = 1;
    for (int i = w->ndim - 1; i >= 0; below *= w->shape[i--]) {
        cfx__text v = {0};
        cfx__text_puts(&v, of);
        if (below != 1)
            cfx__text_printf(&v, " / %lld", (long long)below);
        if (i)
            cfx__text_printf(&v, " %% %lld", (long long)w->shape[i]);
        cfx__c_line(c, "const %s %s = %s;", type, cfx__c_var(w->first + i), cfx__text_take(&v));
    }
}

enum { BLOCK = 256 };

static void open_walk(cfx__c *c, const cfx__c_walk *w) {
    cfx__cuda_pen *t = text_of(c);
    const int64_t n = cfx__c_walk_count(w);
    begin(c);
    t->card.loose |= w->serial && n > 1;
    t->wide |= n > NARROW_MOST;
    t->threads = n;
    t->walks = true;
    t->walk = *w;
}

/* The body of a walk with what comes before it, for one element or, where it is worth it, for
 * several. */
static const char *walk_text(cfx__c *c, const char *body) {
    cfx__cuda_pen *t = text_of(c);
    const cfx__c_walk *w = &t->walk;
    const int64_t beside = w->ndim ? w->shape[w->ndim - 1] : 1;
    const int by = cfx__cuda_wide(t, t->threads, beside);
    const char *var = by > 1 ? cfx__c_var(w->first + w->ndim - 1) : "";
    const char *several = by > 1 ? cfx__cuda_widen(t, body, var, by) : NULL;
    t->several = several ? by : 1;
    t->threads /= t->several;
    const int64_t n = t->threads;
    t->block = n < BLOCK ? n < 32 ? 32 : 64 : BLOCK;
    t->block = n > 64 && n < BLOCK ? 128 : t->block;
    cfx__c_line(c, "if (at_ >= %lld)", (long long)n);
    cfx__c_line(c, "    return;");
    put_indices(c, w, several ? cfx__text_format("(at_ * %d)", by) : "at_");
    const char *head = cfx__text_format("%.*s", (int)(c->out.len - t->start),
                                        c->out.data ? c->out.data + t->start : "");
    c->out.len = t->start;
    return cfx__text_format("%s%s", head, several ? several : body);
}

static int power_above(int64_t n, int least, int most) {
    int p = least;
    while (p < n && p < most)
        p *= 2;
    return p;
}

static void open_rows(cfx__c *c, const cfx__c_walk *rows, const cfx__c_walk *row, bool along) {
    cfx__cuda_pen *t = text_of(c);
    const int64_t n = cfx__c_walk_count(rows), length = cfx__c_walk_count(row);
    begin(c);
    t->walks = false;
    t->several = 1;
    t->wide |= n > NARROW_MOST || length > NARROW_MOST;
    t->along = along;
    if (t->within) { /* a block's own, one row after the other */
        t->along = along = true;
        t->lanes = t->within;
        t->rows = 1;
    } else if (along) {
        /* Pieces of a row: one for each thread, four where there are rows enough for all. */
        const int64_t beside = row->ndim ? row->shape[row->ndim - 1] : 1;
        t->several = cfx__cuda_wide(t, n * length, beside);
        while (t->several > 1 && length / t->several < 32) /* a warp has at least */
            t->several /= 2;
        const int64_t each = t->several == 1 || n * length / t->several > 8 * t->full ? 4 : 1;
        t->lanes = power_above((length / t->several + each - 1) / each, 32, 1024);
        t->rows = t->lanes < 128 ? 128 / t->lanes : 1;
    } else {
        t->rows = power_above(n, 1, n < 4096 ? 8 : 32); /* 32 bytes beside each other at least */
        t->lanes = power_above((length + 7) / 8, 1, 1024 / t->rows);
    }
    t->block = t->lanes * t->rows;
    t->threads = (n + t->rows - 1) / t->rows * t->block;
    cfx__c_line(c, "const int lane_ = threadIdx.x %c %d;", along ? '%' : '/',
                along ? t->lanes : t->rows);
    cfx__c_line(c, "const %s row_ = at_block_ * %d + threadIdx.x %c %d;", index_type(t), t->rows,
                along ? '/' : '%', along ? t->lanes : t->rows);
    cfx__c_line(c, "const bool live_ = row_ < %lld;", (long long)n);
    cfx__c_line(c, "const %s at_ = live_ ? row_ : 0;", index_type(t));
    put_indices(c, rows, "at_");
}

static void open_row(cfx__c *c, const cfx__c_walk *row) {
    cfx__cuda_pen *t = text_of(c);
    t->row_start = c->out.len;
    t->walk = *row;
    c->indent++;
}

static void close_row(cfx__c *c) {
    cfx__cuda_pen *t = text_of(c);
    const cfx__c_walk *row = &t->walk;
    const char *body = cfx__text_format("%.*s", (int)(c->out.len - t->row_start),
                                        c->out.data ? c->out.data + t->row_start : "");
    const char *last = row->ndim ? cfx__c_var(row->first + row->ndim - 1) : "";
    const char *several =
        t->several > 1 ? cfx__cuda_widen(t, body, last, t->several) : NULL;
    const int by = several ? t->several : 1;
    c->out.len = t->row_start;
    c->indent--;
    if (t->within)
        cfx__c_line(c, "#pragma unroll 4");
    cfx__c_open(c, "for (%s e_ = lane_ * %d; e_ < (live_ ? %lld : 0); e_ += %d)", index_type(t),
                by, (long long)cfx__c_walk_count(row), t->lanes * by);
    put_indices(c, row, "e_");
    cfx__text_puts(&c->out, several ? several : body);
    cfx__c_close(c);
}

static void put_fold(cfx__c *c, cfx__loop_fold how, const char *name) {
    static const char *const by[] = {
        [CFX__FOLD_SUM] = "sum",      [CFX__FOLD_NANSUM] = "sum", [CFX__FOLD_MEAN] = "sum",
        [CFX__FOLD_PROD] = "product", [CFX__FOLD_MAX] = "most",   [CFX__FOLD_MIN] = "least",
        [CFX__FOLD_COUNT] = "sum",    [CFX__FOLD_ANY] = "either", [CFX__FOLD_ALL] = "both"};
    const cfx__cuda_pen *t = text_of(c);
    cfx__c_line(c, "%s = cfx_fold<%d, %d, %d>(%s, lane_, cfx_%s());", name, t->lanes,
                t->along ? 1 : t->rows, t->block, name, by[how]);
}

static void open_once(cfx__c *c) { cfx__c_open(c, "if (live_ && lane_ == 0)"); }

/* The number of the function that does this; a new one the first time. one: for an element or the
 * rows of a block; NULL where that is other functions' work. */
static int function_of(cfx__cuda_pen *t, const char *one, const char *kernel) {
    for (size_t i = 0; i < t->functions.len; i++) {
        const cfx__cuda_function_text *f = &t->functions.data[i];
        if (!strcmp(f->kernel, kernel) && !f->one == !one && (!one || !strcmp(f->one, one)))
            return (int)i;
    }
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++)
        for (const char *at = i ? kernel : one ? one : ""; *at; at++)
            h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    cfx__cuda_function_text f = {
        cfx__text_format("cfx_%016llx_%zu", (unsigned long long)h, t->functions.len), one, kernel,
        false, false};
    VEC_PUSH(t->functions, f);
    return (int)t->functions.len - 1;
}

static void close_kernel(cfx__c *c) {
    cfx__cuda_pen *t = text_of(c);
    const char *body = cfx__text_format("%.*s", (int)(c->out.len - t->start),
                                        c->out.data ? c->out.data + t->start : "");
    c->out.len = t->start;
    if (t->walks && t->threads)
        body = walk_text(c, body);
    c->indent = 0;
    t->card.inside = false;
    t->card.loose |= !has_functions(c, body);
    if (!t->threads || t->card.loose)
        return;
    cfx__cuda_rendered k = {.block = (unsigned)t->block,
                            .grid = (unsigned)((t->threads + t->block - 1) / t->block),
                            .elements = t->walks && t->several == 1 ? t->threads : 0};
    cfx__text parameters = {0}, arguments = {0};
    cfx__c_ref *refs = cfx__arena_alloc(&c->memory, (t->names.len + 1) * sizeof *refs);
    bool *writes = cfx__arena_alloc(&c->memory, t->names.len + 1);
    for (size_t i = 0; i < t->names.len; i++) {
        const cfx__cuda_name *p = &t->names.data[i];
        if (!has_word(body, p->name))
            continue;
        cfx__text_printf(&parameters, "%s%s *%s%s", k.n ? ", " : "", cfx__c_type(p->ref.dtype),
                         t->within ? "__restrict__ " : "", p->name); /* written in shared memory */
        cfx__text_printf(&arguments, "%s, ", p->name);
        writes[k.n] = p->written;
        refs[k.n++] = p->ref;
    }
    k.flags = strstr(body, "c->bad") != NULL;
    if (k.flags) {
        cfx__text_printf(&parameters, "%sint *bad_", k.n ? ", " : "");
        cfx__text_puts(&arguments, "bad_, ");
        body = cfx__text_format("    const cfx_call call_ = {bad_}, *c = &call_;\n%s", body);
    }
    if (k.n >= CFX__CUDA_REFS || t->threads / t->block >= INT32_MAX)
        t->card.loose = true;
    k.refs = refs;
    k.writes = writes;
    const char *given = parameters.len ? cfx__text_take(&parameters) : "";
    const char *passed = arguments.len ? cfx__text_take(&arguments) : "";
    const char *type = index_type(t), *number = t->walks ? "at_" : "at_block_";
    const char *of = "blockIdx.x";
    if (t->walks)
        of = cfx__text_format("(%s)blockIdx.x * %d + threadIdx.x", type, t->block);
    k.text = function_of(
        t, cfx__text_format("(%s%s%s %s) {\n%s}\n", given, *given ? ", " : "", type, number, body),
        cfx__text_format("(%s) {\n    cfx_previous();\n    @_one(%s%s);\n}\n", given, passed, of));
    k.function = t->functions.data[k.text].name;
    VEC_PUSH(t->made, k);
}

/* ---- several as one -------------------------------------------------------------------------- */

/* What threads do for the elements of one phase; how many threads have something to do at once. */
static int put_phase(cfx__cuda_pen *t, cfx__text *body, int n, const int *made, const int *phase,
                     int now, int block) {
    cfx__text calls = {0};
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        const cfx__cuda_rendered *k = &t->made.data[made[i]];
        if (phase[i] != now)
            continue;
        const int64_t end = from + (k->elements + 31) / 32 * 32; /* warps do one thing */
        cfx__text_printf(&calls, "        %sif (i_ < %lld)\n            %s_one(",
                         from ? "else " : "", (long long)end, k->function);
        for (int r = 0; r < k->n; r++)
            cfx__text_printf(&calls, "s%d_%d, ", i, r);
        cfx__text_printf(&calls, "%si_ - %lld);\n", k->flags ? "bad_, " : "", (long long)from);
        from = end;
    }
    cfx__text_printf(body, "    for (int i_ = threadIdx.x; i_ < %lld; i_ += %d) {\n%s    }\n",
                     (long long)from, block, calls.len ? cfx__text_take(&calls) : "");
    return (int)(from < 1024 ? from : 1024);
}

int cfx__cuda_render_joined(cfx__cuda_pen *t, cfx__c *c, int n, const int *made,
                            const int *phase) {
    cfx__text parameters = {0}, body = {0};
    cfx__cuda_rendered k = {.grid = 1};
    int phases = 0, most = 32;
    for (int i = 0; i < n; i++) {
        k.n += t->made.data[made[i]].n;
        k.flags |= t->made.data[made[i]].flags;
        phases = phase[i] >= phases ? phase[i] + 1 : phases;
    }
    if (k.n >= CFX__CUDA_REFS)
        return -1;
    cfx__c_ref *refs = cfx__arena_alloc(&c->memory, (size_t)(k.n + 1) * sizeof *refs);
    bool *writes = cfx__arena_alloc(&c->memory, (size_t)k.n + 1);
    k.n = 0;
    for (int i = 0; i < n; i++) {
        const cfx__cuda_rendered *of = &t->made.data[made[i]];
        t->functions.data[of->text].is_called = true;
        for (int r = 0; r < of->n; r++) {
            cfx__text_printf(&parameters, "%s%s *s%d_%d", k.n ? ", " : "",
                             cfx__c_type(of->refs[r].dtype), i, r);
            writes[k.n] = of->writes[r];
            refs[k.n++] = of->refs[r];
        }
    }
    if (k.flags)
        cfx__text_puts(&parameters, ", int *bad_");
    for (int now = 0; now < phases; now++) {
        cfx__text tried = {0};
        const int threads = put_phase(t, &tried, n, made, phase, now, 0);
        cfx__text_release(&tried);
        most = threads > most ? threads : most;
    }
    k.block = (unsigned)power_above(most, 32, 1024);
    cfx__text_puts(&body, "    cfx_previous();\n");
    for (int now = 0; now < phases; now++) {
        if (now)
            cfx__text_puts(&body, "    __syncthreads();\n");
        put_phase(t, &body, n, made, phase, now, (int)k.block);
    }
    k.refs = refs;
    k.writes = writes;
    k.text = function_of(t, NULL, cfx__text_format("(%s) {\n%s}\n", cfx__text_take(&parameters),
                                                   cfx__text_take(&body)));
    k.function = t->functions.data[k.text].name;
    VEC_PUSH(t->made, k);
    return (int)t->made.len - 1;
}

/* ---- the ways in ----------------------------------------------------------------------------- */

void cfx__cuda_pen_begin(cfx__cuda_pen *t, cfx__c *c, int64_t full) {
    *t = (cfx__cuda_pen){.full = full,
                         .card = {.pointer = note_pointer,
                                  .open = open_walk,
                                  .open_rows = open_rows,
                                  .close = close_kernel,
                                  .open_row = open_row,
                                  .close_row = close_row,
                                  .fold = put_fold,
                                  .open_once = open_once}};
    c->card = &t->card;
    c->name = "cfx";
    c->upper = "CFX";
}

void cfx__cuda_pen_end(cfx__cuda_pen *t) {
    VEC_FREE(t->functions);
    VEC_FREE(t->names);
    VEC_FREE(t->made);
}

/* Begins a piece of work; what t->made has then. */
static size_t start(cfx__cuda_pen *t) {
    t->names.len = 0;
    t->wide = false;
    t->card.loose = t->card.inside = false;
    return t->made.len;
}

/* Whether it could be written; else what there is of it is taken back. */
static bool finish(cfx__cuda_pen *t, cfx__c *c, size_t before, size_t problems) {
    const bool fine = cfx_ok() && !t->card.loose && c->problems.len == problems;
    c->problems.len = problems;
    c->indent = 0;
    t->card.inside = false;
    if (!fine)
        t->made.len = before;
    return fine;
}

bool cfx__cuda_render(cfx__cuda_pen *t, cfx__c_unit *u, int slot) {
    const size_t problems = u->c->problems.len, before = start(t);
    const int64_t scratch = u->c->scratch;
    if (u->plan->kernels[slot].kind == CFX__PLAN_HIGHER)
        return false;
    u->c->scratch = 0;
    if (!cfx__cuda_put_call(u, slot))
        cfx__c_unit_kernel(u, slot);
    t->card.loose |= u->c->scratch != 0;
    u->c->scratch = scratch;
    return finish(t, u->c, before, problems);
}

bool cfx__cuda_render_within(cfx__cuda_pen *t, cfx__c_unit *u, int slot, int threads,
                             cfx__cuda_within *to) {
    const size_t before = t->made.len;
    t->within = threads;
    const bool fine = cfx__cuda_render(t, u, slot) && t->made.len == before + 1;
    t->within = 0;
    if (fine)
        to->is = t->made.data[before];
    t->made.len = before;
    if (!fine || to->is.flags)
        return false;
    const cfx__cuda_function_text *f = &t->functions.data[to->is.text];
    to->text = cfx__text_format("%s%s__device__ inline void %s_one%s\n", prelude(),
                                u->c->helpers.len ? u->c->helpers.data : "", f->name, f->one);
    return true;
}

bool cfx__cuda_render_copy(cfx__cuda_pen *t, cfx__c *c, const cfx__c_ref *to,
                           const cfx__c_ref *from) {
    const size_t before = start(t);
    cfx__c_copy(c, to, from);
    return finish(t, c, before, c->problems.len);
}

bool cfx__cuda_render_posts(cfx__cuda_pen *t, cfx__c *c, cfx__c_work *k) {
    const size_t before = start(t), problems = c->problems.len;
    const cfx_dtype d = k->out->dtype;
    cfx__c_walk w = cfx__c_walk_over(k->out->ndim, k->out->shape);
    const int out = cfx__c_walk_add(&w, k->out);
    const int add = k->add ? cfx__c_walk_add(&w, k->add) : -1;
    cfx__c_pointer(c, k->out, "out", true);
    if (k->add)
        cfx__c_pointer(c, k->add, "add", false);
    cfx__c_walk_settle(&w, out);
    cfx__c_walk_open(c, &w);
    cfx__c_line(c, "const %s sum = %s;", cfx__c_value_type(d),
                cfx__c_load(c, "out", cfx__c_at(&w, out), d));
    cfx__c_put_result(k, &w, out, add, d);
    cfx__c_walk_close(c, &w);
    return finish(t, c, before, problems);
}

bool cfx__cuda_render_index(cfx__cuda_pen *t, cfx__c *c, const cfx__cuda_index_call *call,
                            const cfx__c_ref *x, const cfx__c_ref *y,
                            const cfx__c_ref *const *by) {
    const size_t before = start(t), problems = c->problems.len;
    const bool puts = call->way != CFX__CUDA_TAKE;
    const int64_t *size = call->size;
    cfx__c_walk w = cfx__c_walk_over(call->ndim, size);
    const int in_x = cfx__c_walk_strides(&w, call->ndim, size, call->x_stride);
    const int in_y = cfx__c_walk_strides(&w, call->ndim, size, call->y_stride);
    int in_by[CFX__CUDA_INDEXES];
    cfx__text place = {0};
    cfx__c_pointer(c, x, "x", puts);
    cfx__c_pointer(c, y, "y", !puts);
    for (int n = 0; n < call->n; n++) {
        in_by[n] = cfx__c_walk_strides(&w, call->ndim, size, call->index[n].stride);
        cfx__c_pointer(c, by[n], cfx__text_format("by%d", n), false);
    }
    cfx__c_walk_settle(&w, puts ? in_x : in_y);
    cfx__c_walk_open(c, &w);
    for (int n = 0; n < call->n; n++) {
        const long long most = call->index[n].most;
        cfx__c_line(c, "int64_t p%d = (int64_t)by%d[%s];", n, n, cfx__c_at(&w, in_by[n]));
        if (call->wrap)
            cfx__c_line(c, "p%d += p%d < 0 ? %lld : 0;", n, n, most);
        cfx__c_line(c, "if (p%d < 0 || p%d >= %lld)", n, n, most);
        cfx__c_line(c, "    *c->bad = 1, p%d = 0;", n);
        cfx__text_printf(&place, " + p%d * %lld", n, (long long)call->index[n].step);
    }
    const char *at = cfx__text_format("%s%s", cfx__c_at(&w, in_x), cfx__text_take(&place));
    const cfx__c_ref *to = puts ? x : y, *of = puts ? y : x;
    const char *other = cfx__c_at(&w, in_y);
    const char *v = cfx__c_load(c, puts ? "y" : "x", puts ? other : at, of->dtype);
    cfx__c_line(c, "%s[%s] = %s;", puts ? "x" : "y", puts ? at : other,
                cfx__c_store(c, cfx__c_convert(c, v, of->dtype, to->dtype), to->dtype));
    cfx__c_walk_close(c, &w);
    return finish(t, c, before, problems);
}

const char *cfx__cuda_post_text(cfx__cuda_pen *t, cfx__c *c, const cfx__post *post) {
    cfx__loop_note note;
    const size_t from = c->out.len;
    if (!cfx__c_post(post, &note))
        return NULL;
    t->card.inside = true; /* for the lines that an expression needs before it */
    const char *v = cfx__c_expr(c, "t", note.says.expr, 1, &(cfx__c_term){"v", CFX_F32},
                                note.says.f, note.says.i, CFX_F32);
    t->card.inside = false;
    char *lines = (char *)cfx__text_format("%.*s", (int)(c->out.len - from),
                                           c->out.data ? c->out.data + from : "");
    c->out.len = from;
    for (char *at = lines; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    return v ? cfx__text_format("{ %sv = %s; } ", lines, v) : NULL;
}

void cfx__cuda_pen_use(cfx__cuda_pen *t, int made) {
    t->functions.data[t->made.data[made].text].is_launched = true;
}

const char *cfx__cuda_pen_whole(const cfx__cuda_pen *t, const cfx__c *c) {
    cfx__text all = {0};
    cfx__text_printf(&all, "%s%s", prelude(), c->helpers.len ? c->helpers.data : "");
    for (size_t i = 0; i < t->functions.len; i++) {
        const cfx__cuda_function_text *f = &t->functions.data[i];
        if (f->one && (f->is_called || f->is_launched))
            cfx__text_printf(&all, "__device__ inline void %s_one%s\n", f->name, f->one);
        if (!f->is_launched)
            continue;
        cfx__text_printf(&all, "extern \"C\" __global__ void %s", f->name);
        cfx__c_put_named(&all, f->kernel, f->name);
        cfx__text_puts(&all, "\n");
    }
    return cfx__text_take(&all);
}
