/* model.json from a program: the inverse of pt2_graph.c and pt2_program.c.
 *
 * Inputs and outputs come first, then the nodes in one walk, each handed over to the archive when
 * it is finished, so that the text of a large graph is never in memory as a whole. Each value goes
 * into the table of its kind when its node is met; the results of an operator with several are
 * named after the getitem nodes that take them, which are not written themselves. */
#include "pt2_write.h"

enum { MAX_GRAPHS = 40 };

static void put_text(cfx__text *t, const char *text) { cfx__json_string(t, text, strlen(text)); }

/* ---- calls ----------------------------------------------------------------------------------- */

/* The schema of an overload; NULL for functions of Python's, higher-order operators and those that
 * the registry lacks. */
static const cfx__schema *schema_of(const cfx_node *n) {
    if (!n->target.op || n->target.fn)
        return NULL;
    cfx__op_info *info = cfx__op_info_of(n->target.op);
    return info ? info->schema : NULL;
}

static bool is_operator(const cfx_node *n, const char *module) {
    return !strncmp(n->target.name, module, strlen(module));
}

/* Positional arguments of a call without schema: as the file called them, or as Python does. */
static const char *arg_name(const cfx_node *n, int64_t i) {
    static const char *const python[] = {"a", "b", "c"};
    cfx_value names = cfx_node_get_meta(n, "arg_names");
    if (cfx_node_higher_order(n))
        return "";
    if (cfx__value_is_sequence(names) && i < cfx_as_list(names)->len &&
        cfx_text(cfx_as_list(names)->items[i]))
        return cfx_text(cfx_as_list(names)->items[i]);
    return i < COUNT(python) ? python[i] : "";
}

static bool put_named(cfx__pt2_writer *w, cfx__text *t, const char *name, cfx_value v,
                      const cfx__schema_arg *type, bool keyword) {
    cfx__json_comma(t);
    cfx__text_puts(t, "{\"name\": ");
    put_text(t, name);
    cfx__text_puts(t, ", \"arg\": ");
    bool ok = cfx__pt2_write_argument(w, t, v, type);
    cfx__text_puts(t, keyword ? ", \"kind\": 2}" : ", \"kind\": 1}");
    return ok;
}

static bool put_inputs(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    const cfx__schema *s = schema_of(n);
    const cfx_list *args = cfx_as_list(n->args);
    const cfx_dict *kwargs = cfx_as_dict(n->kwargs);
    bool ok = true;
    for (int64_t i = 0; ok && i < args->len; i++) {
        const cfx__schema_arg *a = s && i < s->nargs ? &s->args[i] : NULL;
        const char *name = a ? a->name : arg_name(n, i);
        if (a && !i && cfx__op_info_of(n->target.op)->form == CFX__INPLACE)
            name = "self"; /* whatever the functional form calls it */
        ok = put_named(w, t, name, args->items[i], a, false);
    }
    for (int64_t i = 0; ok && i < kwargs->len; i++) {
        const char *name = cfx_text(kwargs->entries[i].key);
        const cfx__schema_arg *a = NULL;
        for (int k = 0; s && name && k < s->nargs && !a; k++)
            if (!strcmp(s->args[k].name, name))
                a = &s->args[k];
        ok = put_named(w, t, name ? name : "", kwargs->entries[i].value, a, true);
    }
    return ok;
}

void cfx__pt2_find_twins(const cfx_graph *g, cfx__map *twins) {
    cfx__map firsts = {0}; /* by the call and the number of the result */
    size_t mark = cfx_scope_open();
    cfx_each_node(g, n) {
        if (!cfx_node_takes_result(n))
            continue;
        const cfx_list *args = cfx_as_list(n->args);
        const char *key = cfx__text_format("%s:%lld", cfx_as_node(args->items[0])->name,
                                           (long long)cfx_integer(args->items[1]));
        void *first = cfx__map_get(&firsts, key);
        if (first)
            cfx__map_set(twins, n->name, first);
        else
            cfx__map_set(&firsts, key, n);
    }
    cfx__map_release(&firsts);
    cfx_scope_close(mark);
}

