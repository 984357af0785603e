/* Kernels as CUDA C. Start at cfx__cuda_render. */
#include <ctype.h>

#include "../compile/layers.h"
#include "render.h"

/* What rendered kernels stand on: names of C, numbers of 16 bits, folds over threads of a row. */
static const char prelude[] =
    "#ifndef CFX_PLAY\n"
    "typedef signed char int8_t;\n"
    "typedef short int16_t;\n"
    "typedef int int32_t;\n"
    "typedef long long int64_t;\n"
    "typedef unsigned char uint8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fc00000)\n"
    "#define INT64_MAX 0x7fffffffffffffffLL\n"
    "#define INT64_MIN (-INT64_MAX - 1)\n"
    "#define INT64_C(x) x##LL\n"
    "#endif\n"
    "__device__ inline void cfx_previous() { /* see wait_for_previous in kernels/base.cu */\n"
    "#if defined CFX_PLAY\n"
    "    play_previous();\n"
    "#elif defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900\n"
    "    asm volatile(\"griddepcontrol.launch_dependents; griddepcontrol.wait;\" ::: \"memory\");\n"
    "#endif\n"
    "}\n"
    "struct cfx_call { int *bad; };\n"
    "__device__ inline float cfx_exp(float x) { return expf(x); }\n"
    "__device__ inline float cfx_log(float x) { return logf(x); }\n"
    "__device__ inline float cfx_tanh(float x) { return tanhf(x); }\n"
    "__device__ inline float cfx_erf(float x) { return erff(x); }\n"
    "__device__ inline float cfx_from_bf16(uint16_t h) {\n"
    "    return __uint_as_float((uint32_t)h << 16);\n"
    "}\n"
    "__device__ inline uint16_t cfx_to_bf16(float x) {\n"
    "    const uint32_t bits = __float_as_uint(x);\n"
    "    return (uint16_t)(x != x ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);\n"
    "}\n"
    "__device__ inline float cfx_from_f16(uint16_t h) {\n"
    "    const uint32_t bits = (uint32_t)h << 16, sign = bits & 0x80000000u, rest = bits + bits;\n"
    "    const float normal = __uint_as_float((rest >> 4) + (0xe0u << 23)) * 0x1p-112f;\n"
    "    const float small = __uint_as_float((rest >> 17) | (126u << 23)) - 0.5f;\n"
    "    return __uint_as_float(sign | __float_as_uint(rest < (1u << 27) ? small : normal));\n"
    "}\n"
    "__device__ inline uint16_t cfx_to_f16(float x) {\n"
    "    const uint32_t bits = __float_as_uint(x), sign = (bits >> 16) & 0x8000u;\n"
    "    const uint32_t rest = bits + bits, power = rest & 0xff000000u;\n"
    "    const uint32_t least = power < 0x71000000u ? 0x71000000u : power;\n"
    "    const float size = __uint_as_float(bits & 0x7fffffffu);\n"
    "    const float moved = (size * 0x1p112f) * 0x1p-110f;\n"
    "    const uint32_t sum = __float_as_uint(__uint_as_float((least >> 1) + 0x07800000u) + "
    "moved);\n"
    "    const uint32_t number = ((sum >> 13) & 0x7c00u) + (sum & 0xfffu);\n"
    "    return (uint16_t)(sign | (rest > 0xff000000u ? 0x7e00u : number));\n"
    "}\n"
    "struct cfx_sum {\n"
    "    template <typename V> __device__ V operator()(V a, V b) { return a + b; }\n"
    "};\n"
    "struct cfx_product {\n"
    "    template <typename V> __device__ V operator()(V a, V b) { return a * b; }\n"
    "};\n"
    "struct cfx_most { /* NaN wins */\n"
    "    template <typename V> __device__ V operator()(V a, V b) {\n"
    "        return a > b || a != a ? a : b;\n"
    "    }\n"
    "};\n"
    "struct cfx_least {\n"
    "    template <typename V> __device__ V operator()(V a, V b) {\n"
    "        return a < b || a != a ? a : b;\n"
    "    }\n"
    "};\n"
    "struct cfx_either { __device__ int operator()(int a, int b) { return a | b; } };\n"
    "struct cfx_both { __device__ int operator()(int a, int b) { return a & b; } };\n"
    "/* One value of those that the threads of a row have, LANES of them, STEP threads apart: the\n"
    "   same in each run, whatever the order in which threads come. All threads of a block call\n"
    "   it. */\n"
    "template <int LANES, int STEP, int THREADS, typename V, typename F>\n"
    "__device__ V cfx_fold(V v, int lane, F f) {\n"
    "    if (STEP == 1 && LANES == 32) {\n"
    "        for (int m = 16; m > 0; m /= 2)\n"
    "            v = f(v, __shfl_xor_sync(0xffffffffu, v, m));\n"
    "        return v;\n"
    "    }\n"
    "    __shared__ V part[THREADS];\n"
    "    const int at = threadIdx.x;\n"
    "    part[at] = v;\n"
    "    __syncthreads();\n"
    "    for (int m = LANES / 2; m > 0; m /= 2) {\n"
    "        if (lane < m)\n"
    "            part[at] = f(part[at], part[at + m * STEP]);\n"
    "        __syncthreads();\n"
    "    }\n"
    "    v = part[at - lane * STEP];\n"
    "    __syncthreads();\n"
    "    return v;\n"
    "}\n";

static cfx__cuda_pen *text_of(const cfx__c *c) { return (cfx__cuda_pen *)c->card; }

/* What an int counts to, with room for threads of a last block, which count on behind the end. */
enum { NARROW_MOST = INT32_MAX - 1024 };

/* ---- pointers -------------------------------------------------------------------------------- */

