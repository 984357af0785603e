/* Which sizes of a result are the same SymInt objects as sizes of the arguments, and which an
 * operator computes anew, as in PyTorch's shape functions. Most operators pass sizes on; the
 * rules here are for those that compute sizes, or take them from another argument than the first
 * that has them. Start at cfx__symint_shared. */
#include "symints.h"

typedef struct {
    cfx__merging *g;
    const cfx_node *node;
    const cfx__schema *schema;
    const cfx__seen *sizes; /* of the result */
    int ndim;
    int dim; /* of it */
} call;

static bool is_list(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* The argument called so; None where it is not given. */
static cfx_value arg(const call *c, const char *name) {
    for (int i = 0; i < c->schema->nargs; i++)
        if (!strcmp(c->schema->args[i].name, name))
            return i < c->schema->npositional && i < cfx_len(c->node->args)
                       ? cfx_at(c->node->args, i)
                       : cfx_dict_get(cfx_as_dict(c->node->kwargs), name);
    return cfx_none();
}

/* What a tensor argument is, with its sizes as expressions; how many; -1: it is none. */
static int ndim_of(cfx_value v, cfx_value *shape) {
    cfx_value val = v.tag == CFX_TAG_NODE ? cfx_node_get_meta(cfx_as_node(v), "val") : cfx_none();
    *shape = val.tag == CFX_TAG_TENSOR
                 ? cfx_ints_value(cfx_as_tensor(val)->ndim, cfx_as_tensor(val)->shape)
                 : cfx__merge_sizes(val);
    return is_list(*shape) ? (int)cfx_len(*shape) : -1;
}

static int dims_of(cfx_value v) {
    cfx_value shape;
    return ndim_of(v, &shape);
}

/* Whether a size is dimension d of the result, in all worlds. */
static bool is_size(const call *c, cfx_value size, int d) {
    for (int k = 0; k < c->g->m->worlds->n; k++) {
        int64_t now;
        if (!cfx__worlds_eval(c->g->m->worlds, k, size, &now) || now != c->sizes[d].at[k])
            return false;
    }
    return true;
}

static bool varies(const call *c) {
    for (int k = 1; k < c->g->m->worlds->n; k++)
        if (c->sizes[c->dim].at[k] != c->sizes[c->dim].at[0])
            return true;
    return false;
}

/* Dimension i of an argument, where it has the size. */
static uint32_t of_dim(const call *c, cfx_value v, int64_t i) {
    cfx_value shape;
    int n = ndim_of(v, &shape);
    bool same = i >= 0 && i < n && is_size(c, cfx_at(shape, i), c->dim);
    return same ? cfx__symint_of(c->g, cfx_as_node(v), (int)i) : 0;
}

/* Whether an argument has all sizes of the result. */
static bool is_alike(const call *c, cfx_value v) {
    cfx_value shape;
    bool same = ndim_of(v, &shape) == c->ndim;
    for (int i = 0; same && i < c->ndim; i++)
        same = is_size(c, cfx_at(shape, i), i);
    return same;
}

/* The dimension of a tensor that is broadcast to the result's; then any that has the size. A size
 * that is the same in all worlds may be another there. */
static uint32_t of_tensor(const call *c, cfx_value v, bool broadcast) {
    int n = dims_of(v);
    if (n < 0 || (!varies(c) && !is_alike(c, v)))
        return 0;
    uint32_t found = broadcast ? of_dim(c, v, c->dim - (c->ndim - n)) : 0;
    for (int i = 0; !broadcast && i < n && !found; i++)
        found = of_dim(c, v, i);
    return found;
}

/* A number that is given as the size. */
static uint32_t of_number(const call *c, cfx_value v, int d) {
    uint32_t id = v.tag == CFX_TAG_NODE ? cfx__node_of(cfx_as_node(v))->id : UINT32_MAX;
    bool number = id < c->g->symints->number.len &&
                  is_size(c, cfx_node_get_meta(cfx_as_node(v), "val"), d);
    return number ? c->g->symints->number.data[id] : 0;
}

static uint32_t of_any(const call *c, cfx_value v, bool broadcast) {
    uint32_t found = 0;
    for (int64_t i = 0; is_list(v) && i < cfx_len(v) && !found; i++)
        found = of_any(c, cfx_at(v, i), broadcast);
    return found || is_list(v) ? found : of_tensor(c, v, broadcast);
}

/* Number dim of a list of sizes that are given for the last dimensions; -1 says as it is. */
static uint32_t of_list(const call *c, const char *name) {
    cfx_value list = arg(c, name);
    int64_t i = is_list(list) ? c->dim - (c->ndim - cfx_len(list)) : -1;
    return i >= 0 && i < cfx_len(list) ? of_number(c, cfx_at(list, i), c->dim) : 0;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* The first argument that is broadcast to it, or has it anywhere. */
static uint32_t any(const call *c) {
    uint32_t found = of_any(c, c->node->args, true);
    return found ? found : of_any(c, c->node->args, false);
}

static uint32_t none(const call *c) { return (void)c, 0; }

static int64_t wrapped(const call *c, const char *name, int64_t ndim) {
    cfx_value v = arg(c, name);
    int64_t dim = v.tag == CFX_TAG_INT ? cfx_integer(v) : 0;
    return dim < 0 ? dim + ndim : dim;
}

/* All but the dimension that `dim` says, which is computed. */
static uint32_t but_dim(const call *c) {
    if (c->dim == wrapped(c, "dim", c->ndim))
        return 0;
    return any(c);
}

static uint32_t sized(const call *c) {
    static const char *const lists[] = {"size", "shape"};
    uint32_t found = 0;
    for (int i = 0; i < COUNT(lists) && !found; i++)
        found = of_list(c, lists[i]);
    return found ? found : any(c);
}

static uint32_t permuted(const call *c) {
    cfx_value dims = arg(c, "dims"), self = arg(c, "self");
    cfx_value from = is_list(dims) && c->dim < cfx_len(dims) ? cfx_at(dims, c->dim) : cfx_none();
    int64_t i = from.tag == CFX_TAG_INT ? cfx_integer(from) : 0;
    return of_dim(c, self, i < 0 ? i + dims_of(self) : i);
}

static uint32_t unsqueezed(const call *c) {
    int64_t at = wrapped(c, "dim", c->ndim);
    return c->dim == at ? 0 : of_dim(c, arg(c, "self"), c->dim - (c->dim > at));
}

static uint32_t picked(const call *c) {
    cfx_value self = arg(c, "self");
    int64_t at = wrapped(c, "dim", dims_of(self));
    return of_dim(c, self, c->dim + (c->dim >= at));
}

/* The last but one dimension of the first matrix, the last of the second. */
static uint32_t product(const call *c) {
    static const char *const left[] = {"mat1", "batch1", "self"},
                             *const right[] = {"mat2", "batch2", "mat2"};
    int i = 0;
    while (i < COUNT(left) - 1 && cfx_is_none(arg(c, left[i])))
        i++;
    return of_dim(c, arg(c, c->dim == c->ndim - 1 ? right[i] : left[i]), c->dim);
}

static uint32_t indexed(const call *c) { return of_tensor(c, arg(c, "index"), true); }

/* As many as there are indices. */
static uint32_t selected(const call *c) {
    cfx_value index = arg(c, "index");
    return c->dim != wrapped(c, "dim", c->ndim) ? any(c)
           : index.tag == CFX_TAG_NODE ? cfx__symint_of(c->g, cfx_as_node(index), CFX__NUMEL)
                                       : 0;
}

/* Images and volumes: what is computed comes after batch and channels. */
static uint32_t spatial(const call *c) { return c->dim > 1 ? 0 : any(c); }

/* Pairs from the last dimension on. */
static uint32_t padded(const call *c) {
    cfx_value by = arg(c, "pad");
    return is_list(by) && c->dim >= c->ndim - cfx_len(by) / 2 ? 0 : any(c);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* A dimension on the way from one shape to the other: its size in the example, and what it is. */
typedef struct {
    int64_t size;
    uint32_t symint;
} part;

typedef struct {
    part at[2 * CFX_MAX_DIMS];
    int n;
} parts;

static void put(parts *p, int i, part one) {
    if (p->n >= COUNT(p->at))
        return;
    memmove(p->at + i + 1, p->at + i, (size_t)(p->n - i) * sizeof one);
    p->at[i] = one;
    p->n++;
}

static void cut(parts *p, int i, int n) {
    memmove(p->at + i, p->at + i + n, (size_t)(p->n - i - n) * sizeof *p->at);
    p->n -= n;
}

/* The dimensions of `from` become those of `to`, from the first to the last: those that fit stay,
 * others are put together until what is wanted can be split off. */
static void reshape(parts *from, const parts *to) {
    int i = 0;
    for (int k = 0; k < to->n; k++, i++) {
        part want = to->at[k];
        if (i >= from->n) {
            put(from, i, want);
            continue;
        }
        if (from->at[i].size == want.size)
            continue;
        int64_t all = from->at[i].size;
        int end = i;
        while (want.size && all % want.size && end + 1 < from->n)
            all *= from->at[++end].size;
        if (end > i) {
            cut(from, i, end - i);
            from->at[i] = (part){all, 0};
        }
        if (all != want.size && want.size) {
            from->at[i] = (part){all / want.size, 0};
            put(from, i, want);
        }
    }
    from->n = to->n;
}

static uint32_t viewed(const call *c) {
    cfx_value self = arg(c, "self"), sizes = arg(c, "size");
    cfx_value now = self.tag == CFX_TAG_NODE
                        ? cfx__worlds_tensor(c->g->m->worlds, 0,
                                             cfx_node_get_meta(cfx_as_node(self), "val"))
                        : cfx_none();
    if (now.tag != CFX_TAG_TENSOR || !is_list(sizes) || cfx_len(sizes) != c->ndim)
        return 0;
    const cfx_tensor *t = cfx_as_tensor(now);
    parts from = {.n = t->ndim}, to = {.n = c->ndim};
    for (int i = 0; i < t->ndim; i++)
        from.at[i] = (part){t->shape[i], cfx__symint_of(c->g, cfx_as_node(self), i)};
    for (int i = 0; i < to.n; i++)
        to.at[i] = (part){c->sizes[i].at[0], of_number(c, cfx_at(sizes, i), i)};
    bool dense = cfx__tensor_is_contiguous(t);
    if (dense && to.n == 1 && t->ndim > 1)
        return cfx__symint_of(c->g, cfx_as_node(self), CFX__NUMEL);
    if (dense && to.n == 2 && t->ndim == 1)
        return to.at[c->dim].symint;
    reshape(&from, &to);
    return c->dim < from.n ? from.at[c->dim].symint : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef uint32_t rule_fn(const call *c);

static const struct {
    const char *start; /* of the operator's name; whole where it ends in a blank */
    rule_fn *rule;
} rules[] = {
    {"slice ", but_dim},   {"cat ", but_dim},      {"split", but_dim},
    {"arange ", none},     {"repeat ", none},      {"unfold ", none},
    {"im2col ", none},     {"conv", spatial},      {"max_pool", spatial},
    {"avg_pool", spatial}, {"upsample_", spatial}, {"constant_pad_nd ", padded},
    {"expand ", sized},    {"full ", sized},       {"empty ", sized},
    {"view ", viewed},     {"_unsafe_view ", viewed},
    {"permute ", permuted}, {"unsqueeze ", unsqueezed}, {"select ", picked},
    {"gather ", indexed},  {"index_select ", selected}, {"cumsum ", but_dim},
    {"cumprod ", but_dim}, {"mm ", product},       {"bmm ", product},
    {"addmm ", product},   {"baddbmm ", product},
};

static uint32_t shared(const call *c) {
    const char *name = c->schema->name;
    for (int i = 0; i < COUNT(rules); i++) {
        size_t len = strlen(rules[i].start);
        bool whole = rules[i].start[len - 1] == ' ';
        if (!strncmp(name, rules[i].start, len - whole) && (!whole || strlen(name) == len - 1))
            return rules[i].rule(c);
    }
    return any(c);
}

uint32_t cfx__symint_shared(cfx__merging *g, const cfx_node *n, int ndim, const cfx__seen *sizes,
                            int dim) {
    const cfx_node *from = cfx_node_is_getitem(n) && cfx_at(n->args, 0).tag == CFX_TAG_NODE
                               ? cfx_as_node(cfx_at(n->args, 0))
                               : n;
    if (from->op != CFX_CALL_FUNCTION || !from->target.op || from->target.fn)
        return 0;
    call c = {g, from, cfx__op_info_of(from->target.op)->schema, sizes, ndim, dim};
    return shared(&c);
}
