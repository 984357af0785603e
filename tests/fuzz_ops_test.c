/* Every operator of the registry, called with random arguments that its schema allows and that it
 * often cannot take. Whatever comes, a call either gives a result, which then is what the fake call
 * said it would be and lies in the memory of an argument only where its row tells so, or records an
 * error; so does the backward pass from it. It never crashes, hangs, leaks or reads out of bounds
 * (the sanitizers look on in `make asan`). CFX_FUZZ_RUNS sets how many calls an operator gets,
 * CFX_FUZZ_SEED the seed, CFX_FUZZ_LOG=1 prints each call before it is made. */
#include "faults.h"
#include "test.h"

#include "../src/dispatch/dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHARDS = 8 };

typedef struct {
    uint64_t state;
    int ndim; /* of the last tensor made, so that later ones may fit */
    int64_t shape[6];
    cfx_dtype dtype;
    bool plain; /* no odd numbers: arguments that often fit */
} fuzzer;

static uint64_t draw(fuzzer *f) {
    f->state ^= f->state << 13;
    f->state ^= f->state >> 7;
    f->state ^= f->state << 17;
    return f->state;
}

static int64_t below(fuzzer *f, int64_t n) { return (int64_t)(draw(f) % (uint64_t)n); }
static bool chance(fuzzer *f, int percent) { return below(f, 100) < percent; }

/* ---- arguments ------------------------------------------------------------------------------- */

static int64_t some_int(fuzzer *f) {
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, (int64_t)1 << 40, -1000000,
                                  (int64_t)1 << 31, 4096, -7};
    return f->plain ? below(f, 5) : chance(f, 88) ? below(f, 7) - 2 : odd[below(f, COUNT(odd))];
}

static double some_float(fuzzer *f) {
    static const double odd[] = {0.0, -0.0, 1e-300, 1e30, -1e300, 1.0 / 0.0, -1.0 / 0.0};
    if (f->plain || chance(f, 70))
        return (double)(below(f, 2001) - 1000) / 250;
    return chance(f, 15) ? (double)__builtin_nan("") : odd[below(f, COUNT(odd))];
}

static void fill(fuzzer *f, cfx_tensor *t) {
    for (int64_t i = 0; i < t->numel; i++) {
        bool whole = !cfx__dtype_is_float(t->dtype) && !cfx__dtype_is_complex(t->dtype);
        cfx__tensor_set(t, i, whole ? cfx_int(below(f, 9) - 2) : cfx_float(some_float(f)));
    }
}

static cfx_tensor *some_tensor(fuzzer *f) {
    int64_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 8};
    bool fits = f->ndim >= 0 && chance(f, 65);
    if (!fits) {
        f->ndim = (int)below(f, 6);
        for (int i = 0; i < f->ndim; i++)
            f->shape[i] = sizes[below(f, COUNT(sizes))];
    }
    if (!fits || chance(f, 20))
        f->dtype = chance(f, 55) ? CFX_F32 : (cfx_dtype)below(f, CFX_DTYPE_COUNT);
    int64_t shape[6], stride[6], room = 1;
    int perm[6];
    for (int i = 0; i < f->ndim; i++) {
        shape[i] = fits && chance(f, 10) ? 1 : f->shape[i];
        perm[i] = i;
    }
    if (chance(f, 30)) /* in another order */
        for (int i = f->ndim - 1; i > 0; i--) {
            int k = (int)below(f, i + 1), held = perm[i];
            perm[i] = perm[k];
            perm[k] = held;
        }
    int64_t gap = chance(f, 20) ? 2 : 1;
    for (int i = f->ndim - 1; i >= 0; i--) {
        stride[perm[i]] = room * gap;
        room *= shape[perm[i]] > 0 ? shape[perm[i]] : 1;
    }
    for (int i = 0; i < f->ndim; i++)
        if (chance(f, 6))
            stride[i] = 0;
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, f->dtype, false, f->ndim, shape, stride);
    fill(f, t);
    return t;
}

static const char *some_text(fuzzer *f) {
    static const char *const words[] = {
        "mean", "sum", "none", "prod", "amax", "amin", "tanh", "floor", "trunc", "constant",
        "reflect", "replicate", "circular", "same", "valid", "ij", "xy", "L", "U", "left",
        "linear", "ortho", "forward", "ij,jk->ik", "...ij->...ji", "", "bogus", "reduced"};
    return words[below(f, COUNT(words))];
}

