/* Pairs of nodes of two programs. Each step pairs what the steps before left over, most certain
 * first: inputs by what they stand for; names with the same operator; the last node of what came
 * from one line of the model's source; calls of one operator on paired inputs; names alone; and,
 * backwards, the inputs of paired calls. */
#include <cfx/pair.h>

#include "graph.h"

static void pairs_free(void *obj) {
    cfx_pairs *p = obj;
    cfx__free(p->pairs);
    cfx__free(p->by_a);
    cfx__free(p->by_b);
}

static const cfx__obj_type pairs_type = {.name = "pairs", .free = pairs_free};
static const cfx_pairs bad_pairs = {.head = {.refs = 1, .flags = CFX__BAD, .type = &pairs_type}};

static cfx_node **slot_a(const cfx_pairs *p, const cfx_node *n) {
    return &p->by_a[cfx__node_of(n)->id];
}

static cfx_node **slot_b(const cfx_pairs *p, const cfx_node *n) {
    return &p->by_b[cfx__node_of(n)->id];
}

static bool is_free(const cfx_pairs *p, const cfx_node *a, const cfx_node *b) {
    return a && b && !*slot_a(p, a) && !*slot_b(p, b);
}

static void join(cfx_pairs *p, cfx_node *a, cfx_node *b) {
    *slot_a(p, a) = b;
    *slot_b(p, b) = a;
}

static bool same_target(const cfx_node *a, const cfx_node *b) {
    return a->op == b->op && !strcmp(a->target.name, b->target.name);
}

/* Whether two results can stand for one value: as many tensors of the same sizes. */
static bool alike(cfx_result a, cfx_result b) {
    if (a.kind == CFX_RESULT_UNKNOWN || b.kind == CFX_RESULT_UNKNOWN)
        return a.kind == b.kind;
    if (a.kind != b.kind || a.ndim != b.ndim)
        return false;
    for (int i = 0; a.kind == CFX_RESULT_TENSOR && i < a.ndim; i++) {
        cfx_value x = cfx_result_size(&a, i), y = cfx_result_size(&b, i);
        if (x.tag == CFX_TAG_INT && y.tag == CFX_TAG_INT && cfx_integer(x) != cfx_integer(y))
            return false;
    }
    return a.kind != CFX_RESULT_SEVERAL || cfx_result_count(&a) == cfx_result_count(&b);
}

static bool fit(const cfx_node *a, const cfx_node *b) {
    return alike(cfx_node_result(a), cfx_node_result(b));
}

/* ---- where nodes come from ------------------------------------------------------------------- */

/* A text that nodes made of one call of the model share; NULL: nothing tells. Scope. */
static const char *origin(const cfx_node *n) {
    const char *call = cfx_text(cfx_node_get_meta(n, "torch_fn"));
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    const char *source = cfx_text(cfx_node_get_meta(n, "source"));
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (!call && !trace && !source)
        return NULL;
    cfx__text out = {0};
    if (stack.tag == CFX_TAG_DICT && cfx_as_dict(stack)->len) {
        const char *module = cfx_text(cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].key);
        cfx__text_puts(&out, module ? module : "");
    }
    const char *const parts[] = {call, trace, source};
    for (int i = 0; i < COUNT(parts); i++)
        cfx__text_printf(&out, "\n%s", parts[i] ? parts[i] : "");
    return cfx__text_take(&out);
}

/* Whether what is known of where two nodes come from speaks against a pair. */
static bool strangers(const cfx_node *a, const cfx_node *b) {
    bool differ = false;
    CFX_SCOPE {
        const char *x = origin(a), *y = origin(b);
        differ = x && y && strcmp(x, y);
    }
    return differ;
}

/* The last call of each origin; keys are kept in `texts`. */
static void last_calls(const cfx_graph *g, cfx__map *last, cfx__arena *texts) {
    cfx_each_node(g, n) {
        if (n->op != CFX_CALL_FUNCTION)
            continue;
        CFX_SCOPE {
            const char *key = origin(n);
            if (key)
                cfx__map_set(last, cfx__arena_copy(texts, key, strlen(key)), n);
        }
    }
}

