/* Replays view operators from a base to a view, and their inverses; see functional.c. */
#include "functional.h"

#include <cfx/ops.h>

/* ---- views, there and back ------------------------------------------------------------------- */

static cfx_tensor *call_inner(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args, int out) {
    bool inside = r->inside;
    r->inside = true;
    cfx_value v = cfx__op_call_bound(at, op, args);
    r->inside = inside;
    if (out >= 0 && !cfx_is_bad(v))
        v = cfx_at(v, out);
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

/* The step taken again from another tensor. */
static cfx_tensor *step_forward(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                                cfx_tensor *t) {
    cfx_value args[CFX_MAX_ARGS];
    memcpy(args, cfx_as_list(s->args)->items, (size_t)cfx_as_list(s->args)->len * sizeof *args);
    args[0] = cfx_tensor_value(t);
    uint32_t frame = cfx__record_frame_now(r);
    cfx__record_frame_end(r, s->frame);
    cfx_tensor *view = call_inner(r, at, s->op, args, s->out);
    cfx__record_frame_end(r, frame);
    return view;
}

cfx_tensor *cfx__functional_do(cfx__recorder *r, const char *name, cfx_args a) {
    bool inside = r->inside;
    r->inside = true;
    cfx_value v = cfx_op_do_from((cfx_site){0}, cfx_op_find(name), a);
    r->inside = inside;
    return v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : &cfx__tensor_bad;
}

static cfx_tensor *permute_back(cfx__recorder *r, cfx_tensor *view, cfx_value dims) {
    int64_t back[CFX_MAX_DIMS];
    for (int64_t i = 0; i < cfx_as_list(dims)->len; i++) {
        int64_t d = cfx_integer(cfx_as_list(dims)->items[i]);
        back[d < 0 ? d + view->ndim : d] = i;
    }
    return cfx__functional_do(r, "aten.permute", CFX_ARGS(view, cfx_ints_value(view->ndim, back)));
}

/* Where item `out` of split(size), split(sizes) or chunk(count) of a dimension begins. */
static int64_t split_start(const cfx__functional_step *s, int64_t size) {
    const cfx_value by = cfx_as_list(s->args)->items[1];
    if (by.tag == CFX_TAG_INT) {
        const int64_t n = cfx_integer(by);
        return s->out * (s->op == &cfx_op_chunk ? (size + n - 1) / n : n);
    }
    int64_t at = 0;
    for (int i = 0; i < s->out; i++)
        at += cfx_integer(cfx_at(by, i));
    return at;
}

/* Whether a view is all of its base, as it is. */
static bool is_same(const char *name, const cfx_tensor *base) {
    static const char *const same[] = {
        "alias", "detach", "lift", "lift_fresh", "positive", "resolve_conj", "resolve_neg",
        "conj",  "_conj",  "real"};
    enum { ALL_DTYPES = 7 }; /* the others change complex numbers */
    for (int i = 0; i < COUNT(same); i++)
        if (!strcmp(name, same[i]))
            return i < ALL_DTYPES || !cfx__dtype_is_complex((cfx_dtype)base->dtype);
    return false;
}

void cfx__refuse_overlap(cfx_site at, const char *name) {
    cfx_fail(CFX_RUNTIME_ERROR, at,
             "While executing %s, functionalization encountered a tensor being mutated that has "
             "internal overlap. When using torch.compile (or running functionalization directly), "
             "this is banned as the behavior is not well defined. Consider cloning the tensor "
             "before mutating it, or removing the mutation from your model.",
             name);
}

/* The windows of unfold(dim, size, step), which must not overlap. */
static cfx_tensor *unfold_back(cfx__recorder *r, cfx_site at, const cfx_value *a, cfx_tensor *base,
                               cfx_tensor *view) {
    const int64_t size = cfx_integer(a[2]), step = cfx_integer(a[3]);
    int64_t dim = cfx_integer(a[1]), stride[CFX_MAX_DIMS] = {1};
    dim = dim < 0 ? dim + base->ndim : dim;
    if (size > step) {
        cfx__refuse_overlap(at, "unfold");
        return &cfx__tensor_bad;
    }
    memcpy(stride, base->stride, (size_t)base->ndim * sizeof *stride);
    stride[view->ndim - 1] = base->ndim ? base->stride[dim] : 1;
    if (base->ndim)
        stride[dim] *= step;
    return cfx__functional_do(r, "aten.as_strided_scatter",
                   CFX_ARGS(base, view, cfx_ints_value(view->ndim, view->shape),
                            cfx_ints_value(view->ndim, stride), base->offset));
}

static cfx_tensor *with_dtype(cfx__recorder *r, cfx_tensor *t, uint8_t dtype) {
    return t->dtype == dtype
               ? t
               : cfx__functional_do(r, "aten.view.dtype",
                                    CFX_ARGS(t, cfx_dtype_value((cfx_dtype)dtype)));
}

/* A copy with strides that follow from the shape, unless they do: those of single elements too. */
static cfx_tensor *contiguous(cfx__recorder *r, cfx_tensor *t) {
    int64_t stride = 1;
    bool plain = true;
    for (int i = t->ndim; i-- > 0; stride *= t->shape[i] ? t->shape[i] : 1)
        plain &= t->stride[i] == stride;
    return plain ? t
                 : cfx__functional_do(r, "aten.clone",
                                      CFX_ARGS(t, CFX_KW(memory_format, cfx_contiguous_format)));
}

/* The numbers of an as_strided, which may come after a view of another dtype: the base is seen in
 * that dtype then. */
static cfx_tensor *strided_back(cfx__recorder *r, cfx_value size, cfx_value stride,
                                cfx_value offset, cfx_tensor *base, cfx_tensor *view) {
    cfx_tensor *whole = with_dtype(r, base, view->dtype);
    cfx_tensor *all = cfx__functional_do(r, "aten.as_strided_scatter",
                                         CFX_ARGS(whole, view, size, stride, offset));
    return with_dtype(r, all, base->dtype);
}

static bool as_wide(const cfx_tensor *a, const cfx_tensor *b) {
    return cfx_dtype_size((cfx_dtype)a->dtype) == cfx_dtype_size((cfx_dtype)b->dtype);
}

/* base with `view`, which was taken from it by step s, put back. */
static cfx_tensor *step_back(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                             cfx_tensor *base, cfx_tensor *view) {
    const char *name = cfx__op_info_of(s->op)->schema->name;
    const cfx_value *a = cfx_as_list(s->args)->items;
    const cfx_value shape = cfx_ints_value(base->ndim, base->shape);
    if (!strcmp(name, "slice"))
        return cfx__functional_do(r, "aten.slice_scatter",
                                  CFX_ARGS(base, view, a[1], a[2], a[3], a[4]));
    if (!strcmp(name, "select"))
        return cfx__functional_do(r, "aten.select_scatter", CFX_ARGS(base, view, a[1], a[2]));
    if (!strcmp(name, "unbind"))
        return cfx__functional_do(r, "aten.select_scatter", CFX_ARGS(base, view, a[1], s->out));
    if (!strcmp(name, "split") || !strcmp(name, "split_with_sizes") || s->op == &cfx_op_chunk) {
        const int dim = (int)cfx_integer(a[2]), of = dim < 0 ? dim + view->ndim : dim;
        const int64_t start = split_start(s, base->shape[of]), end = start + view->shape[of];
        return cfx__functional_do(r, "aten.slice_scatter", CFX_ARGS(base, view, dim, start, end));
    }
    if (s->op == &cfx_op_view_dtype && !base->numel)
        return base; /* strides of nothing need not be those that a wider dtype takes */
    if (s->op == &cfx_op_view_dtype)
        return with_dtype(r, as_wide(view, base) ? view : contiguous(r, view), base->dtype);
    if (!strcmp(name, "view") || !strcmp(name, "_reshape_alias") || !strcmp(name, "reshape"))
        return cfx__functional_do(r, cfx__tensor_is_contiguous(view) ? "aten.view" : "aten.reshape",
                                  CFX_ARGS(view, shape));
    if (!strcmp(name, "permute"))
        return permute_back(r, view, a[1]);
    if (!strcmp(name, "transpose") || !strcmp(name, "swapdims") || !strcmp(name, "swapaxes"))
        return cfx__functional_do(r, "aten.transpose.int", CFX_ARGS(view, a[1], a[2]));
    if (!strcmp(name, "t"))
        return cfx__functional_do(r, "aten.t", CFX_ARGS(view));
    if (!strcmp(name, "unsqueeze"))
        return cfx__functional_do(r, "aten.squeeze.dim", CFX_ARGS(view, a[1]));
    if (!strcmp(name, "squeeze"))
        return cfx__functional_do(r, "aten.view", CFX_ARGS(view, shape));
    if (!strcmp(name, "expand")) /* by dimensions of one element: see put_at */
        return cfx__functional_do(r, "aten.view", CFX_ARGS(view, shape));
    if (!strcmp(name, "diagonal"))
        return cfx__functional_do(r, "aten.diagonal_scatter",
                                  CFX_ARGS(base, view, a[1], a[2], a[3]));
    if (s->op == &cfx_op_unfold)
        return unfold_back(r, at, a, base, view);
    if (is_same(name, base))
        return view;
    if (!strcmp(name, "_conj") || !strcmp(name, "conj"))
        return cfx__functional_do(r, "aten._conj_physical", CFX_ARGS(view));
    if (!strcmp(name, "view_as_real"))
        return cfx__functional_do(r, "aten.view_as_complex", CFX_ARGS(view));
    if (!strcmp(name, "view_as_complex"))
        return cfx__functional_do(r, "aten.view_as_real", CFX_ARGS(view));
    cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
             "a write through %s cannot be put back into the tensor it is a view of",
             cfx_op_name(s->op));
    return &cfx__tensor_bad;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool cfx__strides_are(const cfx_tensor *a, const cfx_tensor *b) {
    bool same = true;
    for (int i = 0; i < a->ndim; i++)
        same &= a->shape[i] == 1 || a->stride[i] == b->stride[i];
    return same || !a->numel;
}

bool cfx__memory_order_is(const cfx_tensor *a, const cfx_tensor *b) {
    return !a->numel || (a->offset == b->offset && cfx__strides_are(a, b));
}

/* The dimensions of a tensor, those of larger strides first. */
static void by_stride(const cfx_tensor *t, int64_t *order) {
    for (int i = 0; i < t->ndim; i++) {
        int k = i;
        for (; k > 0 && t->stride[order[k - 1]] < t->stride[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

/* t with the strides of another, which has its shape. */
cfx_tensor *cfx__in_memory_order(cfx__recorder *r, cfx_site at, const cfx_tensor *like,
                               cfx_tensor *t) {
    int64_t order[CFX_MAX_DIMS];
    if (like->offset || !cfx__tensor_is_dense(like)) {
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, at,
                 "a tensor that lies in a part of a storage is written to, and other parts of that "
                 "storage are read by strides from its start");
        return &cfx__tensor_bad;
    }
    if (cfx__tensor_is_contiguous(like))
        return contiguous(r, t);
    by_stride(like, order);
    cfx_value dims = cfx_ints_value(t->ndim, order);
    t = contiguous(r, cfx__functional_do(r, "aten.permute", CFX_ARGS(t, dims)));
    return permute_back(r, t, dims);
}

/* ---- all steps ------------------------------------------------------------------------------- */

cfx_tensor *cfx__steps_forward(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                             cfx_tensor *base) {
    if (!s)
        return base;
    cfx_tensor *t = cfx__steps_forward(r, at, s->before, base);
    return cfx__obj_is_bad(t) ? t : step_forward(r, at, s, t);
}

/* The same without nodes: a fake tensor that lies in the memory of the base. */
cfx_tensor *cfx__steps_place(cfx__recorder *r, const cfx__functional_step *s, cfx_tensor *base) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx__op_layer *layer = d->recorder;
    d->recorder = cfx__op_record_nothing;
    cfx_tensor *made = cfx__steps_forward(r, (cfx_site){0}, s, base);
    d->recorder = layer;
    return made;
}

bool cfx__steps_read_storage(const cfx__functional_step *s) {
    for (; s; s = s->before)
        if (s->op->effects & CFX_STORAGE)
            return true;
    return false;
}

/* Whether two elements of a view on the way to s, or of s, are one element of the base. An unfold
 * is refused by itself. */
static bool overlap_on_the_way(cfx__recorder *r, const cfx__functional_step *s, cfx_tensor *base) {
    for (; s; s = s->before)
        if (s->op != &cfx_op_unfold && cfx__tensor_shares_elements(cfx__steps_place(r, s, base)))
            return true;
    return false;
}

/* The new value of the base where views overlap themselves: by the place of the last one in memory.
 * Of what is written to one place the last stays there. */
static cfx_tensor *put_at(cfx__recorder *r, const cfx_tensor *place, cfx_tensor *base,
                          cfx_tensor *value) {
    int64_t size[CFX_MAX_DIMS];
    for (int i = 0; i < place->ndim; i++) {
        size[i] = place->stride[i] ? place->shape[i] : 1;
        if (size[i] < place->shape[i])
            value = cfx__functional_do(r, "aten.slice.Tensor",
                            CFX_ARGS(value, i, place->shape[i] - 1, place->shape[i]));
    }
    return strided_back(r, cfx_ints_value(place->ndim, size),
                        cfx_ints_value(place->ndim, place->stride), cfx_int(place->offset), base,
                        value);
}

static bool is_expanded(const cfx__functional_step *s) {
    while (s && s->op != &cfx_op_expand)
        s = s->before;
    return s != NULL;
}

/* The new value of the base when step s, taken from it, is to give `value`. */
cfx_tensor *cfx__steps_back(cfx__recorder *r, cfx_site at, const cfx__functional_step *s,
                            cfx_tensor *base, cfx_tensor *value) {
    VEC(const cfx__functional_step *) way = {0};
    VEC(cfx_tensor *) seen = {0};
    if (!value->numel && is_expanded(s)) /* to nothing: no sum of it is the base */
        return base;
    if (overlap_on_the_way(r, s, base))
        return value->numel ? put_at(r, cfx__steps_place(r, s, base), base, value) : base;
    for (; s; s = s->before)
        VEC_PUSH(way, s);
    VEC_PUSH(seen, base);
    for (size_t i = way.len; i-- > 1 && cfx_ok();) {
        base = step_forward(r, at, way.data[i], base);
        VEC_PUSH(seen, base);
    }
    for (size_t i = 0; i < way.len && cfx_ok(); i++) {
        const bool strided = way.data[i]->op == &cfx_op_as_strided; /* counts from the base */
        cfx_tensor *whole = strided ? seen.data[0] : seen.data[way.len - 1 - i];
        cfx_value given[] = {cfx_tensor_value(whole), cfx_tensor_value(value)};
        const cfx_value *a = cfx_as_list(way.data[i]->args)->items;
        uint32_t frame = cfx__record_frame_begin(r, COUNT(given), given);
        value = strided ? strided_back(r, a[1], a[2], a[3], whole, value)
                        : step_back(r, at, way.data[i], whole, value);
        cfx__record_frame_end(r, frame);
        if (strided)
            break;
    }
    VEC_FREE(way);
    VEC_FREE(seen);
    return value;
}

