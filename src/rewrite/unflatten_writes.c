/* Writes in unflattened modules. Results of the program that stand for writes to its tensors become
 * copy_; and where a module whose signature is preserved reads what another one wrote, which is no
 * argument of it, the tensor itself is written there and read here. */
#include "pass.h"
#include "unflatten.h"

/* ---- writes of the whole --------------------------------------------------------------------- */

/* Where a copy of n to an input may stand: behind n, and behind all inputs. */
static cfx_node *place_behind(cfx_node *n) {
    while (n->op == CFX_PLACEHOLDER && n->next && n->next->op == CFX_PLACEHOLDER)
        n = n->next;
    return n;
}

void cfx__unflat_write(cfx__unflat *u) {
    const cfx_program *p = u->program;
    cfx_node *output = cfx_graph_output_node(u->flat);
    cfx_value results = cfx_tuple_value(0, NULL);
    for (int i = 0; i < p->noutputs; i++) {
        cfx_value v = cfx_at(cfx_at(output->args, 0), i);
        int at = cfx__program_written(p, &p->outputs[i]);
        if (at < 0 || v.tag != CFX_TAG_NODE)
            continue;
        cfx_node *n = cfx_as_node(v), *to = cfx_graph_find(u->flat, p->inputs[at].name);
        CFX_INSERT_AFTER(u->flat, place_behind(n)) {
            cfx_node *copy = cfx_graph_call_function(u->flat, "torch.ops.aten.copy_.default",
                                                     cfx_tuple(to, n), CFX_NONE);
            if (n->op != CFX_PLACEHOLDER)
                cfx__node_copy_meta(copy, n);
            cfx_node_replace(n, copy);
            cfx_node_set_args(copy, cfx_tuple(to, n));
            cfx_dict_put(u->finals, cfx_node_value(to), cfx_node_value(copy));
        }
    }
    for (int i = 0; i < p->noutputs; i++)
        if (cfx__program_written(p, &p->outputs[i]) < 0)
            cfx_list_append(cfx_as_list(results), cfx_at(cfx_at(output->args, 0), i));
    cfx_node_set_args(output, cfx_tuple_value(1, &results));
}

/* ---- whose value a node is ------------------------------------------------------------------- */

/* The argument that result k of a call is another value of: by the names in the schema,
 * running_mean_out of running_mean, or as a base of auto_functionalized_v2. NULL: of none. */
static cfx_node *source_of_result(const cfx_node *call, int64_t k) {
    cfx_op *op = cfx__call_op(call);
    const cfx__schema *s = op ? cfx__op_info_of(op)->schema : NULL;
    cfx_value bases = cfx_dict_get(cfx_as_dict(call->kwargs), "_all_bases");
    if (bases.tag == CFX_TAG_LIST || bases.tag == CFX_TAG_TUPLE) {
        const cfx_result r = cfx_node_result(call);
        const int64_t first = cfx_result_count(&r) - cfx_len(bases);
        cfx_value base = k >= first ? cfx_at(bases, k - first) : cfx_none();
        return base.tag == CFX_TAG_NODE ? cfx_as_node(base) : NULL;
    }
    if (!s || k < 0 || k >= s->nrets || !s->rets[k].name)
        return NULL;
    for (int i = 0; i < s->nargs; i++) {
        const size_t n = strlen(s->args[i].name);
        cfx_value v = cfx__node_arg(call, s, i);
        if (!strncmp(s->rets[k].name, s->args[i].name, n) && !strcmp(s->rets[k].name + n, "_out") &&
            v.tag == CFX_TAG_NODE)
            return cfx_as_node(v);
    }
    return NULL;
}

/* Whether n is what a node of the set becomes by one call: a result of its dtype and size. */
static bool goes_on(const cfx_dict *versions, const cfx_node *n) {
    const cfx_result r = cfx_node_result(n);
    if (cfx_node_is_getitem(n)) {
        cfx_value k = cfx_at(n->args, 1);
        const cfx_node *call = cfx_node_input(n, 0);
        cfx_node *from =
            call && k.tag == CFX_TAG_INT ? source_of_result(call, cfx_integer(k)) : NULL;
        return from && cfx_dict_find(versions, cfx_node_value(from));
    }
    cfx_each_input(n, u) {
        const cfx_result in = cfx_node_result(u->node);
        bool alike = r.kind == CFX_RESULT_TENSOR && in.kind == r.kind && in.dtype == r.dtype &&
                     in.ndim == r.ndim;
        for (int d = 0; alike && d < r.ndim; d++)
            alike = cfx_equal_values(cfx_result_size(&r, d), cfx_result_size(&in, d));
        if (alike && cfx_dict_find(versions, cfx_node_value(u->node)))
            return true;
    }
    return false;
}

