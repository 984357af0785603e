/* Drawing programs: see programs.h. Start at programs_draw. */
#include "drawing.h"

#include <cfx/ops.h>

#include <math.h>
#include <string.h>

enum { TRIES = 12 };

/* ---- numbers --------------------------------------------------------------------------------- */

static const cfx_dtype dtypes[] = {CFX_F32, CFX_F32, CFX_F32, CFX_F32, CFX_F32, CFX_F64,
                                   CFX_F16, CFX_BF16, CFX_I64, CFX_I64, CFX_I32, CFX_U8,
                                   CFX_BOOL, CFX_I8};

static cfx_dtype any_dtype(void) { return dtypes[test_draw(sizeof dtypes / sizeof *dtypes)]; }

static cfx_dtype input_dtype(const drawing *d) {
    static const cfx_dtype rare[] = {CFX_C64, CFX_C64, CFX_C128, CFX_I16};
    return d->wide && chance(12) ? rare[test_draw(sizeof rare / sizeof *rare)] : any_dtype();
}

static double any_number(bool special) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e-40, -1e-45, 0.0, -0.0, 1e4};
    if (special && chance(12))
        return odd[test_draw(sizeof odd / sizeof *odd)];
    return (double)((int)test_draw(4001) - 2000) / 512;
}

cfx_tensor *draw_tensor(cfx_dtype dtype, int ndim, const int64_t *shape) {
    const bool special = chance(5), floats = cfx__dtype_is_float(dtype);
    cfx_tensor *t = cfx__tensor_empty(CFX_HERE, dtype, false, ndim, shape, NULL);
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++)
        cfx__tensor_set(t, i,
                        cfx__dtype_is_complex(dtype)
                            ? cfx_complex_value(any_number(special), any_number(special))
                        : floats ? cfx_float(any_number(special))
                        : dtype == CFX_BOOL ? cfx_bool(test_draw(2))
                                            : cfx_int(test_draw(3)));
    return t;
}

/* Sizes around those of vectors, and beyond a few of them. */
static int64_t any_row(void) {
    static const int64_t rows[] = {7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 130, 257};
    return rows[test_draw(sizeof rows / sizeof *rows)];
}

static int any_shape(const drawing *d, int64_t *shape) {
    const int ndim = (int)test_draw(10) < 2 ? (int)test_draw(2) : 1 + (int)test_draw(4);
    for (int i = 0; i < ndim; i++)
        shape[i] = chance(14) ? 0 : chance(5) ? 1 : 2 + test_draw(4);
    if (d->wide && ndim && ndim < 4 && chance(4))
        shape[chance(4) ? 0 : ndim - 1] = any_row();
    if (d->large && ndim && chance(3))
        shape[test_draw((uint32_t)ndim)] = 300 + test_draw(6000);
    return ndim;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool fine(void) {
    const bool ok = cfx_ok();
    cfx_error_clear();
    return ok;
}

cfx_value draw_faked(const drawing *d, cfx_value v) {
    if (v.tag == CFX_TAG_NODE) {
        for (int i = 0; i < d->n; i++)
            if (d->values[i].node == cfx_as_node(v))
                return cfx_tensor_value(d->values[i].fake);
        for (int i = 0; i < d->n_sizes; i++)
            if (d->sizes[i].node == cfx_as_node(v))
                return cfx_int(d->sizes[i].value);
        return cfx_none();
    }
    if (v.tag != CFX_TAG_LIST)
        return v;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), draw_faked(d, cfx_as_list(v)->items[i]));
    return out;
}

/* Whether an operator gives its first argument another shape or other strides: programs refuse that
 * of what they are given. */
