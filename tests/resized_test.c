/* Random programs at other sizes than they were planned for: the plan that was made for the first
 * sizes serves others, or is not used for them; in either case a run gives what a plan made for its
 * own sizes gives, bit for bit, and fails where the interpreter does. */
#include "drawing.h"

#include "plan/form.h"
#include "test.h"

typedef struct {
    int ran, resized;
} counts;

static bool writes(const cfx_graph *g) {
    bool any = false;
    cfx_each_node(g, n)
        any |= n->op == CFX_CALL_FUNCTION && n->target.op &&
               (cfx__op_info_of(n->target.op)->writes || cfx__op_info_of(n->target.op)->updated ||
                n->target.op->effects & CFX_RANDOM);
    return any;
}

static cfx_value run_at(cfx_module *gm, const cfx_executor *x, cfx_value inputs) {
    cfx_execution e = {.at = CFX_HERE,
                       .module = gm,
                       .inputs = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL}};
    return cfx_executor_run(x, &e);
}

/* The inputs with one size replaced by another wherever it stands; scope. */
static cfx_value at_other_size(cfx_value inputs, int64_t size, int64_t other) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(inputs)->len; i++) {
        const cfx_tensor *t = cfx_tensor_at(inputs, i);
        int64_t shape[CFX_MAX_DIMS];
        for (int k = 0; k < t->ndim; k++)
            shape[k] = t->shape[k] == size ? other : t->shape[k];
        cfx_list_append(cfx_as_list(out), cfx_tensor_value(draw_tensor((cfx_dtype)t->dtype,
                                                                       t->ndim, shape)));
    }
    return out;
}

static bool same_tensor(const cfx_tensor *a, const cfx_tensor *b) {
    const cfx_tensor *s = cfx__tensor_contiguous((cfx_tensor *)a),
                     *t = cfx__tensor_contiguous((cfx_tensor *)b);
    return a->dtype == b->dtype && cfx__tensor_same_shape(a, b) &&
           (!a->numel || !memcmp(s->data, t->data,
                                 (size_t)(s->numel * cfx_dtype_size((cfx_dtype)s->dtype))));
}

static bool same_values(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    if (a.tag == CFX_TAG_TENSOR)
        return same_tensor(cfx_as_tensor(a), cfx_as_tensor(b));
    if (a.tag != CFX_TAG_LIST && a.tag != CFX_TAG_TUPLE)
        return cfx_equal_values(a, b);
    bool same = cfx_as_list(a)->len == cfx_as_list(b)->len;
    for (int64_t i = 0; same && i < cfx_as_list(a)->len; i++)
        same = same_values(cfx_as_list(a)->items[i], cfx_as_list(b)->items[i]);
    return same;
}

/* Whether the last run was by a plan that was made for other sizes. */
static bool is_resized(const cfx_graph *g) {
    const cfx__prepared *q = g->prepared;
    while (q && q->by != &cfx_planner)
        q = q->next;
    const cfx__plan_form *f = q ? q->form : NULL;
    return f && f->given != f->plan->given;
}

/* A size above one that an input has; 0: none has. */
static int64_t any_size(cfx_value inputs) {
    for (int i = 0; i < 8; i++) {
        const int64_t n = cfx_as_list(inputs)->len;
        const cfx_tensor *t = n ? cfx_tensor_at(inputs, test_draw((uint32_t)n)) : NULL;
        const int64_t size = t && t->ndim ? t->shape[test_draw((uint32_t)t->ndim)] : 0;
        if (size > 1)
            return size;
    }
    return 0;
}

static void check(uint64_t seed, counts *c) {
    random_program drawn = programs_draw(seed);
    if (drawn.random || writes(drawn.graph))
        return;
    cfx_module *gm = cfx_graph_module(drawn.root, drawn.graph, NULL);
    run_at(gm, &cfx_planner, drawn.inputs);
    cfx_error_clear();
    const int64_t size = any_size(drawn.inputs);
    for (int turn = 0; size && turn < 3; turn++) {
        const int64_t other = turn ? size + 1 + test_draw(5) : 2 * size;
        cfx_value inputs = at_other_size(drawn.inputs, size, other);
        random_program again = programs_draw(seed);
        cfx_module *fresh = cfx_graph_module(again.root, again.graph, NULL);
        test_seed(seed + (uint64_t)turn);
        cfx_value got = run_at(gm, &cfx_planner, inputs);
        const bool ran = cfx_ok(), resized = ran && is_resized(gm->graph);
        cfx_error_clear();
        cfx_value want = run_at(fresh, &cfx_planner, inputs);
        const bool runs = cfx_ok();
        cfx_error_clear();
        if (ran != runs || (ran && !same_values(got, want)))
            test_fail(CFX_HERE, "seed %d, %d in place of %d: %s in %s", (int)seed, (int)other,
                      (int)size, ran != runs ? "one refuses" : "results differ",
                      cfx_graph_str(gm->graph));
        c->ran += ran;
        c->resized += resized;
    }
}

TEST(random_programs_are_the_same_at_sizes_they_were_not_planned_for) {
    enum { SEEDS = 1500 };
    counts c = {0};
    cfx_set_grad_mode(CFX_INFERENCE);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        CFX_SCOPE check(seed, &c);
    cfx_set_grad_mode(CFX_GRAD_ON);
    CHECK(c.ran > SEEDS / 5);
    CHECK(c.resized > SEEDS / 40);
}
