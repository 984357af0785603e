/* Verifies a program beyond its calls: the signature matches its tensors and mutations, and
 * sub-graphs match their calls. Messages are those of PyTorch's verifier where it has them. */
#include "problems.h"

typedef cfx__finding finding;

#define VIOLATION CFX_SPEC_VIOLATION_ERROR

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A tensor of a class of Python's is kept as the bytes it came as. */
static bool is_object(const cfx_program *p, const char *target) {
    cfx_value objects = cfx_dict_get(p->extra, "objects");
    return objects.tag == CFX_TAG_DICT && !cfx_is_none(cfx_dict_get(cfx_as_dict(objects), target));
}

static void check_held(finding *f, const cfx_input_spec *s, const cfx_node *n) {
    const cfx_program *p = f->program;
    const char *target = s->target ? s->target : "";
    bool state = cfx_dict_find(p->state, cfx_string_value(target)) != NULL;
    cfx_tensor *t = cfx_program_tensor(p, s);
    if (s->kind == CFX_IN_BUFFER && !s->persistent && state)
        cfx__problem_add(f, n, VIOLATION,
                         "Non-persistent buffer %s is in the state dict, it should not be.",
                         target);
    if (!t && is_object(p, target))
        return;
    if (!t) {
        cfx__problem_add(f, n, VIOLATION, "%s %s is not in the %s.",
                         s->kind == CFX_IN_PARAMETER ? "Parameter"
                         : s->kind == CFX_IN_BUFFER  ? "Buffer"
                                                     : "Constant tensor",
                         target,
                         cfx__program_tensors(p, s) == p->state ? "state dict"
                                                                : "constants dictionary");
        return;
    }
    cfx_result r = cfx_node_result(n), own = cfx_result_of(cfx_tensor_value(t));
    bool fits = r.kind == CFX_RESULT_UNKNOWN || (r.shape && cfx__infer_same(&r, &own));
    if (!fits)
        cfx__problem_add(f, n, CFX_RUNTIME_ERROR,
                         "input %s stands for '%s', which is %s, but %s is declared", s->name,
                         target, cfx_result_text(&own), cfx_result_text(&r));
}

static void check_input(finding *f, const cfx_input_spec *s, const cfx_node *n) {
    switch (s->kind) {
    case CFX_IN_PARAMETER:
    case CFX_IN_BUFFER:
    case CFX_IN_CONSTANT: check_held(f, s, n); break;
    case CFX_IN_USER:
        if (!s->constant && cfx_node_result(n).kind == CFX_RESULT_UNKNOWN)
            cfx__problem_add(f, n, VIOLATION, "Node.meta %s is missing val field.", n->name);
        break;
    case CFX_IN_OBJECT:
    case CFX_IN_TOKEN: break;
    }
}

/* ---- results --------------------------------------------------------------------------------- */

static bool is_write(cfx_output_kind kind) {
    return kind == CFX_OUT_BUFFER_MUTATION || kind == CFX_OUT_PARAMETER_MUTATION ||
           kind == CFX_OUT_INPUT_MUTATION;
}

/* Inputs that results may be written to, by kind of the write and name: "b buffer". */
static void note_written(cfx_dict *inputs, const cfx_input_spec *s, const cfx_node *n) {
    char tag = s->kind == CFX_IN_BUFFER ? 'b' : s->kind == CFX_IN_PARAMETER ? 'p' : 'u';
    const char *name = s->kind == CFX_IN_USER ? s->name : s->target;
    if (name)
        cfx_dict_set(inputs, cfx__text_format("%c %s", tag, name), cfx_node_value((cfx_node *)n));
}

static char tag_of(cfx_output_kind kind) {
    return kind == CFX_OUT_BUFFER_MUTATION ? 'b' : kind == CFX_OUT_PARAMETER_MUTATION ? 'p' : 'u';
}

/* Results of a kind as gs.buffers_to_mutate has them, and inputs as gs.buffers has them; scope. */
static const char *written_text(const cfx_program *p, cfx_output_kind kind) {
    cfx_dict *d = cfx_dict_new();
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].kind == kind && p->outputs[i].name)
            cfx_dict_set(d, p->outputs[i].name, cfx_string_value(p->outputs[i].target));
    return cfx_value_repr(cfx_dict_value(d));
}