static bool changes_shape(cfx_op *op) {
    static const char *const names[] = {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_",
                                        "swapdims_", "as_strided_", "addbmm_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(cfx__op_info_of(op)->schema->name, names[i]))
            return true;
    return false;
}

/* Whether a tensor is an input or an attribute: calls may have given it on as it is, as x.add_(1),
 * x.to(dtype) and x.real do. */
static bool is_outside(const drawing *d, cfx_value v) {
    for (int i = 0; v.tag == CFX_TAG_TENSOR && i < d->n; i++)
        if (d->values[i].fake == cfx_as_tensor(v) && d->values[i].node->op != CFX_CALL_FUNCTION)
            return true;
    return v.tag != CFX_TAG_TENSOR;
}

/* What differs in PyTorch, too: bytes that are no bools are no numbers; losses take a target for
 * each number of a single row, or a row alone, where their decompositions do not, or make it one
 * row of several; decomposed, bicubic weights of halves are computed in halves. */
static bool is_defined(cfx_op *op, const cfx_value *given) {
    const char *name = cfx__op_info_of(op)->schema->name;
    if (!strncmp(name, "multi_margin_loss", 17))
        return cfx_as_tensor(given[0])->ndim > 1;
    if (!strncmp(name, "upsample_bicubic", 16) || !strncmp(name, "_upsample_bicubic", 17))
        return cfx_dtype_size((cfx_dtype)cfx_as_tensor(given[0])->dtype) > 2;
    if (!strncmp(name, "nll_loss", 8) || !strncmp(name, "multilabel_margin", 17))
        return cfx_as_tensor(given[0])->ndim > 1 || cfx_as_tensor(given[1])->ndim == 0;
    return op != &cfx_op_view_dtype || (cfx_as_tensor(given[0])->dtype != CFX_BOOL &&
                                        cfx_as_dtype(given[1]) != CFX_BOOL);
}

/* Whether several nodes give the very tensor that n gives: to(dtype) where nothing is to be done.
 * Programs know by nodes alone which tensor is which, as PyTorch's functionalisation does. */
static bool is_given_twice(const drawing *d, const cfx_node *n) {
    const cfx_tensor *t = NULL;
    int times = 0;
    for (int i = 0; i < d->n; i++)
        t = d->values[i].node == n ? d->values[i].fake : t;
    for (int i = 0; i < d->n; i++)
        times += d->values[i].fake == t;
    return times > 1;
}

cfx_value draw_tried(drawing *d, cfx_op *op, int n, const cfx_value *args) {
    cfx_value given[CFX_MAX_ARGS];
    for (int i = 0; i < n; i++)
        given[i] = draw_faked(d, args[i]);
    cfx_value v = cfx_op_do_from(CFX_HERE, op, (cfx_args){n, given, NULL});
    return fine() ? v : cfx_bad();
}

bool draw_call(drawing *d, cfx_op *op, int n, const cfx_value *drawn) {
    cfx_value given[CFX_MAX_ARGS], args[CFX_MAX_ARGS];
    memcpy(args, drawn, (size_t)n * sizeof *args);
    draw_size_arguments(d, cfx__op_info_of(op)->schema, n, args);
    cfx_value list = cfx_tuple_value(n, args);
    for (int i = 0; i < n; i++)
        given[i] = draw_faked(d, args[i]);
    if (changes_shape(op) &&
        (is_outside(d, given[0]) || is_given_twice(d, cfx_as_node(args[0]))))
        return false;
    if (!is_defined(op, given))
        return false;
    cfx_value v = cfx_op_do_from(CFX_HERE, op, (cfx_args){n, given, NULL});
    if (!cfx_ok() || d->n >= DRAWN_VALUES - 8)
        return fine() && false;
    if (draw_is_too_large(d, v))
        return false;
    cfx_node *call = cfx_graph_create(d->p.graph, CFX_CALL_FUNCTION, cfx_target_op(op), list,
                                      CFX_NONE, NULL, NULL);
    d->p.random |= (op->effects & CFX_RANDOM) != 0;
    draw_value(d, call, v);
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len && i < 3; i++)
            if (cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR && !chance(4))
                draw_value(d, cfx_graph_call(d->p.graph, "operator.getitem", call, i),
                          cfx_as_list(v)->items[i]);
    return fine();
}

/* ---- arguments by their types ---------------------------------------------------------------- */