static void pair_origins(cfx_pairs *p) {
    cfx__map last_a = {0};
    cfx__map last_b = {0};
    cfx__arena texts = {0};
    last_calls(p->a->module->graph, &last_a, &texts);
    last_calls(p->b->module->graph, &last_b, &texts);
    for (size_t i = 0; i < last_b.cap; i++) {
        if (!last_b.slots[i].key)
            continue;
        cfx_node *a = cfx__map_get(&last_a, last_b.slots[i].key), *b = last_b.slots[i].value;
        if (is_free(p, a, b) && fit(a, b))
            join(p, a, b);
    }
    cfx__map_release(&last_a);
    cfx__map_release(&last_b);
    cfx__arena_release(&texts);
}

/* ---- inputs and names ------------------------------------------------------------------------ */

static cfx_node *input_node(const cfx_program *p, int i) {
    return cfx_graph_find(p->module->graph, p->inputs[i].name);
}

/* Parameters and buffers by what they are, the caller's inputs by their number. */
static void pair_inputs(cfx_pairs *p) {
    int user_b = 0;
    for (int j = 0; j < p->b->ninputs; j++) {
        const cfx_input_spec *want = &p->b->inputs[j];
        int user_a = 0, found = -1;
        for (int i = 0; i < p->a->ninputs && found < 0; i++) {
            const cfx_input_spec *have = &p->a->inputs[i];
            bool both = have->kind == CFX_IN_USER && want->kind == CFX_IN_USER;
            if (both ? user_a == user_b
                     : have->target && want->target && !strcmp(have->target, want->target))
                found = i;
            user_a += have->kind == CFX_IN_USER;
        }
        cfx_node *a = found < 0 ? NULL : input_node(p->a, found), *b = input_node(p->b, j);
        if (is_free(p, a, b))
            join(p, a, b);
        user_b += want->kind == CFX_IN_USER;
    }
    cfx_node *a = cfx_graph_output_node(p->a->module->graph);
    cfx_node *b = cfx_graph_output_node(p->b->module->graph);
    if (is_free(p, a, b))
        join(p, a, b);
}

/* Nodes with one name; certain: of one operator, and of one origin as far as that is known. */
static void pair_names(cfx_pairs *p, bool certain) {
    cfx_each_node(p->b->module->graph, b) {
        cfx_node *a = cfx_graph_find(p->a->module->graph, b->name);
        if (is_free(p, a, b) && a->op == b->op && fit(a, b) &&
            (!certain || (same_target(a, b) && !strangers(a, b))))
            join(p, a, b);
    }
}

/* ---- structure ------------------------------------------------------------------------------- */

static bool same_inputs(const cfx_pairs *p, const cfx_node *a, const cfx_node *b) {
    const cfx_use *x = a->inputs, *y = b->inputs;
    for (; x && y; x = x->next_input, y = y->next_input)
        if (*slot_b(p, y->node) != x->node)
            return false;
    return !x && !y;
}

static void pair_structure(cfx_pairs *p) {
    cfx_each_node(p->b->module->graph, b) {
        cfx_node *from = b->inputs ? *slot_b(p, b->inputs->node) : NULL;
        if (!from || *slot_b(p, b))
            continue;
        cfx_each_user(from, u) {
            if (is_free(p, u->user, b) && same_target(u->user, b) && same_inputs(p, u->user, b)) {
                join(p, u->user, b);
                break;
            }
        }
    }
}

static void pair_backwards(cfx_pairs *p) {
    for (cfx_node *b = p->b->module->graph->last; b; b = b->prev) {
        cfx_node *a = *slot_b(p, b);
        const cfx_use *x = a ? a->inputs : NULL, *y = b->inputs;
        for (; x && y; x = x->next_input, y = y->next_input)
            if (is_free(p, x->node, y->node) && x->node->op == y->node->op &&
                fit(x->node, y->node))
                join(p, x->node, y->node);
    }
}

/* ---- what changed ---------------------------------------------------------------------------- */