static const char *inputs_text(const cfx_program *p, cfx_input_kind kind) {
    cfx_value names = cfx_tuple_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == kind)
            cfx_list_append(cfx_as_list(names),
                            cfx_string_value(p->inputs[i].target ? p->inputs[i].target
                                                                 : p->inputs[i].name));
    return cfx_value_repr(names);
}

/* Where nothing is called as a result says that it is written to. */
static void fail_written(finding *f, const cfx_output_spec *s, const cfx_node *n) {
    static const struct {
        const char *head, *to, *mutated, *available;
        cfx_input_kind kind;
    } words[] = {
        [CFX_OUT_BUFFER_MUTATION] = {"Buffer", "buffer", "buffers", "Buffer", CFX_IN_BUFFER},
        [CFX_OUT_PARAMETER_MUTATION] = {"Parameter", "parameter", "parameters", "Parameter",
                                        CFX_IN_PARAMETER},
        [CFX_OUT_INPUT_MUTATION] = {"User input", "user input", "user inputs", "User input",
                                    CFX_IN_USER},
    };
    cfx__problem_add(f, n, VIOLATION,
                     "%s output %s does not point to a %s that exists. \nDict of %s that are "
                     "mutated, in order: %s \n%s nodes available: %s \n",
                     words[s->kind].head, s->name ? s->name : "None", words[s->kind].to,
                     words[s->kind].mutated, written_text(f->program, s->kind),
                     words[s->kind].available, inputs_text(f->program, words[s->kind].kind));
}

/* Whether two sizes are the same, with all sizes that are tried. Those that data decides may be
 * anything. */
static bool same_size(finding *f, cfx_value a, cfx_value b) {
    if ((a.tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(a))) ||
        (b.tag == CFX_TAG_SYM && cfx__sym_has_data(cfx_as_sym(b))))
        return true;
    cfx__infer_begin(&f->infer);
    bool same = true;
    for (int k = 0; same && k < f->infer.worlds.n; k++) {
        int64_t x, y;
        if (CFX__TRIED_WORLDS >> k & 1 && cfx__worlds_eval(&f->infer.worlds, k, a, &x) &&
            cfx__worlds_eval(&f->infer.worlds, k, b, &y))
            same = x == y;
    }
    return same;
}

/* Whether two results are alike; what is not known is like anything. */
static bool fits(finding *f, const cfx_result *a, const cfx_result *b) {
    if (a->kind == CFX_RESULT_UNKNOWN || b->kind == CFX_RESULT_UNKNOWN)
        return true;
    if (a->kind != CFX_RESULT_TENSOR || b->kind != CFX_RESULT_TENSOR)
        return a->kind == b->kind && cfx_result_count(a) == cfx_result_count(b);
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = same_size(f, cfx_result_size(a, i), cfx_result_size(b, i));
    return same;
}

static void check_write(finding *f, const cfx_output_spec *s, const cfx_node *n, cfx_dict *inputs,
                        cfx_dict *seen) {
    const char *key = cfx__text_format("%c %s", tag_of(s->kind), s->target ? s->target : "");
    cfx_value to = cfx_dict_get(inputs, key);
    if (to.tag != CFX_TAG_NODE) {
        fail_written(f, s, n);
        return;
    }
    if (cfx_dict_find(seen, cfx_string_value(key)))
        cfx__problem_add(f, n, VIOLATION, "%s is written to '%s', to which another result is too",
                         s->name ? s->name : "None", s->target);
    cfx_dict_set(seen, key, cfx_none());
    cfx_result r = n ? cfx_node_result(n) : cfx_result_of(s->value);
    cfx_result input = cfx_node_result(cfx_as_node(to));
    if (!n || !fits(f, &r, &input))
        cfx__problem_add(f, n, CFX_RUNTIME_ERROR, "%s, which is written to '%s', is %s, not %s",
                         s->name ? s->name : cfx_value_repr(s->value), s->target,
                         cfx_result_text(&r), cfx_result_text(&input));
}

/* Writes come before the caller's results, tokens before both. */
static void check_order(finding *f, const cfx_output_spec *s, const cfx_node *n, bool *after) {
    if (is_write(s->kind) && *after)
        cfx__problem_add(f, n, VIOLATION,
                         "Mutation node %s is neither a buffer nor a user input. Buffers to "
                         "mutate: %s, User inputs to mutate: %s",
                         s->name ? s->name : "None",
                         written_text(f->program, CFX_OUT_BUFFER_MUTATION),
                         written_text(f->program, CFX_OUT_INPUT_MUTATION));
    *after |= !is_write(s->kind) && s->kind != CFX_OUT_TOKEN;
}