static void note_pointer(cfx__c *c, const cfx__c_ref *r, const char *name) {
    cfx__cuda_pen *t = text_of(c);
    cfx__cuda_name n = {name, *r};
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
        if (at[n] == '(' && !strstr(prelude, cfx__text_format(" %s(", name)) &&
            !strstr(prelude, cfx__text_format("struct %s ", name)) &&
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
    t->block = n < BLOCK ? n < 32 ? 32 : 64 : BLOCK;
    t->block = n > 64 && n < BLOCK ? 128 : t->block;
    cfx__c_line(c, "const %s at_ = (%s)blockIdx.x * %d + threadIdx.x;", index_type(t),
                index_type(t), t->block);
    cfx__c_line(c, "if (at_ >= %lld)", (long long)n);
    cfx__c_line(c, "    return;");
    put_indices(c, w, "at_");
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
    t->wide |= n > NARROW_MOST || length > NARROW_MOST;
    t->along = along;
    if (along) {
        t->lanes = power_above((length + 3) / 4, 32, 1024);
        t->rows = t->lanes < 128 ? 128 / t->lanes : 1;
    } else {
        t->rows = power_above(n, 1, n < 4096 ? 8 : 32); /* 32 bytes beside each other at least */
        t->lanes = power_above((length + 7) / 8, 1, 1024 / t->rows);
    }
    t->block = t->lanes * t->rows;
    t->threads = (n + t->rows - 1) / t->rows * t->block;
    cfx__c_line(c, "const int lane_ = threadIdx.x %c %d;", along ? '%' : '/',
                along ? t->lanes : t->rows);
    cfx__c_line(c, "const %s row_ = (%s)blockIdx.x * %d + threadIdx.x %c %d;", index_type(t),
                index_type(t), t->rows, along ? '/' : '%', along ? t->lanes : t->rows);
    cfx__c_line(c, "const bool live_ = row_ < %lld;", (long long)n);
    cfx__c_line(c, "const %s at_ = live_ ? row_ : 0;", index_type(t));
    put_indices(c, rows, "at_");
}

static void open_row(cfx__c *c, const cfx__c_walk *row) {
    const cfx__cuda_pen *t = text_of(c);
    cfx__c_open(c, "for (%s e_ = lane_; e_ < (live_ ? %lld : 0); e_ += %d)", index_type(t),
                (long long)cfx__c_walk_count(row), t->lanes);
    put_indices(c, row, "e_");
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

/* The function of a body: its name, and text the first time. */
static const char *function_of(cfx__cuda_pen *t, const char *parameters, const char *body) {
    const char *key = cfx__text_format("(%s) {\n    cfx_previous();\n%s}\n", parameters, body);
    const char *name = cfx__map_get(&t->known, key);
    if (name)
        return name;
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *at = key; *at; at++)
        h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    name = cfx__text_format("cfx_%016llx_%zu", (unsigned long long)h, t->known.len);
    cfx__map_set(&t->known, key, (void *)name);
    cfx__text_printf(&t->functions, "extern \"C\" __global__ void %s%s\n", name, key);
    return name;
}

static void close_kernel(cfx__c *c) {
    cfx__cuda_pen *t = text_of(c);
    const char *body = cfx__text_format("%.*s", (int)(c->out.len - t->start),
                                        c->out.data ? c->out.data + t->start : "");
    c->out.len = t->start;
    c->indent = 0;
    t->card.inside = false;
    t->card.loose |= !has_functions(c, body);
    if (!t->threads || t->card.loose)
        return;
    cfx__cuda_rendered k = {.block = (unsigned)t->block,
                            .grid = (unsigned)((t->threads + t->block - 1) / t->block)};
    cfx__text parameters = {0};
    cfx__c_ref *refs = cfx__arena_alloc(&c->memory, (t->names.len + 1) * sizeof *refs);
    for (size_t i = 0; i < t->names.len; i++) {
        const cfx__cuda_name *p = &t->names.data[i];
        if (!has_word(body, p->name))
            continue;
        cfx__text_printf(&parameters, "%s%s *%s", k.n ? ", " : "", cfx__c_type(p->ref.dtype),
                         p->name);
        refs[k.n++] = p->ref;
    }
    k.flags = strstr(body, "c->bad") != NULL;
    if (k.flags) {
        cfx__text_printf(&parameters, "%sint *bad_", k.n ? ", " : "");
        body = cfx__text_format("    const cfx_call call_ = {bad_}, *c = &call_;\n%s", body);
    }
    if (k.n >= CFX__CUDA_REFS || t->threads / t->block >= INT32_MAX)
        t->card.loose = true;
    k.refs = refs;
    k.function = function_of(t, cfx__text_take(&parameters), body);
    VEC_PUSH(t->made, k);
}

/* ---- the ways in ----------------------------------------------------------------------------- */

void cfx__cuda_pen_begin(cfx__cuda_pen *t, cfx__c *c) {
    *t = (cfx__cuda_pen){.card = {.pointer = note_pointer,
                                  .open = open_walk,
                                  .open_rows = open_rows,
                                  .close = close_kernel,
                                  .open_row = open_row,
                                  .fold = put_fold,
                                  .open_once = open_once}};
    c->card = &t->card;
    c->name = "cfx";
    c->upper = "CFX";
}

void cfx__cuda_pen_end(cfx__cuda_pen *t) {
    cfx__text_release(&t->functions);
    cfx__map_release(&t->known);
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

const char *cfx__cuda_pen_whole(const cfx__cuda_pen *t, const cfx__c *c) {
    return cfx__text_format("%s%s%s", prelude, c->helpers.len ? c->helpers.data : "",
                            t->functions.len ? t->functions.data : "");
}
