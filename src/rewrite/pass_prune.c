/* prune: parameters, buffers and constants that nothing uses leave the program; inputs of the
 * caller's too where it is asked for. */
#include "pass.h"

static bool is_dropped(const cfx_input_spec *s, bool inputs) {
    return s->kind == CFX_IN_USER ? inputs
                                  : s->kind == CFX_IN_PARAMETER || s->kind == CFX_IN_BUFFER ||
                                        s->kind == CFX_IN_CONSTANT;
}

/* Whether a result is written to it when the program ends. */
static bool is_target(const cfx_program *p, const cfx_input_spec *s) {
    const char *name = s->kind == CFX_IN_USER ? s->name : s->target;
    for (int i = 0; i < p->noutputs; i++)
        if (p->outputs[i].target && name && !strcmp(p->outputs[i].target, name))
            return true;
    return false;
}

/* Removes tensors of a dict that no input stands for. */
static int drop_tensors(const cfx_program *p, cfx_dict *from) {
    int dropped = 0;
    cfx_dict *used = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].target)
            cfx_dict_set(used, p->inputs[i].target, cfx_none());
    for (int64_t i = from->len - 1; i >= 0; i--)
        if (!cfx_dict_find(used, from->entries[i].key))
            dropped += cfx_dict_remove(from, from->entries[i].key);
    return dropped;
}

static int run(cfx_program *p, const cfx_dict *options) {
    bool inputs = !strcmp(cfx__pass_text(options, "inputs"), "yes");
    int changes = 0;
    cfx_each_node(p->module->graph, n) {
        const cfx_input_spec *s = cfx_program_input(p, n);
        if (s && !n->num_users && is_dropped(s, inputs) && !is_target(p, s))
            changes += cfx_graph_erase(n);
    }
    if (!cfx_program_sync(p))
        return -1;
    return changes + drop_tensors(p, p->state) + drop_tensors(p, p->constants);
}

const cfx_pass cfx__pass_prune = {
    .name = "prune",
    .summary = "drops parameters, buffers and constants that nothing uses (inputs=yes: and inputs)",
    .after = "dead_code",
    .options = "inputs=no",
    .promise = CFX_PASS_NARROWED,
    .run = run,
};