static cfx_value any_dims(const cfx_tensor *t, bool all) {
    int order[CFX_MAX_DIMS];
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < t->ndim; i++) {
        const int k = (int)test_draw((uint32_t)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < t->ndim; i++)
        if (all || chance(2))
            cfx_list_append(cfx_as_list(list), cfx_int(chance(4) ? order[i] - t->ndim : order[i]));
    return list;
}

/* A shape with as many elements. */
static cfx_value any_view(const cfx_tensor *t) {
    cfx_value list = cfx_list_value(0, NULL);
    int64_t left = t->numel;
    for (int i = 0; i < 3 && left > 0; i++) {
        int64_t by = 1 + test_draw(6);
        by = left % by ? 1 : by;
        if (by > 1 || chance(4))
            cfx_list_append(cfx_as_list(list), cfx_int(by));
        left /= by;
    }
    cfx_list_append(cfx_as_list(list), cfx_int(t->numel && chance(3) ? -1 : left));
    return list;
}

/* A shape that the tensor expands to. */
static cfx_value any_expansion(const cfx_tensor *t) {
    cfx_value list = cfx_list_value(0, NULL);
    if (chance(2))
        cfx_list_append(cfx_as_list(list), cfx_int(1 + test_draw(3)));
    for (int i = 0; i < t->ndim; i++)
        cfx_list_append(cfx_as_list(list), cfx_int(chance(4)           ? -1
                                                   : t->shape[i] == 1 ? 1 + test_draw(4)
                                                                      : t->shape[i]));
    return list;
}

static cfx_value any_ints(void) {
    cfx_value list = cfx_list_value(0, NULL);
    for (uint32_t i = 1 + test_draw(3); i > 0; i--)
        cfx_list_append(cfx_as_list(list), cfx_int((int)test_draw(4)));
    return list;
}

static cfx_value any_scalar(bool whole) {
    static const double numbers[] = {0.5, -2.5, 1, 0, 3, -1, 2, 0.125, 1e-3};
    const double v = numbers[test_draw(9)];
    return whole || chance(3) ? cfx_int((int64_t)v) : cfx_float(v);
}

static cfx_value any_text(const char *name) {
    static const char *const reduces[] = {"sum", "prod", "mean", "amax", "amin"};
    if (!strcmp(name, "rounding_mode"))
        return cfx_string_value(chance(2) ? "floor" : "trunc");
    if (!strcmp(name, "approximate"))
        return cfx_string_value(chance(2) ? "none" : "tanh");
    if (!strcmp(name, "reduce"))
        return cfx_string_value(reduces[test_draw(5)]);
    return cfx_string_value("reflect");
}