void cfx__verify_signature(finding *f) {
    const cfx_program *p = f->program;
    size_t mark = cfx_scope_open();
    cfx_dict *inputs = cfx_dict_new(), *seen = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_node *n = p->own_->placeholders.data[i];
        check_input(f, &p->inputs[i], n);
        note_written(inputs, &p->inputs[i], n);
    }
    bool after = false;
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *s = &p->outputs[i];
        const cfx_node *n = p->own_->results.data[i];
        if (is_write(s->kind))
            check_write(f, s, n, inputs, seen);
        check_order(f, s, n, &after);
    }
    cfx_scope_close(mark);
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

/* What sub-graphs are called with: "3" is a list at argument 3, "1r" a row of each tensor of a
 * list, "2*" all arguments from 2 on. What the call gives: "=" what each graph gives, "2" what is
 * in a list, "+" what the graph gives with a dimension more, as many as there are rows. What a
 * graph carries on is like a list, too. */
static const struct shape {
    const char *name;
    int graphs[2];           /* arguments; -1: none */
    const char *takes;       /* each graph */
    const char *carries;     /* the last graph gives this first; "": nothing */
    const char *gives;       /* the call */
    int most;                /* arguments; 0: any number */
    const char *modes;       /* first arguments: "b" a bool, "s" a str, "d" a dtype or None */
} shapes[] = {
    {"cond", {1, 2}, "3", "", "=", 4, ""},
    {"while_loop", {0, 1}, "2 3", "2", "2", 4, ""},
    {"map_impl", {0, -1}, "1r 2", "", "+", 3, ""},
    {"scan", {0, -1}, "1 2r 3 5", "1", "1+", 6, ""},
    {"associative_scan", {0, -1}, "1r 1r 2", "1r", "1", 3, ""},
    {"wrap_with_set_grad_enabled", {1, -1}, "2*", "", "=", 0, "b"},
    {"wrap_with_autocast", {4, -1}, "5*", "", "=", 0, "sdb"},
    {"invoke_subgraph", {0, -1}, "2*", "", "=", 0, ""},
    {"tag_activation_checkpoint", {0, -1}, "1*", "", "=", 0, ""},
    {"wrap", {0, -1}, "1*", "", "=", 0, ""},
    {"strict_mode", {0, -1}, "1", "", "=", 2, ""},
    {"hints_wrapper", {0, -1}, "1", "", "=", 3, ""},
};

static cfx_value argument(const cfx_node *n, int64_t i) {
    const cfx_list *args = cfx_as_list(n->args);
    return i < args->len ? args->items[i] : cfx_none();
}

static bool is_sequence(cfx_value v) { return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE; }

/* What is noted of a tensor, without its first dimension, or with `rows` in front of it. */
static cfx_value with_rows(cfx_value val, cfx_value rows) {
    cfx_result r = cfx_result_of(val);
    bool less = cfx_is_none(rows);
    if (r.kind != CFX_RESULT_TENSOR || (less && !r.ndim))
        return val;
    cfx_dict *d = cfx_dict_new();
    cfx_value shape = cfx_tuple_value(0, NULL);
    if (!less)
        cfx_list_append(cfx_as_list(shape), rows);
    for (int i = less; i < r.ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_result_size(&r, i));
    cfx_dict_set(d, "shape", shape);
    cfx_dict_set(d, "dtype", cfx_dtype_value(r.dtype));
    return cfx_dict_value(d);
}

/* What is noted of node v when `reader` reads it; f knows the in-place operators of their graph. */
static void add_operand(const cfx__inference *f, cfx_list *to, cfx_value v, const cfx_node *reader,
                        bool row) {
    cfx_node *n = v.tag == CFX_TAG_NODE ? cfx__infer_latest(f, cfx_as_node(v), reader) : NULL;
    cfx_value val = n ? cfx_node_get_meta(n, "val") : v;
    cfx_list_append(to, row ? with_rows(val, cfx_none()) : val);
}

static cfx_list *operands_of(const cfx__inference *f, const cfx_node *n, const char *takes) {
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    for (const char *at = takes; *at; at += strcspn(at, " "), at += *at == ' ') {
        int64_t i = *at - '0', count = cfx_as_list(n->args)->len;
        cfx_value v = argument(n, i);
        if (at[1] == '*')
            for (; i < count; i++)
                add_operand(f, out, argument(n, i), n, false);
        else
            for (int64_t k = 0; is_sequence(v) && k < cfx_as_list(v)->len; k++)
                add_operand(f, out, cfx_as_list(v)->items[k], n, at[1] == 'r');
    }
    return out;
}

