/* fold_constants: computes nodes that depend only on parameters, buffers and constants; values
 * with other users become constants of the program. */
#include "pass.h"

typedef struct folding {
    cfx_program *program;
    cfx__alias alias;
    int64_t limit;      /* bytes of a value */
    const char *keep;   /* selectors of what is left */
    cfx_value *values;  /* by id: what a node is; bad: not constant. Counted */
    size_t len;
} folding;

static cfx_value *value_of(folding *f, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return n->graph == f->program->module->graph && id < f->len ? &f->values[id] : NULL;
}

static int64_t bytes_of(const cfx_result *r) {
    int64_t bytes = r->kind == CFX_RESULT_TENSOR ? (int64_t)cfx_dtype_size(r->dtype) : 0;
    for (int i = 0; r->shape && i < r->ndim; i++)
        bytes *= r->shape[i];
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        bytes += bytes_of(&item);
    }
    return bytes;
}

/* Whether all sizes are numbers. */
static bool is_plain(const cfx_result *r) {
    bool plain = r->kind == CFX_RESULT_TENSOR ? r->shape != NULL : r->kind == CFX_RESULT_SEVERAL;
    for (int64_t i = 0; plain && r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        plain = is_plain(&item);
    }
    return plain;
}

/* Whether a call may be made now instead of later. */
static bool is_foldable(folding *f, const cfx_node *n) {
    cfx_op *op = cfx__call_op(n);
    cfx_result r = cfx_node_result(n);
    if (cfx_node_takes_result(n))
        op = NULL;
    else if (!op || (op->effects & CFX_DATA_SHAPE))
        return false;
    if (cfx_node_is_impure(n) || cfx__pass_keeps(f->keep, n) ||
        cfx__alias_written(&f->alias, n) || !is_plain(&r) ||
        bytes_of(&r) > f->limit || r.device.type != CFX_CPU)
        return false;
    cfx_each_input(n, u) if (cfx_is_bad(*value_of(f, u->node))) return false;
    return true;
}

static cfx_value known(cfx_node *n, void *user) { return cfx_value_keep(*value_of(user, n)); }

static cfx_value computed(folding *f, const cfx_node *n) {
    cfx_value args = cfx__value_scope_own(cfx__node_map(n->args, known, f));
    cfx_value kwargs = cfx__value_scope_own(cfx__node_map(n->kwargs, known, f));
    cfx_args a = {(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                  cfx_as_dict(kwargs)->len ? cfx_as_dict(kwargs) : NULL};
    if (cfx_node_takes_result(n))
        return cfx_at(a.v[0], cfx_integer(a.v[1]));
    return cfx_op_do_from((cfx_site){0}, cfx__call_op(n), a);
}

static void find_values(folding *f) {
    cfx_each_node(f->program->module->graph, n) {
        size_t mark = cfx_scope_open();
        cfx_tensor *t = cfx__program_constant(f->program, &f->alias, n);
        cfx_value v = cfx_bad();
        if (t)
            v = cfx_tensor_value(t);
        else if (n->op == CFX_CALL_FUNCTION && is_foldable(f, n))
            v = computed(f, n);
        *value_of(f, n) = cfx_value_keep(v);
        cfx_scope_close(mark);
        if (!cfx_ok()) {
            cfx_error_note("while node %s was computed", n->name);
            return;
        }
    }
}

/* Whether someone needs the value at run time: a node that is not constant. Views of parameters
 * cost nothing there and stay. */
static bool is_wanted(folding *f, const cfx_node *n) {
    const cfx_value *v = value_of(f, n);
    if (n->op != CFX_CALL_FUNCTION || v->tag != CFX_TAG_TENSOR || !n->num_users)
        return false;
    bool wanted = false;
    cfx_each_user(n, u) wanted |= cfx_is_bad(*value_of(f, u->user));
    return wanted && !cfx__alias_of_input(&f->alias, n);
}

static int replace(folding *f) {
    cfx_graph *g = f->program->module->graph;
    cfx__forward to;
    cfx__forward_open(&to, g);
    VEC(cfx_node *) wanted = {0};
    cfx_each_node(g, n) if (is_wanted(f, n)) VEC_PUSH(wanted, n);
    for (size_t i = 0; i < wanted.len && cfx_ok(); i++) {
        cfx_node *n = wanted.data[i];
        size_t mark = cfx_scope_open();
        cfx_node *held = cfx_program_add_tensor(f->program, CFX_IN_CONSTANT,
                                                cfx__text_format("folded_%s", n->name),
                                                cfx_as_tensor(*value_of(f, n)));
        if (held->graph) {
            cfx__node_set_origin(held, n);
            cfx__forward_to(&to, n, held);
        }
        cfx_scope_close(mark);
    }
    VEC_FREE(wanted);
    cfx_each_node(g, n) cfx__forward_visit(&to, n);
    return cfx__forward_close(&to);
}

static int run(cfx_program *p, const cfx_dict *options) {
    cfx_graph *g = p->module->graph;
    folding f = {.program = p,
                 .limit = cfx__pass_int(options, "limit"),
                 .keep = cfx__pass_text(options, "keep"),
                 .values = cfx__alloc0((g->made.len + 1) * sizeof *f.values),
                 .len = g->made.len};
    for (size_t i = 0; i < f.len; i++)
        f.values[i] = cfx_bad();
    cfx__alias_open(&f.alias, g);
    cfx_grad_mode grad = cfx_set_grad_mode(CFX_NO_GRAD);
    find_values(&f);
    cfx_set_grad_mode(grad);
    int changes = cfx_ok() ? replace(&f) : 0;
    for (size_t i = 0; i < f.len; i++)
        cfx_value_drop(f.values[i]);
    cfx__free(f.values);
    cfx__alias_close(&f.alias);
    if (changes)
        cfx__graph_sweep(g, cfx_node_is_impure);
    return changes;
}

const cfx_pass cfx__pass_fold_constants = {
    .name = "fold_constants",
    .summary = "computes now what depends on parameters and constants alone, up to a size, but for "
               "what keep=SELECTOR+SELECTOR picks",
    .options = "limit=16777216 keep=",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