const cfx_node *cfx__pt2_first_like(const cfx__map *twins, const cfx_node *n) {
    const cfx_node *first = twins->len ? cfx__map_get(twins, n->name) : NULL;
    return first ? first : n;
}

/* getitem nodes by what they take: the first of each. NULL where nothing takes a result. The caller
 * frees the list. */
static const cfx_node **takers_of(cfx__pt2_writer *w, const cfx_node *n, int64_t count) {
    const cfx_node **takers = cfx__alloc0((size_t)(count + 1) * sizeof *takers);
    cfx_each_user(n, u) {
        if (!cfx_node_takes_result(u->user))
            continue;
        int64_t i = cfx_integer(cfx_as_list(u->user->args)->items[1]);
        i = i < 0 ? i + count : i;
        if (i < 0 || i >= count)
            cfx__pt2_write_bad(w, "has %lld results, of which '%s' takes number %lld",
                               (long long)count, u->user->name, (long long)i);
        else
            takers[i] = cfx__pt2_first_like(&w->twins, u->user);
    }
    return takers;
}

/* The one result that a node stands for. */
static bool put_own(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n, const cfx_result *r,
                    bool bare) {
    w->given[cfx__node_of(n)->id] = true;
    return cfx__pt2_write_result(w, t, n->name, r, bare);
}

static bool put_results(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n, const cfx_result *all,
                        int64_t count, bool bare);

/* A result that nothing reads, or a list of such: named after the call and its place. */
static bool put_unused(cfx__pt2_writer *w, cfx__text *t, const char *after, int64_t i,
                       const cfx_result *r, bool bare) {
    cfx__text unused = {0};
    cfx__text_printf(&unused, "%s_%lld", after, (long long)i);
    const char *name = cfx__arena_copy(&w->arena, unused.data, unused.len);
    cfx__text_release(&unused);
    if (r->kind != CFX_RESULT_SEVERAL)
        return cfx__pt2_write_result(w, t, name, r, bare);
    bool ok = true;
    cfx__text_puts(t, "{\"as_tensors\": [");
    for (int64_t k = 0; ok && k < cfx_result_count(r); k++) {
        const cfx_result item = cfx_result_item(r, k);
        cfx__json_comma(t);
        ok = put_unused(w, t, name, k, &item, true);
    }
    cfx__text_puts(t, "]}");
    return ok;
}

/* Result i of a node with several. */
static bool put_result(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n, const cfx_node *taker,
                       int64_t i, cfx_result r, bool bare) {
    cfx_result own = taker ? cfx_node_result(taker) : r;
    if (own.kind != CFX_RESULT_UNKNOWN)
        r = own;
    if (r.kind == CFX_RESULT_SEVERAL && taker) {
        cfx__text_puts(t, "{\"as_tensors\": [");
        bool ok = put_results(w, t, taker, &r, cfx_result_count(&r), true);
        cfx__text_puts(t, "]}");
        return ok;
    }
    if (cfx_is_none(r.value) && (!taker || !taker->num_users)) {
        cfx__text_puts(t, "{\"as_none\": true}");
        return true;
    }
    if (taker)
        return put_own(w, t, taker, &r, bare);
    return put_unused(w, t, cfx__text_format("%s_unused", n->name), i, &r, bare);
}

static bool put_results(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n, const cfx_result *all,
                        int64_t count, bool bare) {
    const cfx_node **takers = takers_of(w, n, count);
    bool ok = !w->failed;
    for (int64_t i = 0; ok && i < count; i++) {
        cfx__json_comma(t);
        cfx_result r = {0};
        if (all->kind == CFX_RESULT_SEVERAL)
            r = cfx_result_item(all, i);
        ok = put_result(w, t, n, takers[i], i, r, bare);
    }
    cfx__free(takers);
    return ok;
}

/* How many results the getitem nodes of a call show it to have. */
static int64_t count_taken(const cfx_node *n) {
    int64_t count = 0;
    cfx_each_user(n, u) {
        int64_t i =
            cfx_node_takes_result(u->user) ? cfx_integer(cfx_as_list(u->user->args)->items[1]) : -1;
        if (i >= count && i < 100000)
            count = i + 1;
    }
    return count;
}

