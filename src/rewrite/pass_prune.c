/* prune: removes unused parameters, buffers and constants and, on request, user inputs and
 * results. */
#include "../value/dict.h"
#include "pass.h"

static bool is_dropped(const cfx_input_spec *s, bool inputs) {
    return s->kind == CFX_IN_USER ? inputs
                                  : s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_BUFFER ||
                                        s->kind == CFX_IN_CONSTANT;
}

/* What results are written to when the program ends; scope. */
static cfx_dict *targets_of(const cfx_program *p) {
    cfx_dict *targets = cfx_dict_new();
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].target)
            cfx_dict_set(targets, p->outputs[i].target, cfx_none());
    return targets;
}

static bool is_target(const cfx_dict *targets, const cfx_input_spec *s) {
    const char *name = s->kind == CFX_IN_USER ? s->name : s->target;
    return name && cfx_dict_find(targets, cfx_string_value(name));
}

/* Erases inputs that nothing uses; all at once, since the signature is read anew after that. */
static int drop_inputs(cfx_program *p, bool inputs) {
    const cfx_dict *targets = targets_of(p);
    VEC(cfx_node *) unused = {0};
    cfx_each_node(p->module->graph, n) {
        const cfx_input_spec *s = n->num_users ? NULL : cfx_program_input(p, n);
        if (s && is_dropped(s, inputs) && !is_target(targets, s))
            VEC_PUSH(unused, n);
    }
    int dropped = 0;
    for (size_t i = 0; i < unused.len; i++)
        dropped += cfx_graph_erase(unused.data[i]);
    VEC_FREE(unused);
    return dropped;
}

/* Removes tensors of a dict that no input stands for. */
static int drop_tensors(const cfx_program *p, cfx_dict *from) {
    cfx_dict *used = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target)
            cfx_dict_set(used, p->inputs[i].target, cfx_none());
    return (int)cfx__dict_keep_only(from, used);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Reads "0+2": wanted[i] tells whether it has number i. */
static bool read_numbers(const char *list, int count, bool *wanted) {
    const char *at = list;
    for (char *end; *at; at = *end == '+' ? end + 1 : end) {
        long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= count || (*end && *end != '+'))
            break;
        wanted[number] = true;
    }
    if (*at)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "outputs are numbers of results with + between, below %d, not '%s'", count, list);
    return !*at;
}

/* The results but for those of the caller's that are not wanted. */
static cfx_value wanted_results(const cfx_program *p, const cfx_list *all, const char *list) {
    cfx_value kept = cfx_tuple_value(0, NULL);
    int count = 0, number = 0;
    for (int i = 0; i < p->noutputs; i++)
        count += p->outputs[i].kind == CFX_OUT_USER;
    bool *wanted = cfx__alloc0((size_t)count + 1);
    bool fine = read_numbers(list, count, wanted);
    for (int64_t i = 0; fine && i < all->len; i++) {
        bool users = i < p->noutputs && p->outputs[i].kind == CFX_OUT_USER;
        if (!users || wanted[number++])
            cfx_list_append(cfx_as_list(kept), all->items[i]);
    }
    cfx__free(wanted);
    return fine ? kept : cfx_bad();
}

/* Leaves out the other results, and what only they needed; -1 where the list is none. */
static int drop_results(cfx_program *p, const char *list) {
    cfx_node *out = cfx_graph_output_node(p->module->graph);
    const cfx_list *all = cfx_as_list(cfx_at(out->args, 0));
    cfx_value kept = wanted_results(p, all, list);
    if (cfx_is_bad(kept))
        return -1;
    int dropped = (int)(all->len - cfx_as_list(kept)->len);
    if (dropped)
        cfx_node_set_args(out, cfx_tuple(kept));
    return dropped + cfx__graph_sweep(p->module->graph, cfx_node_is_impure);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int run(cfx_program *p, const cfx_dict *options) {
    const char *outputs = cfx__pass_text(options, "outputs");
    bool inputs = !strcmp(cfx__pass_text(options, "inputs"), "yes");
    int changes = *outputs ? drop_results(p, outputs) : 0;
    if (changes < 0 || !cfx_program_sync(p))
        return -1;
    changes += drop_inputs(p, inputs);
    if (!cfx_program_sync(p))
        return -1;
    return changes + drop_tensors(p, p->state) + drop_tensors(p, p->constants);
}

const cfx_pass cfx__pass_prune = {
    .name = "prune",
    .summary = "drops parameters, buffers and constants that nothing uses (inputs=yes: and inputs; "
               "outputs=0+2: and results but for these)",
    .after = "dead_code",
    .options = "inputs=no outputs=",
    .promise = CFX_PASS_NARROWED,
    .run = run,
};