/* What is noted of what a sub-graph gives. */
static cfx_list *results_of(const cfx_module *m) {
    cfx_list *out = cfx_as_list(cfx_list_value(0, NULL));
    const cfx_node *output = cfx_graph_output_node(m->graph);
    cfx_value made = output ? argument(output, 0) : cfx_none();
    cfx__inference f = {0};
    cfx__infer_find_in_place(&f, m->graph);
    if (!is_sequence(made))
        add_operand(&f, out, made, output, false);
    for (int64_t i = 0; is_sequence(made) && i < cfx_as_list(made)->len; i++)
        add_operand(&f, out, cfx_as_list(made)->items[i], output, false);
    cfx__free(f.in_place);
    return out;
}

/* Compares two lists of notes, one by one. */
static void compare(finding *f, const cfx_node *n, const char *graph, const char *what,
                    const cfx_list *has, const cfx_list *wants) {
    if (has->len != wants->len) {
        cfx__problem_add(f, n, CFX_RUNTIME_ERROR, "the graph '%s' %s %lld values, not %lld",
                         graph, what, (long long)has->len, (long long)wants->len);
        return;
    }
    for (int64_t i = 0; i < has->len; i++) {
        cfx_result a = cfx_result_of(has->items[i]), b = cfx_result_of(wants->items[i]);
        if (!fits(f, &a, &b))
            cfx__problem_add(f, n, CFX_RUNTIME_ERROR,
                             "value %lld that the graph '%s' %s is %s, not %s", (long long)i,
                             graph, what, cfx_result_text(&a), cfx_result_text(&b));
    }
}

/* The graph that is argument i of a call in the graph of m; NULL where it is none. */
static const cfx_module *graph_in(const cfx_module *m, const cfx_node *n, int i) {
    cfx_value v = argument(n, i);
    if (v.tag == CFX_TAG_NODE && cfx_as_node(v)->op == CFX_GET_ATTR)
        v = cfx_module_attr(m, cfx_as_node(v)->target.name);
    return v.tag == CFX_TAG_MODULE && cfx_as_module(v)->graph ? cfx_as_module(v) : NULL;
}

/* The same; NULL with a problem. */
static const cfx_module *graph_at(finding *f, const cfx_node *n, int i) {
    const cfx_module *graph = graph_in(f->infer.module, n, i);
    if (!graph)
        cfx__problem_add(f, n, CFX_TYPE_ERROR, "argument %d of %s must be a graph", i,
                         n->target.name);
    return graph;
}

static const char *graph_name(const cfx_node *n, int i) {
    cfx_value v = argument(n, i);
    return v.tag == CFX_TAG_NODE ? cfx_as_node(v)->target.name : "";
}

/* How many rows there are of what is gone through: the first size of the first tensor in list 1. */
static cfx_value rows_of(const cfx__inference *f, const cfx_node *n, const char *takes) {
    const char *at = strchr(takes, 'r');
    cfx_value v = at ? argument(n, at[-1] - '0') : cfx_none();
    bool any = is_sequence(v) && cfx_as_list(v)->len;
    v = any ? cfx_as_list(v)->items[0] : cfx_none();
    cfx_node *first = v.tag == CFX_TAG_NODE ? cfx__infer_latest(f, cfx_as_node(v), n) : NULL;
    cfx_result r = first ? cfx_node_result(first) : (cfx_result){0};
    return cfx_result_size(&r, 0);
}

/* The results of a call that gives, beside what it carries on, rows of what its graph gives. */
static cfx_list *stacked(const cfx__inference *f, const cfx_node *n, const struct shape *s,
                         const cfx_list *gives) {
    cfx_list *out = *s->gives == '+' ? cfx_as_list(cfx_list_value(0, NULL))
                                     : operands_of(f, n, (char[]){*s->gives, 0});
    cfx_value rows = rows_of(f, n, s->takes);
    for (int64_t i = out->len; i < gives->len; i++)
        cfx_list_append(out, cfx_is_none(rows) ? rows : with_rows(gives->items[i], rows));
    return out;
}