static bool put_outputs(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    const cfx__schema *s = schema_of(n);
    cfx_result r = cfx_node_result(n);
    bool tuple = r.kind == CFX_RESULT_SEVERAL;
    bool unsaid = !tuple && cfx_is_none(r.value) && !n->num_users; /* and nobody asks */
    if (s && (!s->nrets || (s->nrets > 1 && unsaid)))
        return true;
    int64_t count = tuple ? cfx_result_count(&r) : count_taken(n);
    int64_t told = tuple ? count : 1;
    bool alone = !tuple && !cfx_is_none(r.value) && !n->num_users; /* else its users are told */
    if (s && s->nrets > 1 && told != s->nrets && (tuple || alone))
        return cfx__pt2_write_bad(w, "is described with %lld result%s; its operator gives %d",
                                  (long long)told, told == 1 ? "" : "s", s->nrets);
    if (s && s->nrets > 1)
        count = s->nrets;
    bool several = tuple || (s ? s->nrets > 1 || s->rets[0].list
                               : cfx_is_none(r.value) && count > 0);
    /* of an operator that nobody knows the file alone tells one result from a list of one */
    bool list = s ? s->nrets == 1 && s->rets[0].list && s->rets[0].type == CFX__T_TENSOR
                  : several && count == 1 && !cfx_node_higher_order(n);
    if (list) {
        cfx__text_puts(t, "{\"as_tensors\": [");
        bool ok = put_results(w, t, n, &r, count, true);
        cfx__text_puts(t, "]}");
        return ok;
    }
    if (several)
        return put_results(w, t, n, &r, count, false);
    if (unsaid) {
        cfx__text_puts(t, "{\"as_none\": true}");
        return true;
    }
    return put_own(w, t, n, &r, false);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What a file calls a target: a prefix and a name, which is NULL where it has none for it. */
static const char *target_text(const cfx_node *n, const char **prefix) {
    *prefix = schema_of(n) ? "torch.ops." : is_operator(n, "operator.") ? "_" : "";
    if (schema_of(n))
        return cfx_op_name(n->target.op);
    bool known = **prefix || is_operator(n, "torch.ops.") || is_operator(n, "math.") ||
                 is_operator(n, "torch.sym_") || is_operator(n, "#");
    return known ? n->target.name : NULL;
}

/* Whether a node only takes a result of another apart. */
static bool is_taker(const cfx_node *n) {
    if (!cfx_node_takes_result(n))
        return false;
    const cfx_node *from = cfx_as_node(cfx_as_list(n->args)->items[0]);
    const cfx__schema *s = schema_of(from);
    return from->op == CFX_CALL_FUNCTION && (!s || s->nrets > 1 || (s->nrets && s->rets[0].list));
}

static bool put_call(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    const char *prefix, *target = target_text(n, &prefix);
    if (!target || is_operator(n, "python."))
        return cfx__pt2_write_bad(w,
                                  "calls %s, which is no operator that a program may hold; export "
                                  "the module",
                                  n->target.name);
    cfx__json_comma(t);
    cfx__text_puts(t, "{\"target\": \"");
    cfx__text_puts(t, prefix);
    cfx__json_characters(t, target, strlen(target));
    cfx__text_puts(t, "\", \"inputs\": [");
    bool ok = put_inputs(w, t, n);
    cfx__text_puts(t, "], \"outputs\": [");
    ok = ok && put_outputs(w, t, n);
    cfx__text_puts(t, "], \"metadata\": ");
    cfx__pt2_put_metadata(t, n);
    const char *single = "null";
    if (cfx_node_higher_order(n))
        single = cfx_node_result(n).kind == CFX_RESULT_TENSOR ? "true" : "false";
    cfx__text_puts(t, ", \"is_hop_single_tensor_return\": ");
    cfx__text_puts(t, single);
    cfx__text_puts(t, ", \"name\": \"");
    cfx__text_puts(t, n->name);
    cfx__text_puts(t, "\"}");
    return ok;
}

/* Whether a placeholder is a plain number, string or None: what the signature or, in graphs inside,
 * its description says. */
static bool is_constant(const cfx__pt2_writer *w, const cfx_node *n, int64_t i, cfx_value *v) {
    if (w->program) {
        bool constant = i < w->program->ninputs && w->program->inputs[i].constant;
        if (constant)
            *v = w->program->inputs[i].value;
        return constant;
    }
    *v = cfx_node_result(n).value;
    return v->tag == CFX_TAG_INT || v->tag == CFX_TAG_BOOL || v->tag == CFX_TAG_FLOAT;
}

static bool put_placeholder(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n, int64_t i) {
    cfx_value v;
    cfx__json_comma(t);
    if (is_constant(w, n, i, &v))
        return cfx__pt2_put_constant(t, v) ||
               cfx__pt2_write_bad(w, "stands for a constant of no known kind");
    cfx_result r = cfx__pt2_write_result_of(w, n);
    return put_own(w, t, n, &r, false);
}

static bool put_placeholders(cfx__pt2_writer *w, cfx__text *t) {
    int64_t i = 0;
    bool ok = true;
    cfx_each_node(w->module->graph, n) {
        if (n->op != CFX_PLACEHOLDER)
            continue;
        size_t mark = cfx_scope_open();
        w->node = n;
        ok = ok && put_placeholder(w, t, n, i++);
        cfx_scope_close(mark);
    }
    return ok;
}

static bool put_output(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    cfx_value v = cfx_as_list(n->args)->len ? cfx_as_list(n->args)->items[0] : cfx_none();
    if (!cfx__value_is_sequence(v))
        return cfx__pt2_write_argument(w, t, v, NULL);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
        if (cfx_as_list(v)->items[i].tag == CFX_TAG_TUPLE) /* it would be read as a list */
            return cfx__pt2_write_bad(w, "gives a tuple among others; a file has no form for it");
        cfx__json_comma(t);
        if (!cfx__pt2_write_argument(w, t, cfx_as_list(v)->items[i], NULL))
            return false;
    }
    return true;
}

