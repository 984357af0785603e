/* Sizes that are symbols: shape rules work on plain integers, so a program is run at sizes that are
 * primes found nowhere else in it, and an integer that is one of them, or a product, or next to
 * one, or the size of a tensor that has been recorded, is written as what it stands for. */
#include "symbols.h"

static cfx_value key(int64_t n) { return cfx_int(n); }

/* ---- choosing -------------------------------------------------------------------------------- */

static int64_t *assigned(cfx__symbols *s, const char *name) {
    for (size_t i = 0; i < s->assigned.len; i++)
        if (!strcmp(s->assigned.data[i].name, name))
            return &s->assigned.data[i].value;
    return NULL;
}

static bool is_prime(int64_t n) {
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

static bool is_free(cfx__symbols *s, int64_t n) {
    for (size_t i = 0; i < s->assigned.len; i++)
        if (s->assigned.data[i].value == n)
            return false;
    return is_prime(n) && !cfx_dict_find(s->plain, key(n));
}

/* A prime that nothing else is, within a range. */
static int64_t choose(cfx__symbols *s, int64_t least, int64_t most) {
    enum { START = 1009 };
    int64_t n = least > START ? least : START;
    for (; n <= most && !is_free(s, n); n++)
        continue;
    if (n <= most)
        return n;
    for (n = most; n > least && !is_free(s, n); n--)
        continue;
    return n;
}

int64_t cfx__symbols_add(cfx__symbols *s, const char *name, int64_t least, int64_t most) {
    int64_t *known = assigned(s, name);
    if (known)
        return *known;
    struct cfx__symbols_assigned a = {strdup(name), choose(s, least, most)};
    VEC_PUSH(s->assigned, a);
    return a.value;
}

/* Every symbol in an expression gets a size, in its range of the program's where there is one. */
static void assign(cfx__symbols *s, const cfx_dict *ranges, const struct cfx_sym *e) {
    if (!e)
        return;
    if (e->op == CFX__SYM_NAME) {
        cfx_value range = ranges ? cfx_dict_get(ranges, e->name) : cfx_none();
        int64_t most = INT64_MAX, least = 2;
        if (range.tag == CFX_TAG_TUPLE && range.list->len == 2) {
            if (range.list->items[0].tag == CFX_TAG_INT && range.list->items[0].i > least)
                least = range.list->items[0].i;
            if (range.list->items[1].tag == CFX_TAG_INT)
                most = range.list->items[1].i;
        }
        cfx__symbols_add(s, e->name, least, most);
    }
    assign(s, ranges, e->a);
    assign(s, ranges, e->b);
}

typedef void visit_fn(cfx__symbols *s, const cfx_dict *ranges, cfx_value v);

static void visit(cfx__symbols *s, const cfx_dict *ranges, cfx_value v, visit_fn *fn) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < v.list->len; i++)
            visit(s, ranges, v.list->items[i], fn);
    else if (v.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < v.dict->len; i++)
            visit(s, ranges, v.dict->entries[i].value, fn);
    else
        fn(s, ranges, v);
}

static void note_plain(cfx__symbols *s, const cfx_dict *ranges, cfx_value v) {
    (void)ranges;
    if (v.tag == CFX_TAG_INT)
        cfx_dict_put(s->plain, v, cfx_none());
    if (v.tag == CFX_TAG_TENSOR)
        for (int i = 0; i < v.tensor->ndim; i++)
            cfx_dict_put(s->plain, key(v.tensor->shape[i]), cfx_none());
}

static void note_symbols(cfx__symbols *s, const cfx_dict *ranges, cfx_value v) {
    if (v.tag == CFX_TAG_SYM)
        assign(s, ranges, v.sym);
}

typedef struct {
    cfx__symbols *symbols;
    const cfx_dict *ranges;
    visit_fn *fn;
} visiting;

static void visit_module(const char *path, cfx_module *m, void *user) {
    visiting *v = user;
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) {
            visit(v->symbols, v->ranges, cfx_node_get_meta(n, "val"), v->fn);
            visit(v->symbols, v->ranges, n->args, v->fn);
            visit(v->symbols, v->ranges, n->kwargs, v->fn);
        }
}

void cfx__symbols_begin(cfx__symbols *s) { s->plain = cfx_keep(cfx_dict_new()); }

void cfx__symbols_choose(cfx__symbols *s, const cfx_program *p) {
    cfx__symbols_begin(s);
    visiting v = {s, p->ranges, note_plain};
    cfx_module_walk(p->module, visit_module, &v);
    v.fn = note_symbols;
    cfx_module_walk(p->module, visit_module, &v);
}