static cfx_value one(fuzzer *f, const cfx__schema_arg *a) {
    switch (a->type) {
    case CFX__T_TENSOR: return cfx_tensor_value(some_tensor(f));
    case CFX__T_INT: return cfx_int(some_int(f));
    case CFX__T_FLOAT: return cfx_float(some_float(f));
    case CFX__T_BOOL: return cfx_bool(chance(f, 50));
    case CFX__T_SCALAR: return chance(f, 50) ? cfx_int(some_int(f)) : cfx_float(some_float(f));
    case CFX__T_STR: return cfx_string_value(some_text(f));
    case CFX__T_DTYPE: return cfx_dtype_value((cfx_dtype)below(f, CFX_DTYPE_COUNT));
    case CFX__T_DEVICE: return cfx_device_value((cfx_device){CFX_CPU, -1});
    case CFX__T_LAYOUT: return cfx_layout_value(CFX_STRIDED);
    case CFX__T_MEMORY_FORMAT: return cfx_memory_format_value((cfx_memory_format)below(f, 4));
    case CFX__T_ANY: return chance(f, 60) ? cfx_tensor_value(some_tensor(f)) : cfx_int(some_int(f));
    default: return cfx_none();
    }
}

static cfx_value argument(fuzzer *f, const cfx__schema_arg *a) {
    if (a->optional && chance(f, 45))
        return cfx_none();
    if (a->has_default && chance(f, 35))
        return a->fallback;
    if (!a->list)
        return one(f, a);
    cfx_value list = cfx_list_value(0, NULL);
    int64_t n = a->list_len && chance(f, 80) ? a->list_len : below(f, 5);
    if (f->ndim >= 0 && chance(f, 40))
        n = f->ndim;
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list),
                        a->items_optional && chance(f, 30) ? cfx_none() : one(f, a));
    return list;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool same_meta(cfx_value a, cfx_value b) {
    if (a.tag == CFX_TAG_TENSOR && b.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(a)->dtype == cfx_as_tensor(b)->dtype &&
               cfx__tensor_same_shape(cfx_as_tensor(a), cfx_as_tensor(b)) &&
               !memcmp(cfx_as_tensor(a)->stride, cfx_as_tensor(b)->stride,
                       (size_t)cfx_as_tensor(a)->ndim * sizeof *cfx_as_tensor(a)->stride);
    if ((a.tag == CFX_TAG_TUPLE || a.tag == CFX_TAG_LIST) && a.tag == b.tag) {
        if (cfx_as_list(a)->len != cfx_as_list(b)->len)
            return false;
        for (int64_t i = 0; i < cfx_as_list(a)->len; i++)
            if (!same_meta(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]))
                return false;
        return true;
    }
    return a.tag == b.tag;
}

/* Whether a tensor of a lies in the memory of one of b. */
static bool in_memory_of(cfx_value a, cfx_value b) {
    const cfx_value v = a.tag == CFX_TAG_TENSOR ? b : a;
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(a)->storage && cfx_as_tensor(a)->storage == cfx_as_tensor(b)->storage;
    bool found = false;
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; !found && i < cfx_as_list(v)->len; i++)
            found = a.tag == CFX_TAG_TENSOR ? in_memory_of(a, cfx_as_list(v)->items[i])
                                            : in_memory_of(cfx_as_list(v)->items[i], b);
    return found;
}

/* A result that lies in the memory of an argument does so by its row. */
static void check_memory(cfx_op *op, const cfx_value *args, cfx_value result) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nargs; i++)
        if (!cfx__op_shares(op, i) && in_memory_of(result, args[i]))
            test_fail(CFX_HERE, "%s gives back memory of %s: it wants CFX_SHARES",
                      cfx_op_name(op), s->args[i].name);
}

static void log_call(cfx_op *op, const cfx_value *args, int n) {
    fprintf(stderr, "%s", cfx_op_name(op));
    for (int i = 0; i < n; i++)
        if (args[i].tag == CFX_TAG_TENSOR)
            fprintf(stderr, " %s%s", cfx_dtype_brief(cfx_as_tensor(args[i])->dtype),
                    cfx__shape_text(cfx_as_tensor(args[i])->ndim, cfx_as_tensor(args[i])->shape));
        else
            fprintf(stderr, " %s", cfx_value_repr(args[i]));
    fprintf(stderr, "\n");
}

