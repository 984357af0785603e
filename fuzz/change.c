/* The ways to change a program: decomposed, optimised, by each pass, split, joined, taken apart.
 * What comes of it holds together, and gives what the program gave. */
#include "use.h"

#include "dispatch/dispatch.h"

#include <string.h>

/* ---- programs -------------------------------------------------------------------------------- */

/* Whether an error is about numbers which what the operator is decomposed to does not look at, in
 * PyTorch as here. */
static bool is_about_numbers(const outcome *o) {
    static const struct {
        const char *op, *why;
    } rows[] = {
        {"aten._linalg_check_errors.default", ""}, /* gives nothing: PyTorch drops it as dead */
        {"aten.one_hot.default", "Class values must be "}, /* compared with an arange instead */
        {"aten.binary_cross_entropy.default", "all elements of input should be between 0 and 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(o->op, rows[i].op) && strstr(o->why, rows[i].why))
            return true;
    return false;
}

/* What a change may do besides. */
typedef enum manner {
    SAME,   /* nothing */
    PARTS,  /* look at fewer numbers before it computes */
    LOOSER, /* leave out what refuses */
    STRICT, /* refuse more */
    OTHER   /* give other numbers, fewer results */
} manner;

static bool draws(const cfx_program *p) {
    bool any = false;
    cfx_each_node(p->module->graph, n) any |=
        n->target.op && n->target.op->effects & CFX_RANDOM;
    return any;
}

/* Whether the program has what gives something else when it is decomposed, in PyTorch as here:
 * attention gives its weights then, where it gave the logarithms of their sums. */
static bool gives_weights(const cfx_program *p) {
    bool any = false;
    cfx_each_node(p->module->graph, n) any |=
        strstr(n->target.name, "aten._scaled_dot_product_flash_attention_for_cpu.") != NULL;
    return any;
}

/* What decomposing may do: of numbers that are drawn and not used none are drawn any more,
 * in PyTorch as here, so that those after them are others. */
static manner of_decomposing(const subject *s, manner how) {
    bool other = (how == PARTS && gives_weights(s->program)) || (draws(s->program) && !s->fixed);
    return other ? OTHER : how;
}

static bool has_subgraphs(const cfx_program *p) {
    cfx_each_node(p->module->graph, n) {
        if (cfx_node_higher_order(n))
            return true;
    }
    return false;
}

/* Whether the error is of an operator that has no form as values: one that writes and that nothing
 * else stands for, as resize_ and set_, or a list of combinations, which is made by a constant. */
static bool has_no_form(const cfx_error *e) {
    cfx_op *op = e->op ? cfx_op_find(e->op) : NULL;
    return op && (op == &cfx_op_combinations || (e->kind == CFX_NOT_IMPLEMENTED_ERROR &&
                                                 cfx__op_info_of(op)->writes));
}

/* Whether some calls are by method or module: such a program is exported before it is changed. */
static bool is_traced(const cfx_program *p) {
    bool other = false;
    cfx_each_node(p->module->graph, n) other |= n->op == CFX_CALL_METHOD ||
                                                n->op == CFX_CALL_MODULE;
    return other;
}

/* Whether a change may ask for what a run need not: branches that are not taken, other sizes, what
 * is only known when it runs; or meets what has no form as values. */
static bool may_need_more(const cfx_program *p) {
    return has_subgraphs(p) || is_traced(p) || p->ranges->len || cfx__error_unknown() ||
           has_no_form(cfx_error_last());
}

/* The program after a change that has just been made; bad, with an error, where it failed. What
 * runs can be changed, and what was whole stays whole. */
static void compare(const subject *s, cfx_program *changed, manner how, const char *what) {
    bool limited = fuzz_limited();
    bool whole = s->first.ran && s->whole && !limited && how <= LOOSER;
    if (cfx_failed(changed) && whole && !may_need_more(s->program))
        fuzz_wrong("%s cannot be made: %s, of\n%s", what, cfx_error_last()->message,
                   cfx_graph_str(s->program->module->graph));
    fuzz_fine();
    if (cfx_failed(changed) || limited)
        return;
    if (s->whole && !cfx_program_check(changed) && !fuzz_limited())
        fuzz_wrong("%s does not hold together: %s, of\n%s", what, cfx_error_last()->message,
                   cfx_graph_str(s->program->module->graph));
    fuzz_fine();
    outcome o = use_run(changed, &cfx_interpreter, s->inputs);
    if (!s->whole && has_subgraphs(s->program)) /* what is noted of them is not looked at by a run */
        return;
    bool both = s->first.ran && o.ran;
    bool asked = both || (how != STRICT && s->first.ran) ||
                 (!s->first.ran && how != LOOSER && s->fixed &&
                  !(how == PARTS && is_about_numbers(&s->first)));
    if (s->steady && asked && how != OTHER)
        use_agree(s, &o, 1e-2, what);
    cfx_program_pair(s->program, changed);
    fuzz_fine();
}

static const cfx_pass *some_pass(uint64_t lot) {
    int n = 0;
    while (cfx_pass_number(n))
        n++;
    return cfx_pass_number((int)(lot % (uint64_t)n));
}

/* One of the passes there are; another for another program. */
static void by_pass(const subject *s) {
    const cfx_pass *pass = some_pass(s->lot);
    cfx_pass_step step = {pass, NULL};
    cfx_program *p = cfx_passes_run(&(cfx_pass_manager){.steps = &step, .nsteps = 1, .check = true},
                                    s->program).program;
    compare(s, p,
            pass->promise == CFX_PASS_LOWERED || pass->promise == CFX_PASS_NARROWED ? OTHER
            : pass->options && strstr(pass->options, "nodes=") ? STRICT /* where there are some */
            : !strcmp(pass->name, "remove_asserts")            ? LOOSER
                                                               : SAME,
            pass->name);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static const cfx_node *some_call(const subject *s) {
    const cfx_graph *g = s->program->module->graph;
    const cfx_node *call = NULL;
    int64_t at = (int64_t)(s->lot >> 8) % (cfx_graph_len(g) + 1);
    cfx_each_node(g, n) {
        if ((at-- >= 0 || !call) && n->op == CFX_CALL_FUNCTION)
            call = n;
    }
    return call;
}

static bool has_call(cfx_program *p, cfx_value inputs, void *name) {
    (void)inputs;
    cfx_each_node(p->module->graph, n) {
        if (n->op == CFX_CALL_FUNCTION && !strcmp(n->target.name, name))
            return true;
    }
    return false;
}

/* What leads to a call as a program of its own; the program twice; the fewest nodes with that call. */
static void take_apart(const subject *s) {
    const cfx_node *call = some_call(s);
    if (!call)
        return;
    cfx_program *part = cfx_program_extract(s->program, NULL, call->name);
    if (fuzz_fine() && !cfx_failed(part) && part->ninputs)
        use_run(part, &cfx_planner, fuzz_inputs(part));
    cfx_program_extract(s->program, call->name, NULL);
    fuzz_fine();
    cfx_program *twice = cfx_program_join(s->program, s->program, NULL);
    if (fuzz_fine() && !cfx_failed(twice))
        use_run(twice, &cfx_interpreter, fuzz_inputs(twice));
    cfx_value reduced = CFX_NONE;
    cfx_program_reduce(s->program, use_copies(s->inputs), has_call, (void *)call->target.name,
                       &reduced);
    fuzz_fine();
}

/* ---- modules --------------------------------------------------------------------------------- */

static int by_lot(cfx_node *n, void *user) {
    uint64_t lot = *(const uint64_t *)user;
    return (int)(lot >> (strlen(n->name) % 16) & 1);
}

static bool is_taken(const cfx_node *n, void *user) {
    return by_lot((cfx_node *)(uintptr_t)n, user) != 0;
}

/* A module that was made of the program's: it runs where the program does, to the same. */
static void compare_module(const subject *s, cfx_module *m, const char *what) {
    bool made = fuzz_fine() && !cfx_failed(m);
    outcome o = made ? use_forward(m, s->inputs) : (outcome){0};
    if (made && s->steady && s->first.ran && (s->whole || !has_subgraphs(s->program)))
        use_agree(s, &o, 1e-2, what);
}

static void split(const subject *s) {
    uint64_t lot = s->lot >> 16;
    cfx_module *m = cfx_program_module(s->program);
    compare_module(s, m, "the module");
    fuzz_fine();
    if (cfx_failed(m))
        return;
    cfx_module *parts = cfx_split_stages(m, 2, CFX_STAGE_BYTES, (cfx_split_options){0});
    compare_module(s, parts, "the module in stages");
    if (!cfx_failed(parts))
        cfx_module_inline(parts, NULL);
    compare_module(s, parts, "the module in stages, inlined");
    parts = cfx_split_module(m, by_lot, &lot, (cfx_split_options){.keep_original_order = lot & 1});
    bool ordered = !draws(s->program); /* numbers are drawn part by part */
    compare_module(s, ordered ? parts : NULL, "the split module");
    parts = cfx_module_partition(m, is_taken, &lot, lot & 1);
    compare_module(s, ordered ? parts : NULL, "the partitioned module");
    cfx_module *spelled = cfx_module_copy(m);
    if (fuzz_fine() && !cfx_failed(spelled))
        cfx_module_normalize(spelled);
    compare_module(s, spelled, "the normalized module");
    cfx_tap_from((cfx_site){0}, m, "*", use_args(use_copies(s->inputs)));
    fuzz_fine();
}

static void train(const subject *s) {
    cfx_module *m = cfx_program_module(s->program);
    cfx_value inputs = use_copies(s->inputs);
    cfx_args a = use_args(inputs);
    for (int i = 0; i < a.n; i++)
        if (a.v[i].tag == CFX_TAG_TENSOR && cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(a.v[i])->dtype))
            cfx_requires_grad(cfx_as_tensor(a.v[i]), true);
    cfx_value v = m ? cfx_forward_value_from((cfx_site){0}, m, a) : CFX_NONE;
    cfx_value leaves = cfx_list_value(0, NULL);
    if (cfx_ok())
        cfx_tree_flatten(v, cfx_as_list(leaves));
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(leaves)->len; i++) {
        cfx_value leaf = cfx_as_list(leaves)->items[i];
        if (leaf.tag == CFX_TAG_TENSOR && cfx_tensor_requires_grad(cfx_as_tensor(leaf)))
            cfx_backward(cfx_sum(leaf), .retain_graph = true);
    }
    fuzz_fine();
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Changes that run into a limit at any point end there; what is changed in place stays as it was,
 * or is another program that holds together. */
static void within_limits(const subject *s) {
    size_t most = cfx_set_memory_limit(0);
    int64_t nodes = cfx_set_node_limit(0);
    cfx_set_memory_limit(most);
    cfx_set_node_limit(nodes);
    cfx_program *own = cfx_program_copy(s->program);
    if (!fuzz_fine() || cfx_failed(own))
        own = s->program;
    if (s->lot >> 20 & 1)
        cfx_set_node_limit(cfx_graph_len(s->program->module->graph) + (int64_t)(s->lot >> 24 & 7));
    else
        cfx_set_memory_limit(cfx_memory_held() + (size_t)(s->lot >> 24 & 0xffff));
    cfx_decompose(s->program, CFX_NONE);
    fuzz_fine();
    cfx_optimize(s->program);
    fuzz_fine();
    cfx_pass_apply(some_pass(s->lot >> 4), own, NULL);
    fuzz_fine();
    use_run(own, &cfx_planner, s->inputs);
    cfx_split_stages(cfx_program_module(own), 2, CFX_STAGE_FLOPS, (cfx_split_options){0});
    fuzz_fine();
    cfx_set_node_limit(nodes);
    cfx_set_memory_limit(most);
    if (s->whole && !cfx_program_check(own) && !fuzz_limited())
        fuzz_wrong("at a limit a pass broke the program: %s, of\n%s", cfx_error_last()->message,
                   cfx_graph_str(s->program->module->graph));
    fuzz_fine();
}

void use_change(const subject *s) {
    compare(s, cfx_decompose(s->program, CFX_NONE), of_decomposing(s, PARTS), "the decomposition");
    compare(s, cfx_program_functionalize(s->program), of_decomposing(s, SAME),
            "the functional program");
    compare(s, cfx_optimize(s->program), SAME, "the optimised program");
    by_pass(s);
    take_apart(s);
    split(s);
    train(s);
    within_limits(s);
}