/* Outputs stand before the nodes that give them, so whether one does is looked at in the walk over
 * the nodes. */
static bool put_output_first(cfx__pt2_writer *w, cfx__text *t, const cfx_node *n) {
    bool *given = w->given;
    size_t mark = cfx_scope_open();
    w->node = n;
    w->given = NULL;
    bool ok = put_output(w, t, n);
    w->given = given;
    cfx_scope_close(mark);
    return ok;
}

static bool check_output(cfx__pt2_writer *w, const cfx_node *n) {
    cfx__text again = {0};
    bool ok = put_output(w, &again, n);
    cfx__text_release(&again);
    return ok;
}

enum { PIECE = 1 << 16 };

/* Hands the text over to the archive where there is much of it, but for the last byte, by which
 * cfx__json_comma goes. */
static void hand_over(cfx__pt2_writer *w, cfx__text *t) {
    if (!w->zip || t->len < PIECE)
        return;
    cfx__zip_piece(w->zip, t->data, t->len - 1);
    t->data[0] = t->data[t->len - 1];
    t->len = 1;
    t->data[1] = 0;
}

static bool put_nodes(cfx__pt2_writer *w, cfx__text *t) {
    bool ok = true;
    cfx_each_node(w->module->graph, n) {
        size_t mark = cfx_scope_open();
        w->node = n;
        switch (n->op) {
        case CFX_PLACEHOLDER: break;
        case CFX_GET_ATTR: break; /* written where it is used */
        case CFX_CALL_FUNCTION: ok = is_taker(n) || put_call(w, t, n); break;
        case CFX_OUTPUT: ok = check_output(w, n); break;
        default: ok = cfx__pt2_write_bad(w, "calls a method or module; export the module");
        }
        cfx_scope_close(mark);
        if (!ok)
            return false;
        hand_over(w, t);
    }
    return true;
}