static bool has_gradient(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && (cfx__dtype_is_float(cfx_as_tensor(v)->dtype) ||
                                       cfx__dtype_is_complex(cfx_as_tensor(v)->dtype));
}

/* The argument with leaves for its tensors, which are noted. */
static cfx_value with_leaves(cfx_value v, cfx_list *leaves) {
    if (has_gradient(v)) {
        v = cfx_tensor_value(cfx_requires_grad(cfx_detach(cfx_as_tensor(v)), true));
        cfx_list_append(leaves, v);
    }
    if (v.tag != CFX_TAG_LIST)
        return v;
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), with_leaves(cfx_as_list(v)->items[i], leaves));
    return list;
}

static void note_results(cfx_value v, cfx_list *results, cfx_list *ones) {
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            note_results(cfx_as_list(v)->items[i], results, ones);
    if (v.tag != CFX_TAG_TENSOR || !cfx_tensor_requires_grad(cfx_as_tensor(v)))
        return;
    cfx_list_append(results, v);
    cfx_list_append(ones, cfx_tensor_value(cfx_ones_like(cfx_detach(cfx_as_tensor(v)))));
}

/* The gradients of a call that was good; `again`: recorded themselves, and gone back once more. */
static void go_back(cfx_op *op, const cfx_value *given, int n, bool again) {
    cfx_value args[CFX_MAX_ARGS], leaves = cfx_list_value(0, NULL);
    cfx_value results = cfx_list_value(0, NULL), ones = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        args[i] = with_leaves(given[i], cfx_as_list(leaves));
    note_results(cfx_op_do_from(CFX_HERE, op, (cfx_args){n, args, NULL}), cfx_as_list(results),
                 cfx_as_list(ones));
    if (!cfx_ok() || !cfx_as_list(results)->len || !cfx_as_list(leaves)->len) {
        cfx_error_clear();
        return;
    }
    cfx_value grads = cfx_grad(results, leaves, .grad_outputs = ones, .create_graph = again,
                               .allow_unused = true);
    if (again && cfx_ok()) {
        cfx_value firsts = cfx_list_value(0, NULL), more = cfx_list_value(0, NULL);
        note_results(grads, cfx_as_list(firsts), cfx_as_list(more));
        if (cfx_as_list(firsts)->len)
            cfx_grad(firsts, leaves, .grad_outputs = more, .allow_unused = true);
    }
    if (!cfx_ok() && (!cfx_error_last()->message || !*cfx_error_last()->message))
        test_fail(CFX_HERE, "the gradient of %s failed without a word", cfx_op_name(op));
    cfx_error_clear();
}

static void try_once(fuzzer *f, cfx_op *op, bool log) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS], fakes[CFX_MAX_ARGS];
    f->ndim = -1;
    for (int i = 0; i < s->nargs; i++)
        args[i] = argument(f, &s->args[i]);
    cfx_error_clear();
    for (int i = 0; i < s->nargs; i++)
        fakes[i] = cfx__tensor_faked_in(args[i]);
    if (log)
        log_call(op, args, s->nargs);
    cfx_value real = cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, args, NULL});
    bool fine = cfx_ok();
    bool told = op->effects & CFX_SIDE; /* an assert says what it was given to say */
    if (!fine && !told && (!cfx_error_last()->message || !*cfx_error_last()->message))
        test_fail(CFX_HERE, "%s failed without a word", cfx_op_name(op));
    if (fine && cfx_is_bad(real))
        test_fail(CFX_HERE, "%s gave a bad object without an error", cfx_op_name(op));
    if (fine)
        check_memory(op, args, real);
    cfx_error_clear();
    if (fine && !cfx__op_info_of(op)->writes)
        go_back(op, args, s->nargs, chance(f, 40));
    if (!op->shape && !op->view)
        return;
    cfx_value fake = cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, fakes, NULL});
    if (fine && cfx_ok() && !same_meta(real, fake))
        test_fail(CFX_HERE, "%s: fake and real results differ in shape, dtype or strides",
                  cfx_op_name(op));
    cfx_error_clear();
}

static int setting(const char *name, int other) {
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : other;
}

typedef void op_fn(fuzzer *f, cfx_op *op, bool log);