void cfx__symbols_free(cfx__symbols *s) {
    for (size_t i = 0; i < s->assigned.len; i++)
        free((char *)s->assigned.data[i].name);
    VEC_FREE(s->assigned);
    VEC_FREE(s->sizes);
    cfx_drop(s->plain);
}

/* ---- expressions to integers ----------------------------------------------------------------- */

static int64_t power(int64_t a, int64_t b) {
    int64_t n = 1;
    for (; b > 0; b--)
        n *= a;
    return n;
}

static int64_t evaluate(cfx__symbols *s, const struct cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return e->hint;
    if (e->op == CFX__SYM_NAME) {
        int64_t *known = assigned(s, e->name);
        if (!known)
            assign(s, NULL, e);
        return known ? *known : *assigned(s, e->name);
    }
    int64_t a = evaluate(s, e->a), b = evaluate(s, e->b);
    switch (e->op) {
    case CFX__SYM_ADD: return a + b;
    case CFX__SYM_MUL: return a * b;
    case CFX__SYM_POW: return power(a, b);
    case CFX__SYM_MIN: return a < b ? a : b;
    case CFX__SYM_MAX: return a > b ? a : b;
    case CFX__SYM_FLOORDIV: return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
    default: return b ? ((a % b) + b) % b : 0;
    }
}

cfx_value cfx__symbols_value(cfx__symbols *s, cfx_value v) {
    return v.tag == CFX_TAG_SYM ? cfx_int(evaluate(s, v.sym)) : v;
}

cfx_value cfx__symbols_tensor(cfx__symbols *s, cfx_value val) {
    cfx_result r = cfx_result_of(val);
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (r.kind != CFX_RESULT_TENSOR || r.ndim > CFX_MAX_DIMS)
        return cfx_none();
    if (r.shape)
        return val;
    for (int i = 0; i < r.ndim; i++) {
        shape[i] = cfx_integer(cfx__symbols_value(s, cfx_result_size(&r, i)));
        stride[i] = cfx_integer(cfx__symbols_value(s, cfx_result_stride(&r, i)));
    }
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, r.dtype, true, r.ndim, shape, stride);
    if (!cfx__obj_is_bad(t))
        t->device = r.device;
    return cfx_tensor_value(t);
}

/* ---- integers to nodes ----------------------------------------------------------------------- */

void cfx__symbols_know(cfx__symbols *s, int64_t value, cfx_node *n, int dim) {
    if (!s->assigned.len || value < 2 || cfx_dict_find(s->plain, key(value)))
        return;
    for (size_t i = 0; i < s->sizes.len; i++)
        if (s->sizes.data[i].value == value)
            return;
    struct cfx__symbols_size known = {value, dim < 0 ? n : NULL, n, dim};
    VEC_PUSH(s->sizes, known);
}

static cfx_node *with_value(cfx__symbols *s, cfx_node *n, int64_t value) {
    if (n->graph)
        cfx_node_set_meta(n, "val", cfx__symbols_expression(s, value));
    return n;
}

static cfx_node *operation(cfx__recorder *r, const char *name, cfx_value a, cfx_value b) {
    return cfx__record_node(r, (cfx_site){0}, cfx_graph_target(r->graph, name), cfx_tuple(a, b),
                            cfx_none(), NULL);
}

/* The node of a size that is known already, or NULL. */
static cfx_node *known_node(cfx__symbols *s, cfx__recorder *r, int64_t value) {
    for (size_t i = 0; i < s->sizes.len; i++) {
        if (s->sizes.data[i].value != value)
            continue;
        struct cfx__symbols_size at = s->sizes.data[i];
        if (!at.node || at.node->graph != r->graph) {
            if (at.tensor->graph != r->graph)
                return NULL;
            cfx_op *op = cfx_op_find("aten.sym_size.int");
            at.node =
                cfx__record_node(r, (cfx_site){0}, (cfx_target){.op = op, .name = cfx_op_name(op)},
                                 cfx_tuple(at.tensor, at.dim), cfx_none(), NULL);
            s->sizes.data[i].node = with_value(s, at.node, value);
        }
        return at.node;
    }
    return NULL;
}

static cfx_node *keep_node(cfx__symbols *s, int64_t value, cfx_node *n) {
    if (n && n->graph)
        cfx__symbols_know(s, value, with_value(s, n, value), -1);
    return n;
}

static bool is_suspect(cfx__symbols *s, int64_t value);