/* Marks what a node is computed from; nodes stand in order. */
static cfx_dict *ancestors(const cfx_graph *g, cfx_node *of) {
    cfx_dict *all = cfx_dict_new();
    bool below = false;
    cfx_dict_put(all, cfx_node_value(of), cfx_none());
    for (cfx_node *n = cfx_graph_last(g); n; n = cfx_node_before(n)) {
        below |= n == of;
        if (below && cfx_dict_find(all, cfx_node_value(n)))
            cfx_each_input(n, u) cfx_dict_put(all, cfx_node_value(u->node), cfx_none());
    }
    return all;
}

/* Whether n is a value that a tensor of the program has on the way to its last one. */
static bool is_value_of(const cfx__unflat *u, cfx_node *n, cfx_value tensor, cfx_value last) {
    cfx_dict *versions = cfx_dict_new();
    cfx_dict_put(versions, tensor, cfx_none());
    cfx_each_node(u->flat, m) {
        if (m->op == CFX_CALL_FUNCTION && goes_on(versions, m))
            cfx_dict_put(versions, cfx_node_value(m), cfx_none());
        if (m == n)
            break;
    }
    return cfx_dict_find(versions, cfx_node_value(n)) &&
           cfx_dict_find(ancestors(u->flat, cfx_as_node(last)), cfx_node_value(n));
}

/* Whether a node behind n reads what a tensor was before the program wrote to it. */
static bool is_read_behind(const cfx_node *tensor, const cfx_node *n) {
    for (const cfx_node *m = cfx_node_after(n); m; m = cfx_node_after(m)) {
        int k = 0;
        cfx_each_input(m,
                       u) if (k++ || !cfx_node_is(m, "copy_")) if (u->node == tensor) return true;
    }
    return false;
}

cfx_node *cfx__unflat_written(const cfx__unflat *u, cfx_node *n) {
    cfx_node *found = NULL;
    for (int64_t i = 0; i < u->finals->len; i++) {
        const struct cfx_entry *e = &u->finals->entries[i];
        bool is = false;
        CFX_SCOPE
            is = is_value_of(u, n, e->key, e->value);
        if (is && found)
            return NULL;
        if (is)
            found = cfx_as_node(e->key);
    }
    return found && !is_read_behind(found, n) ? found : NULL;
}

/* ---- writes of modules ----------------------------------------------------------------------- */

/* What stands in a module's graph for a tensor of the program; NULL: nothing does. */
static cfx_node *tensor_in(const cfx__unflat *u, const cfx_graph *g, const cfx_node *tensor) {
    cfx_each_node(g, n) {
        const cfx_value *of =
            n->op == CFX_PLACEHOLDER ? cfx_dict_find(u->origin, cfx_node_value(n)) : NULL;
        if (of && cfx_as_node(*of) == tensor)
            return n;
    }
    return NULL;
}

bool cfx__unflat_write_back(const cfx__unflat *u) {
    for (size_t i = 0; i < u->calls.len; i++) {
        cfx_value names = cfx_dict_get(u->written, u->calls.data[i].path);
        cfx_graph *g = u->calls.data[i].module->graph;
        for (int64_t k = 0; names.tag == CFX_TAG_DICT && k < cfx_as_dict(names)->len; k++) {
            const struct cfx_entry *e = &cfx_as_dict(names)->entries[k];
            cfx_node *n = cfx_graph_find(g, cfx_text(e->key));
            cfx_node *to = n ? tensor_in(u, g, cfx_as_node(e->value)) : NULL;
            if (!n)
                continue;
            if (!to) {
                cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                         "module %s computes %s, a value of %s, which it is not given: another "
                         "module whose signature is preserved reads it",
                         u->calls.data[i].path, n->name, cfx_as_node(e->value)->name);
                return false;
            }
            CFX_INSERT_AFTER(g, n)
            cfx__node_copy_meta(cfx_graph_call_function(g, "torch.ops.aten.copy_.default",
                                                        cfx_tuple(to, n), CFX_NONE),
                                n);
        }
    }
    return true;
}