/* Calls fn for each operator of a shard, or those that CFX_FUZZ_OP names, with its own state. */
static void each_operator(int shard, fuzzer start, op_fn *fn) {
    const int seed = setting("CFX_FUZZ_SEED", 1);
    const bool log = setting("CFX_FUZZ_LOG", 0);
    const char *only = getenv("CFX_FUZZ_OP");
    for (int i = shard; i < cfx_op_count(); i += SHARDS) {
        cfx_op *op = cfx_op_at(i);
        if (only && !cfx__text_glob(only, cfx_op_name(op)))
            continue;
        fuzzer f = start;
        f.state += (uint64_t)seed * 1000003u + (uint64_t)i * 7919u;
        fn(&f, op, log);
    }
}

static void fuzz_op(fuzzer *f, cfx_op *op, bool log) {
    const int runs = setting("CFX_FUZZ_RUNS", 25);
    for (int k = 0; k < runs; k++)
        CFX_SCOPE try_once(f, op, log);
}

static void fuzz(int shard) {
    cfx_set_memory_limit((size_t)64 << 20);
    each_operator(shard, (fuzzer){.state = 88172645463325252u}, fuzz_op);
}

TEST(fuzz_operators_0) { fuzz(0); }
TEST(fuzz_operators_1) { fuzz(1); }
TEST(fuzz_operators_2) { fuzz(2); }
TEST(fuzz_operators_3) { fuzz(3); }
TEST(fuzz_operators_4) { fuzz(4); }
TEST(fuzz_operators_5) { fuzz(5); }
TEST(fuzz_operators_6) { fuzz(6); }
TEST(fuzz_operators_7) { fuzz(7); }

/* ---- numbers without bound ------------------------------------------------------------------- */

/* Arguments that fit, but for one of them, whose numbers are far too large: how often something is
 * repeated, how much is made. Each call ends by itself or by the limits, soon: what 512 MB of
 * results take is some seconds where nothing is optimized. */

enum { BASES = 2, TRIES = 60, MOST_SECONDS = 10 };

static const double huge[] = {1e6, 1e9, 1e12, 0x1p62, -0x1p62};

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void time_call(cfx_op *op, const cfx_value *args, int n) {
    double start = cpu_seconds();
    cfx_set_time_limit(1);
    cfx_op_do_from(CFX_HERE, op, (cfx_args){n, args, NULL});
    cfx_set_time_limit(0);
    double took = cpu_seconds() - start;
    if (took > MOST_SECONDS) {
        test_fail(CFX_HERE, "a call took %.1f s", took);
        log_call(op, args, n);
    }
    cfx_error_clear();
}

/* v with the number in place of all its numbers, tensors included; None where it has none. */
static cfx_value enlarged(const cfx__schema_arg *a, cfx_value v, double number) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_tensor *t = cfx_clone(cfx_as_tensor(v));
        for (int64_t i = 0; cfx_ok() && i < t->numel; i++)
            cfx__tensor_set(t, i, cfx__dtype_is_int(t->dtype) ? cfx_int((int64_t)number)
                                                              : cfx_float(number));
        return cfx_tensor_value(t);
    }
    if (v.tag == CFX_TAG_LIST) {
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            cfx_value item = enlarged(a, cfx_as_list(v)->items[i], number);
            if (cfx_is_none(item))
                return item;
            cfx_list_append(cfx_as_list(list), item);
        }
        return cfx_as_list(list)->len ? list : cfx_none();
    }
    switch (a->type) {
    case CFX__T_INT: return cfx_int((int64_t)number);
    case CFX__T_SCALAR:
        return v.tag == CFX_TAG_FLOAT ? cfx_float(number) : cfx_int((int64_t)number);
    case CFX__T_FLOAT: return cfx_float(number);
    default: return cfx_none();
    }
}

static void enlarge_each(cfx_op *op, cfx_value *args, bool log) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (int i = 0; i < s->nargs; i++)
        for (int k = 0; k < COUNT(huge); k++)
            CFX_SCOPE {
                cfx_value own = args[i], with = enlarged(&s->args[i], own, huge[k]);
                cfx_error_clear();
                if (cfx_is_none(with))
                    continue;
                args[i] = with;
                if (log)
                    log_call(op, args, s->nargs);
                time_call(op, args, s->nargs);
                args[i] = own;
            }
}

