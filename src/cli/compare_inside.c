/* Two programs compared inside their sub-graphs: nodes of branches and loop bodies that have the
 * same whole name, round by round ("while_loop@2.while_loop_body_graph_0.mul"). */
#include "compare.h"

#include "../run/run.h"

typedef struct inside {
    cfx_dict *values; /* of a, by name */
    cfx_list *errors; /* of b: filled while it runs; NULL: a runs */
} inside;

static cfx_value see(cfx_event *e) {
    inside *in = e->user;
    const char *name = cfx__text_format("%s%s", cfx_run_path(), e->node->name);
    if (e->node->op == CFX_PLACEHOLDER || e->node->op == CFX_OUTPUT)
        return cfx_none();
    if (!in->errors) {
        cfx_dict_set(in->values, name, cli_copy_of(e->out));
        return cfx_none();
    }
    cli_error error = {0};
    cli_add_error(&error, e->out, cfx_dict_get(in->values, name));
    if (error.known)
        cfx_list_append(in->errors, cfx_tuple(name, error.error, error.decibels, error.share,
                                              cfx_bool(error.beyond)));
    return cfx_none();
}

typedef VEC(cfx_hook_handle *) hook_list;

/* Hooks on all graphs below that of a module; `hooks` gets them. */
static void hook_graphs(inside *in, cfx_module *owner, hook_list *hooks) {
    for (int i = 0; i < cfx_module_count(owner); i++) {
        cfx_module *m = cfx_module_child(owner, i);
        if (!m->graph)
            continue;
        VEC_PUSH(*hooks, cfx_node_hook(m, "*", see, in));
        hook_graphs(in, m, hooks);
    }
}

static void run(inside *in, cfx_program *p, cfx_value inputs) {
    hook_list hooks = {0};
    hook_graphs(in, p->module, &hooks);
    if (hooks.len)
        cli_compare_run(p, inputs, (cfx_interp){0});
    for (size_t i = 0; i < hooks.len; i++)
        cfx_hook_remove(hooks.data[i]);
    VEC_FREE(hooks);
}

void cli_compare_inside(cli_comparison *c, cfx_value in_a, cfx_value in_b) {
    inside in = {.values = cfx_dict_new()};
    run(&in, c->a, in_a);
    in.errors = cfx_as_list(cfx_list_value(0, NULL));
    if (cfx_ok() && in.values->len)
        run(&in, c->b, in_b);
    c->inside = in.errors;
}
