/* Files that were made to do harm: each is opened and used as the harnesses of fuzz/ use programs,
 * in a process of its own, and ends in a sentence, or well, within the time. A file that ever
 * crashed something is put into tests/data/hostile. */
#include "../fuzz/fuzz.h"
#include "test.h"

#include <dirent.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE CFX_TEST_DATA "/hostile"

#ifdef CFX_SANITIZE
enum { SECONDS = 20 };
#else
enum { SECONDS = 4 }; /* by the processor; a step takes a fraction of one */
#endif

static void in_child(const char *path) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(10 * SECONDS);
        fuzz_begin();
        cfx_set_time_limit(SECONDS);
        fuzz_use(cfx_open(path));
        fuzz_end();
        cfx_finish(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status)
        test_fail((cfx_site){path, 0}, "it ends %s %d", WIFSIGNALED(status) ? "by signal" : "with",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

TEST(hostile_files_end_in_a_sentence) {
    DIR *dir = opendir(HOSTILE);
    int seen = 0;
    for (struct dirent *e; CHECK(dir != NULL) && (e = readdir(dir));) {
        char path[512];
        snprintf(path, sizeof path, HOSTILE "/%s", e->d_name);
        size_t n = strlen(e->d_name);
        if (n < 4 || (strcmp(e->d_name + n - 4, ".pt2") && strcmp(e->d_name + n - 3, ".fx")))
            continue;
        in_child(path);
        seen++;
    }
    closedir(dir);
    CHECK(seen >= 20);
}

/* ---- values of any depth --------------------------------------------------------------------- */

TEST(lists_nest_to_a_bound) {
    cfx_value v = cfx_list_value(0, NULL);
    for (int i = 0; i < 1000000 && cfx_ok(); i++)
        v = cfx_list_value(1, &v);
    CHECK_ERROR("lists and dicts are nested more than 1000 levels deep");
    cfx_value outer = cfx_list_value(0, NULL), at = outer;
    for (int i = 0; i < 1000000 && cfx_ok(); i++) { /* from the outside in */
        cfx_value inner = cfx_list_value(0, NULL);
        cfx_list_append(cfx_as_list(at), inner);
        at = inner;
    }
    CHECK_ERROR("lists and dicts are nested more than 1000 levels deep");
    CHECK(strlen(cfx_value_repr(outer)) >= 1900);
}

TEST(a_list_never_holds_itself) {
    cfx_value a = cfx_list_value(0, NULL), b = cfx_list_value(1, &a);
    cfx_list_append(cfx_as_list(a), a);
    CHECK_ERROR("a list or dict cannot hold itself");
    cfx_list_append(cfx_as_list(a), b);
    CHECK_ERROR("a list or dict cannot hold itself");
    CHECK_STR(cfx_value_repr(b), "[[]]");
}

TEST(limits_have_sentences_of_their_own) {
    cfx_set_node_limit(10);
    cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    CHECK_ERROR("the graph has more than the 10 nodes that the limit allows");
    cfx_set_node_limit(0);
    cfx_set_time_limit(1e-9);
    cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    CHECK_ERROR("the time limit of 1e-09 seconds is used up");
    cfx_set_time_limit(0);
    cfx_program *p = cfx_open(CFX_TEST_DATA "/zoo/dyn_conv/model.pt2");
    CHECK(!cfx_failed(p));
    cfx_set_time_limit(1e-9);
    cfx_node_replace(cfx_graph_find(p->module->graph, "conv2d"),
                     cfx_graph_find(p->module->graph, "x"));
    CHECK_ERROR("the time limit of 1e-09 seconds is used up");
    cfx_set_time_limit(0);
}

TEST(views_stand_for_no_more_than_the_memory_limit) {
    cfx_tensor *x = cfx_ones(2, 3);
    cfx_set_memory_limit(1 << 30);
    cfx_sum(cfx_expand(cfx_ones(1), cfx_list(1 << 28)));
    CHECK(cfx_ok());
    cfx_expand(cfx_ones(1), cfx_list((1 << 28) + 1));
    CHECK_ERROR("a view of shape [268435457] stands for more");
    cfx_tensor_view(x, 1, (int64_t[]){INT64_C(1) << 40}, (int64_t[]){0}, 0);
    CHECK_ERROR("a view of shape [1099511627776] stands for more");
    cfx_set_memory_limit(0);
}

TEST(a_target_that_would_forge_lines_is_refused) {
    cfx_open(CFX_TEST_DATA "/hostile/target_of_two_lines.pt2");
    CHECK_ERROR("node 'y': its target 'torch.ops.a\\nb' is no name of a function in a module");
}

TEST(a_file_that_is_another_program_elsewhere_is_refused) {
    cfx_open(CFX_TEST_DATA "/hostile/nodes_twice.pt2");
    CHECK_ERROR("the key \"nodes\" stands twice in an object");
}

TEST(a_size_without_a_value_is_told) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/hostile/size_of_no_value.pt2");
    cfx_decompose(p, cfx_none());
    CHECK_ERROR("the size 'Mod(s0, 0)' has no value");
}

TEST(symbols_are_no_numbers_where_something_is_computed) {
    cfx_program *p = cfx_open(CFX_TEST_DATA "/hostile/symbol_for_a_tensor.fx");
    cfx_program_run(p, cfx_ones(2, 3));
    CHECK_ERROR("aten.sub.Tensor: the size s0 has no value");
    cfx_decompose(p, cfx_none());
    CHECK_ERROR("aten.sub.Tensor: the size s0 has no value");
    cfx_decompose(cfx_open(CFX_TEST_DATA "/hostile/symbol_in_a_slice.fx"), cfx_none());
    CHECK_ERROR("y: the size s0 has no value");
    cfx_node *y = cfx_graph_find(p->module->graph, "y");
    cfx_value size = cfx_at(y->args, 1);
    cfx_sub(cfx_ones(2, 3), size);
    CHECK_ERROR("aten.sub.Tensor: the size s0 has no value");
    cfx_full(cfx_list(2, size), 1.0);
    CHECK_ERROR("aten.full.default: the size [2, s0] has no value");
    cfx_py("operator.getitem", cfx_ones(2, 3), cfx_slice_value(size, cfx_none(), cfx_none()));
    CHECK_ERROR("the size slice(s0, None, None) has no value");
}

TEST(modules_nest_to_a_bound) {
    char path[4001];
    for (int i = 0; i < 4000; i++)
        path[i] = i % 2 ? '.' : 'm';
    path[3999] = 0;
    cfx_module *gm = cfx_graph_module(NULL, cfx_graph_new(), "Deep");
    cfx_graph_module_add(gm, path, cfx_nn_relu());
    CHECK_ERROR("modules are nested more than 500 levels deep");
}