/* Draws arguments until some fit; whether these do. */
static bool enlarge_once(fuzzer *f, cfx_op *op, bool log) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    f->ndim = -1;
    for (int i = 0; i < s->nargs; i++)
        args[i] = argument(f, &s->args[i]);
    cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, args, NULL});
    bool fits = cfx_ok();
    cfx_error_clear();
    if (fits)
        enlarge_each(op, args, log);
    return fits;
}

static void enlarge_op(fuzzer *f, cfx_op *op, bool log) {
    for (int k = 0, found = 0; k < TRIES && found < BASES; k++)
        CFX_SCOPE found += enlarge_once(f, op, log);
}

static void enlarge(int shard) {
    cfx_set_memory_limit((size_t)512 << 20);
    each_operator(shard, (fuzzer){.state = 362436069u, .plain = true}, enlarge_op);
}

TEST(huge_numbers_0) { enlarge(0); }
TEST(huge_numbers_1) { enlarge(1); }
TEST(huge_numbers_2) { enlarge(2); }
TEST(huge_numbers_3) { enlarge(3); }
TEST(huge_numbers_4) { enlarge(4); }
TEST(huge_numbers_5) { enlarge(5); }
TEST(huge_numbers_6) { enlarge(6); }
TEST(huge_numbers_7) { enlarge(7); }

/* ---- what runs out inside of a call ---------------------------------------------------------- */

/* Arguments that fit, while the n-th look at the clock finds that time is up, or the n-th
 * allocation fails, alone or with all that follow: kernels are made of calls, too, and of tensors
 * of their own. The call, and the backward pass from it, ends in an error or well. */

enum { MOST_FAULTS = 40 };

typedef struct {
    const char *what;
    void (*begin)(long n);
    bool (*end)(void);
} fault;

static void one_allocation(long n) { faults_begin(n, false); }
static void all_allocations(long n) { faults_begin(n, true); }

static const fault faults[] = {{"the clock", faults_clock_begin, faults_clock_end},
                               {"an allocation", one_allocation, faults_end},
                               {"all allocations", all_allocations, faults_end}};

/* One call that runs into a fault. Returns whether it came to it. */
static bool fail_at(cfx_op *op, const cfx_value *args, const fault *by, long n, bool back) {
    const int count = cfx__op_info_of(op)->schema->nargs;
    bool came = false;
    CFX_SCOPE {
        cfx_value v = cfx_none();
        by->begin(n);
        if (back)
            go_back(op, args, count, false);
        else
            v = cfx_op_do_from(CFX_HERE, op, (cfx_args){count, args, NULL});
        came = by->end();
        if (!back && cfx_ok() && cfx_is_bad(v))
            test_fail(CFX_HERE, "%s gave a bad object and no error: %s %ld", cfx_op_name(op),
                      by->what, n);
        cfx_error_clear();
    }
    return came;
}

static bool run_out_once(fuzzer *f, cfx_op *op, bool log) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    f->ndim = -1;
    for (int i = 0; i < s->nargs; i++)
        args[i] = argument(f, &s->args[i]);
    cfx_op_do_from(CFX_HERE, op, (cfx_args){s->nargs, args, NULL});
    bool fits = cfx_ok();
    cfx_error_clear();
    if (fits && log)
        log_call(op, args, s->nargs);
    cfx_set_time_limit(1e6);
    for (int back = 0; fits && back < 2 - (cfx__op_info_of(op)->writes != 0); back++)
        for (int i = 0; i < COUNT(faults); i++)
            for (long n = 1; n < MOST_FAULTS && fail_at(op, args, &faults[i], n, back); n++)
                continue;
    cfx_set_time_limit(0);
    return fits;
}

static void run_out_op(fuzzer *f, cfx_op *op, bool log) {
    for (int k = 0, found = 0; k < TRIES && found < BASES; k++)
        CFX_SCOPE
            found += run_out_once(f, op, log);
}

static void run_out(int shard) {
    cfx_set_num_threads(1);
    each_operator(shard, (fuzzer){.state = 521288629u, .plain = true}, run_out_op);
}

TEST(operators_run_out_0) { run_out(0); }
TEST(operators_run_out_1) { run_out(1); }
TEST(operators_run_out_2) { run_out(2); }
TEST(operators_run_out_3) { run_out(3); }
TEST(operators_run_out_4) { run_out(4); }
TEST(operators_run_out_5) { run_out(5); }
TEST(operators_run_out_6) { run_out(6); }
TEST(operators_run_out_7) { run_out(7); }
