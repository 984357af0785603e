/* cfx show --node: all there is to say of one node, on a card. A parameter may be asked for by its
 * own name ("fc1.weight"). */
#include "look.h"

#include <string.h>

#include "../emit/emit.h"
#include "../graph/graph.h"
#include "../tensor/few.h"

/* ---- finding --------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    cfx_node *node;
    const char *path; /* of the sub-graph it is in; "" for the program's own */
} search;

static void look_in(const char *path, cfx_module *m, void *user) {
    search *s = user;
    cfx_node *n = m->graph && !s->node ? cfx_graph_find(m->graph, s->name) : NULL;
    if (n) {
        s->node = n;
        s->path = cfx_text(cfx_string_value(path));
    }
}

enum { NEAR = 5 };

typedef struct {
    const char *name;
    const cfx_node *near[NEAR]; /* the nearest first */
    int far[NEAR], n;
} neighbours;

static void consider(const char *path, cfx_module *m, void *user) {
    neighbours *all = user;
    (void)path;
    if (!m->graph)
        return;
    cfx_each_node(m->graph, node) {
        const int most = 2 + (int)strlen(all->name) / 3;
        int far = strstr(node->name, all->name)
                      ? 1
                      : cfx__text_distance(all->name, node->name, most);
        int at = all->n;
        while (at > 0 && all->far[at - 1] > far)
            at--;
        if (at == NEAR || far > most)
            continue;
        int last = all->n < NEAR ? all->n++ : NEAR - 1;
        for (int i = last; i > at; i--)
            all->near[i] = all->near[i - 1], all->far[i] = all->far[i - 1];
        all->near[at] = node;
        all->far[at] = far;
    }
}

static int no_such_node(const cfx_program *p, const char *name) {
    neighbours all = {.name = name};
    cfx_module_walk(p->module, consider, &all);
    cfx__text near = {0};
    for (int i = 0; i < all.n; i++)
        cfx__text_printf(&near, "%s%s", i ? ", " : "; near it are ", all.near[i]->name);
    return cli_wrong("no node is called '%s'%s", name,
                     all.n ? cfx__text_take(&near) : "; 'cfx show MODEL --as graph' lists them");
}

/* ---- the card -------------------------------------------------------------------------------- */

static const cfx_input_spec *spec_of(const cfx_program *p, const cfx_node *n) {
    for (int i = 0; n->op == CFX_PLACEHOLDER && i < p->ninputs; i++)
        if (!strcmp(p->inputs[i].name, n->name))
            return &p->inputs[i];
    return NULL;
}

static const char *brief_of(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    return cfx_is_none(r.value) ? "" : cfx_result_text(&r);
}

static void put_argument(const cfx_program *p, const char *name, cfx_value v) {
    const cfx_input_spec *s = v.tag == CFX_TAG_NODE ? spec_of(p, cfx_as_node(v)) : NULL;
    cli_print("    %-14s %s", name, cfx_value_repr(v));
    if (v.tag == CFX_TAG_NODE)
        cli_print("  %s", brief_of(cfx_as_node(v)));
    if (s && s->target)
        cli_print("  %s", s->target);
    cli_print("\n");
}

static void put_arguments(const cfx_program *p, const cfx_node *n) {
    cfx__op_info *info = n->target.op && !n->target.fn ? cfx__op_info_of(n->target.op) : NULL;
    const cfx_list *args = cfx_as_list(n->args);
    if (args->len + cfx_as_dict(n->kwargs)->len)
        cli_print("  arguments\n");
    for (int64_t i = 0; i < args->len; i++)
        put_argument(p,
                     info && i < info->schema->nargs ? info->schema->args[i].name
                                                     : cfx__text_format("%lld", (long long)i),
                     args->items[i]);
    for (int64_t i = 0; i < cfx_as_dict(n->kwargs)->len; i++)
        put_argument(p, cfx_text(cfx_as_dict(n->kwargs)->entries[i].key),
                     cfx_as_dict(n->kwargs)->entries[i].value);
}