/* A product of things known: of exactly these, whatever else is near. */
static cfx_node *product_of(cfx__symbols *s, cfx__recorder *r, int64_t value, int depth) {
    cfx_node *n = known_node(s, r, value);
    if (n || depth > 4)
        return n;
    for (size_t i = 0; i < s->sizes.len; i++) {
        int64_t unit = s->sizes.data[i].value, times = value / unit;
        cfx_node *base = unit * times == value && times > 1 ? known_node(s, r, unit) : NULL;
        if (!base)
            continue;
        cfx_node *more = is_suspect(s, times) ? product_of(s, r, times, depth + 1) : NULL;
        cfx_value factor = more ? cfx_node_value(more) : cfx_int(times);
        return keep_node(s, value, operation(r, "operator.mul", cfx_node_value(base), factor));
    }
    return NULL;
}

/* How far from a size a number may be and still be told from it: small sizes are crowded. */
static int64_t reach(int64_t size) { return size > 1000 ? 64 : size / 16; }

static cfx_node *node_of(cfx__symbols *s, cfx__recorder *r, int64_t value) {
    cfx_node *n = product_of(s, r, value, 0);
    for (size_t i = 0; i < s->sizes.len && !n; i++) { /* beside it */
        int64_t unit = s->sizes.data[i].value, past = value - unit;
        cfx_node *base =
            past >= -reach(unit) && past <= reach(unit) ? known_node(s, r, unit) : NULL;
        if (base)
            n = operation(r, "operator.add", cfx_node_value(base), cfx_int(past));
    }
    for (size_t i = 0; i < s->sizes.len && !n; i++) { /* a part of it */
        int64_t unit = s->sizes.data[i].value;
        for (int64_t d = 2; d <= reach(unit) && !n; d++) {
            cfx_node *base = unit / d == value ? known_node(s, r, unit) : NULL;
            if (base)
                n = operation(r, "operator.floordiv", cfx_node_value(base), cfx_int(d));
        }
    }
    return n ? keep_node(s, value, n) : NULL;
}

/* Whether a value may depend on symbols: it is no number of the program's own, and large. */
static bool is_suspect(cfx__symbols *s, int64_t value) {
    return s->assigned.len && value > 1 && value < INT64_MAX / 2 &&
           !cfx_dict_find(s->plain, key(value));
}

cfx_value cfx__symbols_arg(cfx__symbols *s, cfx__recorder *r, int64_t value) {
    cfx_node *n = is_suspect(s, value) ? node_of(s, r, value) : NULL;
    return n ? cfx_node_value(n) : cfx_int(value);
}

/* ---- integers to expressions ----------------------------------------------------------------- */

cfx_value cfx__symbols_expression(cfx__symbols *s, int64_t value) {
    enum { FAR = 16 };
    if (!is_suspect(s, value))
        return cfx_int(value);
    for (size_t i = 0; i < s->assigned.len; i++) {
        const struct cfx__symbols_assigned *a = &s->assigned.data[i];
        cfx_value name = cfx__sym_name(a->name, false, 0);
        if (value % a->value == 0)
            return cfx__sym_binary(CFX__SYM_MUL, name,
                                   cfx__symbols_expression(s, value / a->value));
    }
    for (size_t i = 0; i < s->assigned.len; i++) {
        const struct cfx__symbols_assigned *a = &s->assigned.data[i];
        cfx_value name = cfx__sym_name(a->name, false, 0);
        for (int64_t d = -FAR; d <= FAR; d++)
            if (a->value + d == value)
                return cfx__sym_binary(CFX__SYM_ADD, name, cfx_int(d));
        for (int64_t k = 2; k <= FAR; k++)
            for (int64_t d = -FAR; d <= FAR; d++)
                if ((a->value + d) / k == value)
                    return cfx__sym_binary(
                        CFX__SYM_FLOORDIV,
                        d ? cfx__sym_binary(CFX__SYM_ADD, name, cfx_int(d)) : name, cfx_int(k));
    }
    return cfx_int(value);
}

static cfx_value expressions(cfx__symbols *s, int n, const int64_t *sizes, bool *any) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int i = 0; i < n; i++) {
        cfx_value e = cfx__symbols_expression(s, sizes[i]);
        *any |= e.tag == CFX_TAG_SYM;
        cfx_list_append(out.list, e);
    }
    return out;
}

cfx_value cfx__symbols_describe(cfx__symbols *s, const cfx_tensor *t) {
    bool any = false;
    cfx_value shape = expressions(s, t->ndim, t->shape, &any);
    cfx_value stride = expressions(s, t->ndim, t->stride, &any);
    if (!any)
        return cfx_none();
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value((cfx_dtype)t->dtype));
    cfx_dict_set(d, "stride", stride);
    cfx_dict_set(d, "device", cfx_device_value(t->device));
    return cfx_dict_value(d);
}