cfx_value draw_argument(drawing *d, const cfx__schema *s, const cfx__schema_arg *a,
                        const cfx_tensor *self) {
    const char *name = a->name;
    if (a->has_default && test_draw(8) < 5)
        return a->fallback;
    if (a->optional && chance(3))
        return cfx_none();
    if (a->type == CFX__T_TENSOR && !a->list) {
        const bool index = !strcmp(name, "index") || !strcmp(name, "indices"),
                   mask = !strcmp(name, "mask") || !strcmp(name, "condition");
        operand *o = draw_operand(d, self,
                                 index  ? CFX_I64
                                 : mask ? CFX_BOOL
                                 : self && !chance(6) ? (int)self->dtype
                                                      : CFX_DTYPE_COUNT);
        return node(o);
    }
    if (a->type == CFX__T_TENSOR) {
        const bool index = !strcmp(name, "indices");
        cfx_value list = cfx_list_value(0, NULL);
        operand *first = draw_operand(d, NULL, index ? (chance(4) ? CFX_BOOL : CFX_I64)
                                                    : CFX_DTYPE_COUNT);
        for (uint32_t i = 1 + test_draw(3); i > 0; i--)
            cfx_list_append(cfx_as_list(list),
                            index && chance(3)
                                ? cfx_none()
                                : node(chance(2) ? first
                                                 : draw_operand(d, first->fake,
                                                               (int)first->fake->dtype)));
        return list;
    }
    if (a->type == CFX__T_SCALAR && a->list && d->varied) {
        const bool whole = chance(2); /* files have no form for both in one list */
        cfx_value list = cfx_list_value(0, NULL);
        for (uint32_t i = 1 + test_draw(3); i > 0; i--)
            cfx_list_append(cfx_as_list(list), whole ? any_scalar(true)
                                                     : cfx_float((double)test_draw(9) / 4 - 1));
        return list;
    }
    const bool dim = !strncmp(name, "dim", 3) || !strcmp(name, "axis") || !strncmp(name, "axis", 4);
    const uint32_t ndim = self && self->ndim ? (uint32_t)self->ndim : 1;
    if (a->type == CFX__T_INT && a->list)
        return !self ? any_ints()
               : dim ? any_dims(self, !strcmp(s->name, "permute"))
               : strstr(s->name, "view") || strstr(s->name, "reshape") ? any_view(self)
               : strstr(s->name, "expand") || strstr(s->name, "broadcast") ? any_expansion(self)
                                                                          : any_ints();
    switch (a->type) {
    case CFX__T_INT:
        return dim ? cfx_int((int)test_draw(2 * ndim) - (int)ndim)
                   : cfx_int((int)test_draw(6) - (chance(4) ? 2 : 0));
    case CFX__T_SCALAR:
        return any_scalar(self && !cfx__dtype_is_float((cfx_dtype)self->dtype));
    case CFX__T_FLOAT: return a->list ? cfx_none() : any_scalar(false);
    case CFX__T_BOOL: /* what is drawn has doubles: isin may say anything then */
        if (d->wide && !strcmp(name, "sorted")) /* else any order is right */
            return cfx_bool(true);
        return cfx_bool(chance(2) && strcmp(name, "assume_unique") != 0);
    case CFX__T_DTYPE: return cfx_dtype_value(any_dtype());
    case CFX__T_STR: return any_text(name);
    default: return a->has_default ? a->fallback : cfx_none();
    }
}

bool draw_arguments(drawing *d, cfx_op *op, cfx_value args[CFX_MAX_ARGS]) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    const cfx_tensor *self = NULL;
    for (int i = 0; i < s->nargs; i++) {
        args[i] = draw_argument(d, s, &s->args[i], self);
        cfx_value first = args[i].tag == CFX_TAG_LIST && cfx_as_list(args[i])->len
                              ? cfx_as_list(args[i])->items[0]
                              : args[i];
        if (!self && first.tag == CFX_TAG_NODE)
            self = cfx_as_tensor(draw_faked(d, first));
    }
    return fine();
}

bool draw_op(drawing *d, cfx_op *op) {
    cfx_value args[CFX_MAX_ARGS];
    return draw_arguments(d, op, args) &&
           draw_call(d, op, cfx__op_info_of(op)->schema->nargs, args);
}

/* ---- which operators ------------------------------------------------------------------------- */

static const char *const views[] = {
    "transpose.int", "permute", "view", "reshape", "expand", "select.int", "slice.Tensor",
    "narrow", "unsqueeze", "squeeze", "squeeze.dim", "diagonal", "unfold", "t",
    "flatten.using_ints",
    "split.Tensor", "chunk", "unbind.int", "movedim.int", "alias", "detach", "view_as",
    "swapaxes", "expand_as", "select.int", "slice.Tensor", "view.dtype"};
static const char *const common[] = {
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "neg", "abs", "relu", "sigmoid", "tanh",
    "exp", "sqrt", "clamp", "maximum", "minimum", "where.self", "gelu", "silu", "to.dtype", "clone",
    "contiguous", "flip", "cat", "stack", "sum.dim_IntList", "mean.dim", "amax", "softmax.int",
    "log_softmax.int", "cumsum", "sort", "topk", "gather", "index_select", "index.Tensor", "matmul",
    "mm", "bmm", "add.Scalar", "mul.Scalar", "lt.Tensor", "ge.Scalar", "masked_fill.Scalar", "roll",
    "constant_pad_nd", "var.correction", "rsub.Scalar", "pow.Tensor_Scalar", "logical_not",
    "argmax",
    "repeat", "tile", "tril", "max.dim", "std.dim", "addcmul", "lerp.Scalar", "hardtanh", "sign",
    "floor", "eq.Tensor", "bitwise_and.Tensor", "full_like", "zeros_like", "index_fill.int_Scalar",
    "dropout", "remainder.Scalar", "any.dim", "isnan", "nan_to_num", "erf", "log1p", "reciprocal"};