static bool same_value(const cfx_pairs *p, cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    if (a.tag == CFX_TAG_NODE)
        return *slot_b(p, cfx_as_node(b)) == cfx_as_node(a);
    if (a.tag == CFX_TAG_LIST || a.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(a)->len && i < cfx_as_list(b)->len; i++)
            if (!same_value(p, cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]))
                return false;
        return cfx_as_list(a)->len == cfx_as_list(b)->len;
    }
    if (a.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(a)->len; i++) {
            const cfx_value *other = cfx_dict_find(cfx_as_dict(b), cfx_as_dict(a)->entries[i].key);
            if (!other || !same_value(p, cfx_as_dict(a)->entries[i].value, *other))
                return false;
        }
        return cfx_as_dict(a)->len == cfx_as_dict(b)->len;
    }
    bool same = false;
    CFX_SCOPE same = !strcmp(cfx_value_repr(a), cfx_value_repr(b));
    return same;
}

static bool same_bytes(const cfx_tensor *a, const cfx_tensor *b) {
    if (!a || !b || a == b)
        return a == b;
    if (a->dtype != b->dtype || !cfx__tensor_same_shape(a, b))
        return false;
    bool same = true;
    if (a->data && b->data)
        CFX_SCOPE {
            const cfx_tensor *x = cfx__tensor_contiguous(a), *y = cfx__tensor_contiguous(b);
            same = !memcmp(x->data, y->data,
                           (size_t)(a->numel * cfx_dtype_size((cfx_dtype)a->dtype)));
        }
    return same;
}

/* The tensor that a placeholder stands for; NULL: the caller's. */
static const cfx_tensor *tensor_of(const cfx_program *p, const cfx_node *n) {
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].name && !strcmp(p->inputs[i].name, n->name))
            return cfx_program_tensor(p, &p->inputs[i]);
    return NULL;
}

static bool is_changed(const cfx_pairs *p, const cfx_node *a, const cfx_node *b) {
    if (a->op == CFX_PLACEHOLDER)
        return !same_bytes(tensor_of(p->a, a), tensor_of(p->b, b));
    cfx_result x = cfx_node_result(a), y = cfx_node_result(b);
    if (x.kind == CFX_RESULT_TENSOR && y.kind == CFX_RESULT_TENSOR && x.dtype != y.dtype)
        return true;
    return !same_target(a, b) || !same_value(p, a->args, b->args) ||
           !same_value(p, a->kwargs, b->kwargs);
}

/* The pairs as a list; how many of them are calls. */
static int list_pairs(cfx_pairs *p) {
    int calls = 0;
    p->pairs = cfx__alloc0((size_t)(cfx_graph_len(p->b->module->graph) + 1) * sizeof *p->pairs);
    cfx_each_node(p->b->module->graph, b) {
        cfx_node *a = *slot_b(p, b);
        if (!a)
            continue;
        p->pairs[p->n++] = (cfx_pair){a, b, is_changed(p, a, b)};
        calls += b->op == CFX_CALL_FUNCTION;
    }
    return calls;
}

cfx_pairs *cfx_program_pair(cfx_program *a, cfx_program *b) {
    if (!cfx__program_given((cfx_site){0}, a) ||
        !cfx__program_given((cfx_site){0}, b) || !cfx_ok())
        return (cfx_pairs *)&bad_pairs;
    cfx_pairs *p = cfx__obj_new(&pairs_type, sizeof *p);
    p->a = a;
    p->b = b;
    p->by_a = cfx__alloc0((a->module->graph->made.len + 1) * sizeof *p->by_a);
    p->by_b = cfx__alloc0((b->module->graph->made.len + 1) * sizeof *p->by_b);
    pair_inputs(p);
    pair_names(p, true);
    pair_origins(p);
    pair_structure(p);
    pair_names(p, false);
    pair_backwards(p);
    pair_structure(p);
    if (list_pairs(p))
        return p;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "no call of the first program belongs to one of the second: they cannot be compared");
    return (cfx_pairs *)&bad_pairs;
}

cfx_node *cfx_pairs_other(const cfx_pairs *p, const cfx_node *n) {
    if (cfx_failed(p) || !n)
        return NULL;
    return n->graph == p->a->module->graph   ? *slot_a(p, n)
           : n->graph == p->b->module->graph ? *slot_b(p, n)
                                             : NULL;
}
