/* Drawing calls of any operator: tensors are made to fit what its schema asks for, where operands
 * that happen to be there seldom do. Shapes are guessed as fakes until the shape rule takes them;
 * only then do they become weights. See drawing.h. */
#include "drawing.h"

#include <cfx/ops.h>

#include <string.h>

enum { GUESSES = 40 };

/* The 2 of "avg_pool2d"; 0: no such number. */
static int spatial_dims(const char *name) {
    for (const char *at = name; *at; at++)
        if (*at >= '1' && *at <= '3' && at[1] == 'd')
            return *at - '0';
    return 0;
}

static bool has_any(const char *name, size_t n, const char *const *parts) {
    for (size_t i = 0; i < n; i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}
#define HAS_ANY(name, parts) has_any(name, sizeof parts / sizeof *parts, parts)

/* How many dimensions the first tensor of an operator is likely to have. */
static int likely_ndim(const char *name) {
    static const char *const matrices[] = {"linalg_", "matrix", "_mm", "addmm", "pdist", "inverse"};
    const int spatial = spatial_dims(name);
    if (spatial)
        return spatial + (chance(3) ? 1 : 2);
    if (HAS_ANY(name, matrices))
        return 2 + (int)chance(3);
    return strstr(name, "_norm") ? 2 + (int)test_draw(3) : 1 + (int)test_draw(4);
}

static cfx_dtype likely_dtype(void) {
    static const cfx_dtype dtypes[] = {CFX_F32, CFX_F32, CFX_F32, CFX_F32, CFX_F64,
                                       CFX_F16, CFX_BF16, CFX_I64, CFX_I32, CFX_BOOL, CFX_C64};
    return dtypes[test_draw(sizeof dtypes / sizeof *dtypes)];
}

/* The first tensor: an operand of so many dimensions, or a fake of one. */
static cfx_value first_tensor(drawing *d, const char *name) {
    static const char *const square[] = {"linalg_", "matrix", "inverse", "trace"};
    const int ndim = likely_ndim(name);
    const operand *o = draw_operand(d, NULL, CFX_DTYPE_COUNT);
    int64_t shape[CFX_MAX_DIMS];
    if (chance(2) && o->fake->ndim == ndim)
        return node(o);
    for (int i = 0; i < ndim; i++)
        shape[i] = chance(24) ? 0 : 1 + test_draw(5);
    if (ndim > 2)
        shape[1] = 2 * (1 + (int64_t)test_draw(2)); /* channels that groups divide */
    if (ndim > 1 && HAS_ANY(name, square))
        shape[ndim - 1] = shape[ndim - 2];
    return cfx_tensor_value(cfx_tensor_fake(likely_dtype(), ndim, shape, NULL));
}

static cfx_dtype dtype_beside(const char *name, const cfx_tensor *self) {
    static const char *const whole[] = {"index", "indices", "target", "offsets", "length",
                                        "batch_sizes", "repeats"};
    static const char *const truths[] = {"mask", "condition"};
    if (HAS_ANY(name, whole))
        return chance(5) ? (cfx_dtype)self->dtype : CFX_I64;
    if (HAS_ANY(name, truths))
        return CFX_BOOL;
    return chance(8) ? likely_dtype() : (cfx_dtype)self->dtype;
}

/* A further tensor: like the first, one of its dimensions, a weight for its channels, a scalar. */
static cfx_value tensor_beside(drawing *d, const char *name, const cfx_tensor *self) {
    int64_t shape[CFX_MAX_DIMS];
    int ndim = self->ndim;
    for (int i = 0; i < ndim; i++)
        shape[i] = self->shape[i];
    switch (test_draw(10)) {
    case 0:
    case 1: /* a number for each channel, or for each element of a row */
        shape[0] = ndim ? self->shape[chance(2) && ndim > 1 ? 1 : test_draw((uint32_t)ndim)] : 1;
        ndim = 1;
        break;
    case 2: /* weights of a layer: out, in, a window */
        for (int i = 0; i < ndim; i++)
            shape[i] = i == 1 ? self->shape[1] : 1 + test_draw(3);
        break;
    case 3: ndim = 0; break;
    case 4: ndim = ndim ? ndim - 1 : 1; break;
    case 5: /* one row more or less, somewhere */
        if (ndim)
            shape[test_draw((uint32_t)ndim)] = 1 + test_draw(5);
        break;
    case 6: {
        const operand *o = draw_operand(d, self, (int)dtype_beside(name, self));
        return node(o);
    }
    case 7: /* a grid of points */
        if (ndim > 2) {
            shape[1] = 1 + test_draw(4);
            shape[ndim - 1] = ndim - 2;
        }
        break;
    default: break;
    }
    shape[0] = ndim == 1 && !self->ndim ? 1 + test_draw(4) : shape[0];
    return cfx_tensor_value(cfx_tensor_fake(dtype_beside(name, self), ndim, shape, NULL));
}

/* Sizes of windows, steps, paddings, sizes of results. */
static cfx_value ints_beside(const cfx__schema *s, const cfx__schema_arg *a,
                             const cfx_tensor *self) {
    const int spatial = spatial_dims(s->name);
    const bool pads = strstr(a->name, "pad") && strstr(s->name, "pad");
    const bool dims = !strncmp(a->name, "dim", 3) || !strncmp(a->name, "axis", 4);
    int n = pads ? 2 * (spatial ? spatial : 1 + (int)test_draw(2))
            : spatial ? spatial
            : a->list_len ? a->list_len
                          : 1 + (int)test_draw(3);
    cfx_value list = cfx_list_value(0, NULL);
    if (strstr(s->name, "upsample") && self->ndim > 2 && /* a gradient: what was made of what */
        (!strcmp(a->name, "input_size") || !strcmp(a->name, "output_size"))) {
        const bool before = !strcmp(a->name, "input_size");
        for (int i = before ? 0 : 2; i < self->ndim; i++)
            cfx_list_append(cfx_as_list(list), cfx_int(before && i > 1 ? 1 + (int64_t)test_draw(5)
                                                                       : self->shape[i]));
        return list;
    }
    if (strstr(a->name, "shape") || (!strcmp(a->name, "size") && !spatial) ||
        !strcmp(a->name, "input_sizes")) { /* those of the last dimensions, or of all */
        const int from = self->ndim && chance(2) ? (int)test_draw((uint32_t)self->ndim) : 0;
        for (int i = from; i < self->ndim; i++)
            cfx_list_append(cfx_as_list(list), cfx_int(self->shape[i]));
        return list;
    }
    n = dims && self->ndim && n > self->ndim ? self->ndim : n;
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list),
                        cfx_int(dims && self->ndim ? (int64_t)test_draw((uint32_t)self->ndim)
                                                   : (int64_t)test_draw(chance(4) ? 7 : 3)));
    return list;
}