static void check_subgraph(finding *f, const cfx_node *n, const struct shape *s, int k) {
    const cfx_module *m = graph_at(f, n, s->graphs[k]);
    bool last = k == 1 || s->graphs[1] < 0;
    if (!m)
        return;
    const char *name = graph_name(n, s->graphs[k]);
    cfx_list *takes = cfx_as_list(cfx_list_value(0, NULL)), *gives = results_of(m);
    cfx_each_node(m->graph, p) if (p->op == CFX_PLACEHOLDER)
        cfx_list_append(takes, cfx_node_get_meta(p, "val"));
    compare(f, n, name, "takes", takes, operands_of(&f->infer, n, s->takes));
    if (*s->carries && last) {
        cfx_list *carried = operands_of(&f->infer, n, s->carries), *first = gives;
        if (gives->len > carried->len)
            first = cfx_as_list(cfx_list_value(carried->len, gives->items));
        compare(f, n, name, "gives", first, carried);
    }
    cfx_result noted = cfx_node_result(n);
    if (noted.kind != CFX_RESULT_SEVERAL)
        return;
    const cfx_list *all = cfx_as_list(noted.value);
    if (*s->gives == '=')
        compare(f, n, name, "gives", gives, all);
    else if (last && strchr(s->gives, '+'))
        compare(f, n, name, "makes the call give", stacked(&f->infer, n, s, gives), all);
    else if (last)
        compare(f, n, name, "makes the call give", operands_of(&f->infer, n, s->gives), all);
}

static void check_modes(finding *f, const cfx_node *n, const char *modes) {
    for (int i = 0; modes[i]; i++) {
        const cfx_value v = argument(n, i);
        const bool none = modes[i] == 'd' && cfx_is_none(v);
        const cfx_tag tag = modes[i] == 'b'   ? CFX_TAG_BOOL
                            : modes[i] == 's' ? CFX_TAG_STR
                                              : CFX_TAG_DTYPE;
        if (v.tag != tag && !none)
            cfx__problem_add(f, n, CFX_TYPE_ERROR, "%s: argument %d must be a %s, not %s",
                             n->target.name, i,
                             modes[i] == 'b'   ? "bool"
                             : modes[i] == 's' ? "str"
                                               : "dtype or None",
                             cfx_value_type_name(v));
    }
}

static void check_higher(finding *f, const cfx_node *n, const struct shape *s) {
    int64_t given = cfx_as_list(n->args)->len;
    if (s->most && given > s->most)
        cfx__problem_add(f, n, CFX_TYPE_ERROR, "%s takes at most %d arguments, not %lld",
                         n->target.name, s->most, (long long)given);
    check_modes(f, n, s->modes);
    cfx_value dim = argument(n, 3); /* of a scan in files before PyTorch 2.7 */
    bool across = !strcmp(s->name, "scan") && dim.tag == CFX_TAG_INT && cfx_integer(dim);
    for (int k = 0; k < 2 && s->graphs[k] >= 0 && !across; k++)
        check_subgraph(f, n, s, k);
}

static const struct shape *shape_of(const cfx_node *n) {
    const char *name = cfx_node_higher_order(n);
    for (int i = 0; name && i < COUNT(shapes); i++)
        if (!strcmp(name, shapes[i].name))
            return &shapes[i];
    return NULL;
}

void cfx__verify_subgraphs(finding *f, cfx_node *n) {
    const struct shape *s = shape_of(n);
    if (s)
        check_higher(f, n, s);
}

cfx_list *cfx__higher_takes(const cfx_node *n) {
    const struct shape *s = shape_of(n);
    cfx__inference f = {0};
    if (!s)
        return NULL;
    cfx__infer_find_in_place(&f, n->graph);
    cfx_list *takes = operands_of(&f, n, s->takes);
    cfx__free(f.in_place);
    return takes;
}

cfx_value cfx__higher_gives(const cfx_module *m, const cfx_node *n) {
    const struct shape *s = shape_of(n);
    const cfx_module *last = s ? graph_in(m, n, s->graphs[s->graphs[1] >= 0]) : NULL;
    if (!last)
        return cfx_none();
    cfx_list *gives = results_of(last);
    cfx__inference f = {0};
    cfx__infer_find_in_place(&f, n->graph);
    if (strchr(s->gives, '+'))
        gives = stacked(&f, n, s, gives);
    else if (*s->gives != '=')
        gives = operands_of(&f, n, s->gives);
    cfx__free(f.in_place);
    return cfx_tuple_value(gives->len, gives->items);
}