static const char *const writers[] = {
    "copy_", "fill_.Scalar", "zero_", "add_.Tensor", "mul_.Scalar", "relu_", "index_copy_",
    "index_add_", "index_fill_.int_Scalar", "masked_fill_.Scalar", "scatter_.src", "index_put_",
    "sub_.Tensor", "clamp_", "neg_", "sigmoid_", "add_.Scalar", "exp_", "fill_diagonal_",
    "bernoulli_.float", "uniform_", "masked_scatter_", "scatter_add_", "cumsum_", "tril_",
    "div_.Tensor", "lerp_.Scalar", "t_", "unsqueeze_", "transpose_", "squeeze_"};

static cfx_op *named(const char *const *names, size_t n) {
    char name[64];
    snprintf(name, sizeof name, "aten::%s", names[test_draw((uint32_t)n)]);
    return cfx_op_find(name);
}
#define ONE_OF(names) named(names, sizeof names / sizeof *names)

/* Gradients that read what a forward call has to have given; factors of matrices that have several;
 * and what differs in PyTorch, too: attention has another second result when it is taken apart, and
 * dequantize and quantize_per_tensor_dynamic give their argument or a copy of it. */
static bool is_unlike_itself(cfx_op *op, const char *name) {
    static const char *const free_gradients[] = {"upsample_", "avg_pool", "_pad", "select_backward",
                                                 "slice_", "diagonal_", "unfold_", "trace_",
                                                 "convolution_", "embedding_dense", "gather_",
                                                 "index_select_"};
    static const char *const factors[] = {"_lu", "ldl", "lstsq", "householder", "ormqr", "orgqr",
                                          "rank", "pinv", "cond", "_quantized", "fractional",
                                          "_scaled_dot", "dequantize",
                                          "quantize_per_tensor_dynamic"};
    bool freely = op->effects & CFX_POINTWISE;
    for (size_t i = 0; i < sizeof free_gradients / sizeof *free_gradients; i++)
        freely |= strstr(name, free_gradients[i]) != NULL;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (strstr(name, factors[i]))
            return true;
    return strstr(name, "_backward") && !freely;
}

static bool is_beside_aten(const char *ns) {
    return !strcmp(ns, "torchvision") || !strcmp(ns, "quantized_decomposed");
}

/* What cannot be compared: memory that is not set, sizes that depend on data, other devices and
 * layouts, what changes the shape of a storage (addbmm_ does), what gives addresses or states; what
 * PyTorch calls by itself alone, with strides that follow from others or on new tensors; and what
 * seldom takes operands that happen to be there. */
static bool is_left_out(const drawing *d, cfx_op *op) {
    static const char *const parts[] = {"empty", "resize", "set_", "sparse", "nested", "_cudnn",
                                        "pin_memory", "svd", "eig", "qr", "geqrf", "cholesky",
                                        "lu_", "mkldnn", "record_stream", "_nested", "_debug",
                                        "_assert", "_coalesced", "sym_", "from_file", "_test",
                                        "_print", "unsafe", "addbmm_", "_reshape_alias", "lift"};
    static const char *const unfit[] = {"rnn", "linalg", "lstm", "gru", "rand", "quantize",
                                        "multinomial", "dist", "_backward", "_scaled_dot",
                                        "combinations"};
    static const char *const narrow[] = {"special_", "_foreach", "_fft", "new_"};
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(s->name, parts[i]))
            return true;
    for (size_t i = 0; !d->fitted && i < sizeof unfit / sizeof *unfit; i++)
        if (strstr(s->name, unfit[i]))
            return true;
    if (d->fitted && is_unlike_itself(op, s->name))
        return true;
    for (size_t i = 0; !d->wide && i < sizeof narrow / sizeof *narrow; i++)
        if (strstr(s->name, narrow[i]))
            return true;
    if (d->wide && !strcmp(s->name, "where") && s->nargs == 1) /* sizes that depend on data */
        return true;
    if (strcmp(s->ns, "aten") != 0 && !(d->varied && is_beside_aten(s->ns)))
        return true;
    return !s->nargs || op->effects & (CFX_DATA_SHAPE | CFX_SIDE) ||
           (s->nrets == 1 && s->rets[0].type != CFX__T_TENSOR) || !s->nrets;
}