static cfx_value text_beside(const char *name) {
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    static const char *const equations[] = {"ij,jk->ik", "...i,...i->...", "ij->ji", "ii->i",
                                            "bij,bjk->bik", "i,j->ij", "ij,ij->i", "ij->"};
    static const char *const reduces[] = {"sum", "prod", "mean", "amax", "amin", "max", "min",
                                          "add", "multiply"};
    if (!strcmp(name, "mode"))
        return cfx_string_value(modes[test_draw(4)]);
    if (!strcmp(name, "equation"))
        return cfx_string_value(equations[test_draw(8)]);
    if (!strncmp(name, "reduce", 6))
        return cfx_string_value(reduces[test_draw(9)]);
    if (!strcmp(name, "padding"))
        return cfx_string_value(chance(2) ? "same" : "valid");
    if (!strcmp(name, "indexing"))
        return cfx_string_value(chance(2) ? "ij" : "xy");
    if (!strcmp(name, "rounding_mode"))
        return cfx_string_value(chance(2) ? "floor" : "trunc");
    return cfx_string_value(!strcmp(name, "ord") ? "fro" : chance(2) ? "none" : "tanh");
}

static cfx_value argument_beside(drawing *d, const cfx__schema *s, const cfx__schema_arg *a,
                                 const cfx_tensor *self) {
    const bool tensor = a->type == CFX__T_TENSOR && !a->list;
    if (tensor && !self)
        return first_tensor(d, s->name);
    if (a->has_default && test_draw(8) < 4)
        return a->fallback;
    if (a->optional && chance(3))
        return cfx_none();
    if (tensor)
        return tensor_beside(d, a->name, self);
    if (a->type == CFX__T_TENSOR && self) {
        cfx_value list = cfx_list_value(0, NULL);
        for (uint32_t i = 1 + test_draw(3); i > 0; i--)
            cfx_list_append(cfx_as_list(list), tensor_beside(d, a->name, self));
        return list;
    }
    if (a->type == CFX__T_INT && a->list && self && test_draw(8))
        return ints_beside(s, a, self);
    if (a->type == CFX__T_STR)
        return text_beside(a->name);
    if (a->type == CFX__T_BOOL && a->list)
        return cfx_list(chance(2), chance(2), true);
    if (a->type == CFX__T_INT && !strcmp(a->name, "reduction"))
        return cfx_int(test_draw(3));
    return draw_argument(d, s, a, self);
}

/* Fakes become weights. */
static cfx_value made(drawing *d, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR) {
        const cfx_tensor *t = cfx_as_tensor(v);
        return node(draw_new_weight(d, (cfx_dtype)t->dtype, t->ndim, t->shape));
    }
    if (v.tag != CFX_TAG_LIST)
        return v;
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(out), made(d, cfx_as_list(v)->items[i]));
    return out;
}

static const cfx_tensor *tensor_in(drawing *d, cfx_value v) {
    if (v.tag == CFX_TAG_LIST && cfx_as_list(v)->len)
        v = cfx_as_list(v)->items[0];
    v = draw_faked(d, v);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
}

bool draw_fitting(drawing *d, cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value args[CFX_MAX_ARGS];
    if (d->depth || d->n > DRAWN_VALUES - 16)
        return false;
    if (cfx__op_info_of(op)->writes)
        return draw_op(d, op);
    for (int guess = 0; guess < GUESSES; guess++) {
        const cfx_tensor *self = NULL;
        for (int i = 0; i < s->nargs; i++) {
            args[i] = argument_beside(d, s, &s->args[i], self);
            self = self ? self : tensor_in(d, args[i]);
        }
        if (!self || cfx_is_bad(draw_tried(d, op, s->nargs, args)))
            continue;
        for (int i = 0; i < s->nargs; i++)
            args[i] = made(d, args[i]);
        return draw_call(d, op, s->nargs, args);
    }
    return false;
}