static void put_users(const cfx_node *n) {
    cli_print("  users          %s", n->num_users ? "" : "none");
    cfx_each_user(n, u) cli_print("%s%s", u == n->users ? "" : ", ", u->user->name);
    cli_print("\n");
}

static void put_origin(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    for (int64_t i = 0; stack.tag == CFX_TAG_DICT && i < cfx_as_dict(stack)->len; i++) {
        cfx_value level = cfx_as_dict(stack)->entries[i].value;
        if (level.tag != CFX_TAG_TUPLE || cfx_as_list(level)->len != 2)
            continue;
        const char *path = cfx_value_str(cfx_as_list(level)->items[0]);
        cli_print("  %-14s %s (%s)\n", i ? "" : "module", *path ? path : "the model",
                  cfx_value_str(cfx_as_list(level)->items[1]));
    }
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    const char *source = cfx_text(cfx_node_get_meta(n, "source"));
    if (source)
        cli_print("  source         %s\n", source);
    for (bool first = true; trace && *trace; first = false) {
        size_t len = strcspn(trace, "\n"), blank = strspn(trace, " ");
        if (len > blank)
            cli_print("  %-14s %.*s\n", first ? "source" : "", (int)(len - blank), trace + blank);
        trace += len + (trace[len] == '\n');
    }
}

/* A tensor's few numbers, or the statistics of many. */
static const char *numbers_of(const cfx_tensor *t) {
    cfx__text few = {0};
    return cfx__tensor_put_few(&few, t) ? cfx__text_take(&few) : cli_stats_text(t);
}

/* The tensors that the node reads, or is. */
static void put_weights(const cfx_program *p, const cfx_node *n) {
    bool head = false;
    const cfx_input_spec *own = spec_of(p, n);
    const cfx_tensor *self = own ? cfx_program_tensor(p, own) : NULL;
    if (self)
        cli_print("  weights\n    %s  %s\n      %s\n", own->target,
                  cli_brief(cfx_tensor_value(self)), numbers_of(self));
    cfx_each_input(n, u) {
        const cfx_input_spec *s = spec_of(p, u->node);
        const cfx_tensor *t = s ? cfx_program_tensor(p, s) : NULL;
        if (!t)
            continue;
        if (!head)
            cli_print("  weights\n");
        cli_print("    %s  %s\n      %s\n", s->target,
                  cli_brief(cfx_tensor_value(t)), numbers_of(t));
        head = true;
    }
}

int cli_show_node(const cfx_program *p, const char *name, bool json) {
    search s = {.name = name};
    cfx_module_walk(p->module, look_in, &s);
    for (int i = 0; i < p->ninputs && !s.node; i++)
        if (p->inputs[i].target && !strcmp(p->inputs[i].target, name))
            s.node = cfx_graph_find(p->module->graph, p->inputs[i].name);
    if (!s.node)
        return no_such_node(p, name);
    const cfx_node *n = s.node;
    if (cli_answers()) {
        cli_answer_object(cfx__node_json(n));
        return cfx_ok() ? CLI_DONE : cli_trouble();
    }
    if (json) {
        cli_lines(cfx__node_json(n));
        return cfx_ok() ? CLI_DONE : cli_trouble();
    }
    const cfx_input_spec *own = spec_of(p, n);
    cfx__text target = {0};
    cfx__target_text(&target, n->target);
    cli_print("%s\n  op             %s\n  target         %s\n", n->name, cfx_opcode_name(n->op),
              target.data);
    cfx__text_release(&target);
    if (s.path && *s.path)
        cli_print("  graph          %s\n", s.path);
    if (n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn)
        cli_print("  schema         %s\n", n->target.op->schema);
    put_arguments(p, n);
    if (*brief_of(n))
        cli_print("  result         %s\n", brief_of(n));
    if (own && own->target)
        cli_print("  stands for     %s\n", own->target);
    put_users(n);
    put_origin(n);
    put_weights(p, n);
    return cfx_ok() ? CLI_DONE : cli_trouble();
}