/* Drawn by the hashes of names, so that a new operator changes few of the programs. */
static cfx_op *any_op(const drawing *d) {
    const uint64_t drawn = test_draw(1u << 31);
    uint64_t least = UINT64_MAX;
    cfx_op *found = NULL;
    for (int i = 0; i < cfx_op_count(); i++) {
        const char *name = cfx_op_name(cfx_op_at(i));
        const uint64_t h = cfx__hash_mix(drawn, cfx__text_hash(name, strlen(name)));
        if (h < least && !is_left_out(d, cfx_op_at(i))) {
            least = h;
            found = cfx_op_at(i);
        }
    }
    return found;
}

cfx_op *draw_written(cfx_op *op) {
    cfx_op *other = op && op->effects & CFX_POINTWISE ? cfx__op_inplace(op) : NULL;
    return fine() && other ? other : op;
}

/* ---- programs -------------------------------------------------------------------------------- */

bool draw_plain(drawing *d) { return draw_op(d, chance(3) ? ONE_OF(views) : ONE_OF(common)); }

static bool add_more(drawing *d) {
    switch (test_draw(7)) {
    case 0: return draw_pool(d);
    case 1: return draw_other_conv(d);
    case 2: return draw_other_norm(d);
    case 3: return draw_masked_attention(d);
    case 4: return draw_written_to(d, any_op(d));
    default: return draw_written_to(d, ONE_OF(common));
    }
}

static bool add_something(drawing *d) {
    if (d->varied && chance(5))
        return draw_sized(d);
    if (d->varied && chance(20))
        return draw_region(d);
    if (d->varied && d->p.state->len && d->n < DRAWN_VALUES && chance(20))
        return draw_twin(d) != NULL;
    if (d->fitted && chance(3))
        return draw_fitting(d, any_op(d));
    if (d->deep && chance(6))
        return add_more(d);
    if (d->wide && chance(24))
        return chance(3) ? draw_recurrent(d) : draw_counted(d);
    switch (test_draw(29)) {
    case 0: return draw_linear(d);
    case 1: return draw_conv(d) && (chance(2) || draw_batch_norm(d));
    case 2: return draw_batch_norm(d);
    case 3: return draw_layer_norm(d);
    case 4: return chance(2) ? draw_attention(d) : draw_embedding(d);
    case 5: return draw_cache(d);
    case 6: return draw_strided(d);
    case 7:
    case 8: return draw_op(d, any_op(d));
    case 9: return draw_op(d, draw_written(any_op(d)));
    case 10:
    case 11:
    case 12:
    case 13:
    case 14: return draw_op(d, ONE_OF(views));
    case 15:
    case 16:
    case 17:
    case 18: return draw_op(d, ONE_OF(writers));
    case 19: return draw_op(d, draw_written(ONE_OF(common)));
    case 20: return draw_control(d);
    default: return draw_op(d, ONE_OF(common));
    }
}

