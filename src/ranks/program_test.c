/* Programs that hold collectives: exported, written and read again, run as plans on ranks. */
#include <cfx/ranks.h>

#include <unistd.h>

#include "../group/group.h"
#include "test.h"

#define OP(name, ...) cfx_as_tensor(cfx_op_do(cfx_op_find("_c10d_functional::" name), __VA_ARGS__))

/* Half of a layer, whose result all ranks sum; what nobody uses is computed by all all the same. */
static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    cfx_tensor *y = cfx_matmul(x, cfx_attr(self, "weight"));
    y = OP("wait_tensor", OP("all_reduce", y, "sum", "0"));
    OP("broadcast", y, 0, "0");
    cfx_tensor *w = OP("wait_tensor", OP("all_reduce", cfx_attr(self, "weight"), "max", "0"));
    cfx_tensor *all = OP("all_gather_into_tensor", cfx_relu(y), 2, "0");
    return cfx_add(OP("wait_tensor", all), cfx_sum(w));
}

static cfx_module *part(int rank) {
    cfx_module *m = cfx_module_new("Part", forward, "x");
    cfx_tensor *w = cfx_reshape(cfx_arange(12, CFX_KW(dtype, cfx_f32)), cfx_list(4, 3));
    cfx_nn_parameter(m, "weight", cfx_sub(cfx_mul(w, rank + 1), 5));
    return m;
}

static cfx_tensor *input(int rank) {
    return cfx_add(cfx_reshape(cfx_arange(8, CFX_KW(dtype, cfx_f32)), cfx_list(2, 4)), rank);
}

/* The same by the numbers of both ranks. */
static cfx_tensor *expected(void) {
    cfx_tensor *w[2], *y = NULL;
    for (int r = 0; r < 2; r++) {
        w[r] = cfx_as_tensor(cfx_module_attr(part(r), "weight"));
        cfx_tensor *mine = cfx_matmul(input(r), w[r]);
        y = y ? cfx_add(y, mine) : mine;
    }
    y = cfx_relu(y);
    return cfx_add(cfx_cat(cfx_list(y, y), 0), cfx_sum(cfx_maximum(w[0], w[1])));
}

static bool run(cfx_group *g, void *user) {
    cfx_program *const *programs = user;
    const int rank = cfx_group_rank(g);
    cfx_set_grad_mode(CFX_INFERENCE);
    cfx_tensor *want = expected(), *x = input(rank);
    const cfx_executor *const by[] = {&cfx_interpreter, &cfx_planner};
    for (int i = 0; i < 4 && cfx_ok(); i++) {
        cfx_value v = cfx_program_run_with((cfx_site){0}, programs[rank], by[i % 2], NULL,
                                           CFX_ARGS(x));
        CHECK(cfx_ok() && cfx_integer(cfx_equal(cfx_as_tensor(v), want)));
    }
    return cfx_ok();
}

TEST(programs_with_collectives_run_on_ranks) {
    cfx_program *programs[2];
    for (int r = 0; r < 2; r++)
        programs[r] = cfx_export(part(r), cfx_tuple(input(r)), CFX_NONE, CFX_NONE);
    CHECK_OK();
    CHECK(cfx_group_simulate(2, run, programs));
}

TEST(collectives_are_kept_by_files_and_passes) {
    char path[] = "/tmp/cfx_ranks_XXXXXX.pt2";
    close(mkstemps(path, 4));
    cfx_program *programs[2];
    for (int r = 0; r < 2; r++) {
        cfx_program *p = cfx_export(part(r), cfx_tuple(input(r)), CFX_NONE, CFX_NONE);
        CHECK(cfx_save(p, path));
        programs[r] = cfx_open(path);
        const int before = cfx_graph_len(programs[r]->module->graph);
        cfx_graph_eliminate_dead_code(programs[r]->module->graph);
        CHECK_INT(cfx_graph_len(programs[r]->module->graph), before);
    }
    CHECK(cfx_group_simulate(2, run, programs));
    unlink(path);
}
