/* Executors: who runs a graph, what is kept of it, and who steps in. */
#include <cfx/ops.h>

#include "run.h"

#include "test.h"

/* An executor that adds ten to what the interpreter gives, for inputs of one size. */
typedef struct {
    int64_t size;
} form;

static struct {
    int prepared, runs, freed;
    bool refuse;
} count;

static void *prepare(const cfx_execution *e) {
    if (count.refuse)
        return NULL;
    form *f = cfx__alloc(sizeof *f);
    f->size = cfx_tensor_numel(cfx_as_tensor(e->inputs.v[0]));
    count.prepared++;
    return f;
}

static bool fits(const void *p, const cfx_execution *e) {
    return ((const form *)p)->size == cfx_tensor_numel(cfx_as_tensor(e->inputs.v[0]));
}

static cfx_value run_ten(void *p, const cfx_execution *e) {
    (void)p;
    count.runs++;
    return cfx_tensor_value(cfx_add(cfx_executor_run(&cfx_interpreter, e), 10));
}

static void release(void *p) {
    count.freed++;
    free(p);
}

static const cfx_executor ten = {"ten", prepare, fits, run_ten, release};

static cfx_tensor *twice(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_mul(x, 2);
}

static cfx_tensor *ones(int64_t n) { return cfx_ones(cfx_ints_value(1, &n)); }

TEST(a_graph_keeps_what_was_prepared_for_each_shape) {
    size_t mark = cfx_scope_open();
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Twice", twice, "x"));
    cfx_set_grad_mode(CFX_NO_GRAD);
    CHECK(!cfx_set_executor(&ten));
    CHECK_STR(cfx_str(cfx_forward(gm, ones(2))), "tensor([12., 12.])");
    CHECK_STR(cfx_str(cfx_forward(gm, ones(1))), "tensor([12.])");
    CHECK_STR(cfx_str(cfx_forward(gm, ones(2))), "tensor([12., 12.])");
    CHECK_INT(count.prepared, 2);
    for (int64_t n = 3; n < 69; n++) {
        cfx_forward(gm, ones(n));
        cfx_forward(gm, ones(1)); /* what is used stays */
    }
    CHECK_INT(count.prepared, 68);
    CHECK_INT(count.freed, 4);
    cfx_node_set_args(cfx_graph_find(gm->graph, "mul"),
                      cfx_tuple(cfx_graph_find(gm->graph, "x"), cfx_int(3)));
    CHECK_STR(cfx_str(cfx_forward(gm, ones(1))), "tensor([13.])");
    CHECK_INT(count.freed, 68);
    CHECK(cfx_set_executor(NULL) == &ten);
    cfx_scope_close(mark);
    CHECK_INT(count.freed, 69);
    CHECK_INT(count.runs, 136);
}

TEST(the_interpreter_steps_in) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Twice", twice, "x"));
    cfx_set_executor(&ten);
    CHECK_STR(cfx_str(cfx_forward(gm, ones(1))), "tensor([2.])"); /* gradients are on */
    cfx_set_grad_mode(CFX_NO_GRAD);
    CHECK_STR(cfx_str(cfx_forward(gm, ones(1))), "tensor([12.])");
    FILE *sink = tmpfile();
    cfx_mode log = cfx_dispatch_log(sink);
    cfx_dispatch_mode_push(&log);
    CHECK_STR(cfx_str(cfx_forward(gm, ones(1))), "tensor([2.])");
    cfx_dispatch_mode_pop();
    fclose(sink);
    count.refuse = true;
    CHECK_STR(cfx_str(cfx_forward(gm, ones(5))), "tensor([2., 2., 2., 2., 2.])");
    cfx_execution none = {0};
    CHECK(cfx_is_bad(cfx_executor_run(&ten, &none)));
    CHECK_ERROR("an executor needs a GraphModule to run");
}

/* ---- watchers -------------------------------------------------------------------------------- */

static bool wants_mul(cfx_watcher *w, const cfx_node *n) {
    (void)w;
    return !strcmp(n->name, "mul");
}

static cfx_value negate(cfx_watcher *w, cfx_node *n, cfx_value v) {
    (void)n;
    ++*(int *)w->user;
    return cfx_tensor_value(cfx_neg(v));
}

TEST(a_watcher_sees_what_it_wants_and_may_replace_it) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Twice", twice, "x"));
    int seen = 0;
    cfx_watcher w = {.wants = wants_mul, .see = negate, .user = &seen};
    cfx_value in = cfx_tensor_value(ones(1));
    cfx_execution e = {.module = gm, .inputs = {1, &in, NULL}, .watcher = &w};
    CHECK_STR(cfx_str(cfx_executor_run(NULL, &e)), "tensor([-2.])");
    CHECK_INT(seen, 1);
}