static void put_tensors(cfx__pt2_writer *w, cfx__text *t) {
    cfx__text_puts(t, ", \"tensor_values\": {");
    for (size_t i = 0; i < w->tensors.len; i++) {
        const cfx__pt2_tensor *v = &w->tensors.data[i];
        cfx__pt2_put_key(t, v->name);
        cfx__text_add(t, w->descriptions.data + v->from, v->len);
        hand_over(w, t);
    }
    cfx__text_putc(t, '}');
}

static void put_table(cfx__text *t, const char *name, const cfx__text *table) {
    cfx__text_printf(t, ", \"%s\": {", name);
    cfx__text_add(t, table->data, table->len);
    cfx__text_putc(t, '}');
}

static void release(cfx__pt2_writer *w) {
    cfx__text *const texts[] = {&w->ints, &w->bools, &w->floats, &w->objects, &w->descriptions};
    for (int i = 0; i < COUNT(texts); i++)
        cfx__text_release(texts[i]);
    for (int i = 0; i < CFX__PT2_DESCRIBED; i++)
        cfx_value_drop(w->described[i].of);
    VEC_FREE(w->tensors);
    cfx__arena_release(&w->arena);
    cfx__free(w->given);
    cfx__map_release(&w->twins);
}

/* The whole graph of w->module. Ends the writer. */
static bool put_graph(cfx__pt2_writer *w, cfx__text *t) {
    const cfx_graph *g = w->module->graph;
    w->given = cfx__alloc0(g->made.len + 1);
    cfx__pt2_find_twins(g, &w->twins);
    const cfx_node *output = cfx_graph_output_node(g);
    bool single = output && cfx_as_list(output->args)->len &&
                  !cfx__value_is_sequence(cfx_as_list(output->args)->items[0]);
    cfx__text_puts(t, "{\"inputs\": [");
    bool ok = put_placeholders(w, t);
    cfx__text_puts(t, "], \"outputs\": [");
    ok = ok && (!output || put_output_first(w, t, output));
    cfx__text_puts(t, "], \"nodes\": [");
    ok = ok && put_nodes(w, t);
    cfx__text_putc(t, ']');
    put_tensors(w, t);
    put_table(t, "sym_int_values", &w->ints);
    put_table(t, "sym_bool_values", &w->bools);
    cfx__text_printf(t, ", \"is_single_tensor_return\": %s", single ? "true" : "false");
    put_table(t, "custom_obj_values", &w->objects);
    put_table(t, "sym_float_values", &w->floats);
    cfx__text_putc(t, '}');
    release(w);
    return ok;
}

bool cfx__pt2_write_subgraph(cfx__pt2_writer *outer, cfx__text *t, const cfx_module *m) {
    if (outer->depth >= MAX_GRAPHS)
        return cfx__pt2_write_bad(outer, "has graphs nested too deeply");
    cfx__pt2_writer w = {.module = m, .path = outer->path, .depth = outer->depth + 1};
    bool ok = put_graph(&w, t);
    outer->failed |= !ok;
    return ok;
}

/* ---- what the archive needs ------------------------------------------------------------------ */

bool cfx__pt2_write_graph(const cfx_program *p, const char *path, cfx__zip_writer *zip,
                          cfx__text *out) {
    cfx__pt2_writer w = {.program = p, .module = p->module, .path = path, .zip = zip};
    return put_graph(&w, out);
}

void cfx__pt2_write_reference(cfx__text *out, const cfx_program *p, const cfx__map *twins,
                              cfx_value v) {
    cfx__pt2_writer w = {.program = p, .module = p->module, .path = ""};
    if (v.tag != CFX_TAG_NODE || cfx_as_node(v)->op == CFX_GET_ATTR) {
        if (!cfx__pt2_put_constant(out, v))
            cfx__text_puts(out, "{\"as_none\": true}");
        return;
    }
    cfx_result r = cfx__pt2_write_result_of(&w, cfx_as_node(v));
    if (r.kind == CFX_RESULT_SEVERAL)
        r = (cfx_result){0};
    cfx__pt2_write_name(out, cfx__pt2_first_like(twins, cfx_as_node(v))->name, &r);
}