/* The same memory as an input that is there, all of it or a part, seen in this way or that. */
static cfx_tensor *shared_with(const drawing *d) {
    const cfx_list *all = cfx_as_list(d->p.inputs);
    cfx_tensor *t = cfx_as_tensor(all->items[test_draw((uint32_t)all->len)]);
    if (!t->ndim || !t->numel || chance(4))
        return chance(2) ? t : cfx_alias(t);
    switch (test_draw(4)) {
    case 0: return cfx_transpose(t, 0, -1);
    case 1: return cfx_slice(t, 0, test_draw((uint32_t)t->shape[0]));
    case 2: return cfx_select(t, -1, 0);
    default: return cfx_slice(t, -1, 0, CFX_NONE, 2);
    }
}

static void add_input(drawing *d, cfx_dtype dtype, int ndim, const int64_t *shape) {
    char name[8];
    snprintf(name, sizeof name, "x%d", (int)cfx_as_list(d->p.inputs)->len);
    cfx_tensor *t = draw_tensor(dtype, ndim, shape);
    if (d->wide && chance(4))
        t = draw_laid_out(t, false);
    if (d->deep && cfx_as_list(d->p.inputs)->len && chance(10)) {
        t = shared_with(d);
        d->p.shared = true;
    }
    cfx_list_append(cfx_as_list(d->p.inputs), cfx_tensor_value(t));
    draw_value(d, cfx_graph_placeholder(d->p.graph, name, NULL, false, CFX_NONE),
               cfx__tensor_faked_in(cfx_tensor_value(t)));
}

static cfx_tensor *nothing(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return x;
}

/* An operand; or a size; or several of them in a list or a dict. */
static cfx_value any_result(drawing *d) {
    const cfx_value one = node(draw_operand(d, NULL, CFX_DTYPE_COUNT));
    if (!d->varied || test_draw(4))
        return one;
    cfx_dict *names = cfx_dict_new();
    switch (test_draw(4)) {
    case 0: return d->n_sizes ? cfx_node_value(d->sizes[d->n_sizes - 1].node) : one;
    case 1: return cfx_list(one, cfx_tuple(node(draw_operand(d, NULL, CFX_DTYPE_COUNT))));
    case 2: return cfx_tuple(cfx_none(), one);
    default:
        cfx_dict_set(names, "one", one);
        cfx_dict_set(names, "all", cfx_list(node(draw_operand(d, NULL, CFX_DTYPE_COUNT))));
        return cfx_dict_value(names);
    }
}

random_program programs_draw(uint64_t seed) {
    drawing d = {.wide = seed >= PROGRAMS_WIDE, .deep = seed >= PROGRAMS_DEEP,
                 .fitted = seed >= PROGRAMS_FITTED, .varied = seed >= PROGRAMS_VARIED,
                 .large = seed >= PROGRAMS_LARGE && seed < PROGRAMS_VARIED};
    int64_t shape[CFX_MAX_DIMS];
    test_seed(seed * 0x9e3779b97f4a7c15u + 12345);
    test_draw(2);
    d.p = (random_program){.root = cfx_module_new("Drawn", nothing, "x"),
                           .graph = cfx_graph_new(),
                           .inputs = cfx_list_value(0, NULL),
                           .threads = d.large ? 1 + (int)(seed % 4) : 0,
                           .state = cfx_dict_new()};
    add_input(&d, chance(4) ? input_dtype(&d) : CFX_F32, any_shape(&d, shape), shape);
    add_input(&d, input_dtype(&d), any_shape(&d, shape), shape);
    if (chance(2))
        add_input(&d, CFX_I64, any_shape(&d, shape), shape);
    if (chance(3))
        add_input(&d, CFX_F32, any_shape(&d, shape), shape);
    if (chance(3))
        draw_new_weight(&d, any_dtype(), any_shape(&d, shape), shape);
    for (uint32_t left = 2 + test_draw(14), tries = left * TRIES; left > 0 && tries > 0; tries--)
        left -= add_something(&d);
    cfx_value results = cfx_tuple_value(0, NULL);
    for (uint32_t i = 1 + test_draw(4); i > 0; i--)
        cfx_list_append(cfx_as_list(results), any_result(&d));
    cfx_list_append(cfx_as_list(results), node(&d.values[d.n - 1]));
    cfx_graph_output(d.p.graph, results);
    cfx_error_clear();
    return d.p;
}
