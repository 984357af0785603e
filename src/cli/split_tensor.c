/* cfx split --tensor: a program for each of several ranks that share every layer; what of it is
 * cut, and whether all ranks together compute what the whole does. */
#include "split.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is cut ----------------------------------------------------------------------------- */

static int64_t tensor_bytes(const cfx_program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_tensor *t = cfx_program_tensor(p, &p->inputs[i]);
        bytes += t ? t->numel * (int64_t)cfx_dtype_size(t->dtype) : 0;
    }
    return bytes;
}

/* The collectives of a program: how many, and the bytes that a rank puts in. */
static int collectives(const cfx_program *p, int64_t *bytes) {
    int n = 0;
    cfx_each_node(p->module->graph, c) {
        bool sum = cfx_node_is(c, "_c10d_functional.all_reduce.default");
        if (!sum && !cfx_node_is(c, "_c10d_functional.all_gather_into_tensor.default"))
            continue;
        cfx_result r = cfx_node_result(cfx_node_input(c, 0));
        int64_t size = r.kind == CFX_RESULT_TENSOR ? cfx_dtype_size(r.dtype) : 0;
        for (int i = 0; i < r.ndim && size; i++) {
            cfx_value d = cfx_result_size(&r, i);
            size *= d.tag == CFX_TAG_INT   ? cfx_integer(d)
                    : d.tag == CFX_TAG_SYM && cfx_as_sym(d)->has_hint ? cfx_as_sym(d)->hint
                                                                      : 1;
        }
        *bytes += size;
        n++;
    }
    return n;
}

/* Layers that stay whole, with the reason. */
static void print_whole(const cli_split_job *j, const cfx_dict *whole) {
    for (int64_t i = 0; i < whole->len; i++) {
        const char *name = cfx_text(whole->entries[i].key);
        const char *why = cfx_text(whole->entries[i].value);
        const char *module = cli_module_of(cfx_graph_find(j->program->module->graph, name));
        cli_print("  %s%s%s%s stays whole: %s\n", *module ? module : name, *module ? " (" : "",
                  *module ? name : "", *module ? ")" : "", why);
        cli_answer_row("whole", cfx_dict_of("node", name, "module", module, "why", why));
    }
}

static cfx_value print_cut(const cli_split_job *j, cfx_program *const *ranks, cfx_dict *report) {
    const cfx_list *cut = cfx_as_list(cfx_dict_get(report, "cut"));
    const cfx_dict *whole = cfx_as_dict(cfx_dict_get(report, "whole"));
    int64_t sent = 0, all = tensor_bytes(j->program);
    int n = collectives(ranks[0], &sent);
    cli_print("%lld of %lld layers are cut; %d collectives, to which each rank gives %s\n",
              (long long)cut->len, (long long)(cut->len + whole->len), n, cli_bytes(sent));
    for (int i = 0; i < j->tensor; i++) {
        int64_t own = tensor_bytes(ranks[i]);
        cli_print("rank %d has %s of %s of tensors\n", i, cli_bytes(own), cli_bytes(all));
        cli_answer_row("ranks", cfx_dict_of("rank", i, "weights", cfx_int(own)));
    }
    print_whole(j, whole);
    cli_answer("cut", cfx_dict_get(report, "cut"));
    cli_answer("collectives", cfx_int(n));
    cli_answer("collective_bytes", cfx_int(sent));
    cfx_value files = cfx_list_value(0, NULL);
    for (int i = 0; i < j->tensor; i++)
        cfx_list_append(cfx_as_list(files),
                        cfx_dict_of("rank", i, "weights", cfx_int(tensor_bytes(ranks[i]))));
    return cfx_dict_of("format", "cfx split 1", "model", j->model, "kind", "tensor", "ranks", files,
                       "cut", cfx_dict_get(report, "cut"), "whole", cfx_dict_get(report, "whole"),
                       "collectives", n, "collective_bytes", cfx_int(sent));
}

/* ---- all ranks at once ----------------------------------------------------------------------- */

typedef struct simulation {
    cfx_program *const *programs;
    cfx_value *inputs, *results; /* by rank; results are counted */
} simulation;

static bool run_rank(cfx_group *g, void *user) {
    simulation *s = user;
    int rank = cfx_group_rank(g);
    cfx_manual_seed(0);
    const cfx_list *in = cfx_as_list(s->inputs[rank]);
    cfx_value v = cfx_program_run_with((cfx_site){0}, s->programs[rank], &cfx_interpreter, NULL,
                                       (cfx_args){(int)in->len, in->items, NULL});
    s->results[rank] = cfx_is_bad(v) ? cfx_none() : cfx_value_keep(v);
    return cfx_ok() && !cfx_is_bad(v);
}

static cfx_list *leaves_of(cfx_value v) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(v, leaves);
    return leaves;
}

/* Rank 0's results against those of the whole. */
static int compare(const cli_split_job *j, cfx_value got, cfx_value whole) {
    cfx_list *results = leaves_of(got), *want = leaves_of(whole);
    cfx_list *names = cfx_as_list(cfx_list_value(0, NULL));
    cfx_dict *expected = cfx_dict_new();
    for (int64_t i = 0; i < want->len; i++) {
        const char *name = cfx__text_format("out%lld", (long long)i);
        cfx_list_append(names, cfx_string_value(name));
        if (want->items[i].tag == CFX_TAG_TENSOR)
            cfx_dict_set(expected, name, want->items[i]);
    }
    bool same = cli_expect(results, names, expected, 0);
    cli_answer("same", cfx_bool(same));
    cli_print("%d ranks give %s\n", j->tensor,
              same ? "what the whole gives, but for rounding" : "something else than the whole");
    return same ? CLI_DONE : CLI_DIFFERS;
}

static int simulate(cli_split_job *j, cfx_program *const *programs) {
    cfx_program *whole = cfx_to_aten(cfx_open(j->model));
    if (!cfx_ok() || !cli_split_inputs(j))
        return cli_trouble();
    cfx_value *inputs = calloc((size_t)j->tensor, 2 * sizeof *inputs);
    simulation s = {programs, inputs, inputs + j->tensor};
    for (int i = 0; i < j->tensor; i++) {
        inputs[i] = cli_split_copies(j);
        s.results[i] = cfx_none();
    }
    cfx_value in = cli_split_copies(j);
    cfx_manual_seed(0);
    cfx_value want = cfx_program_run_with((cfx_site){0}, whole, &cfx_interpreter, NULL,
                                          (cfx_args){(int)cfx_as_list(in)->len,
                                                     cfx_as_list(in)->items, NULL});
    bool fine = !cfx_is_bad(want) && cfx_group_simulate(j->tensor, run_rank, &s);
    int code = fine ? compare(j, s.results[0], want) : cli_trouble();
    for (int i = 0; i < j->tensor; i++)
        cfx_value_drop(s.results[i]);
    free(inputs);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

int cli_split_tensor(cli_split_job *j, cfx_stage_options o) {
    cfx_program **ranks = calloc((size_t)j->tensor, sizeof *ranks);
    cfx_dict *report = cfx_dict_new();
    if (!ranks)
        return CLI_TROUBLE;
    bool any = true; /* layer is cut: rank 0 tells, before all the others are made */
    for (int i = 0; i < j->tensor && any && cfx_ok(); i++) {
        /* ranks write to their buffers: none shares them with another */
        cfx_program *own = i ? cfx_to_aten(cfx_open(j->model)) : j->program;
        ranks[i] = cfx_tensor_parallel(own, i, j->tensor, report);
        any = cfx_ok() && cfx_as_list(cfx_dict_get(report, "cut"))->len;
    }
    int code = cfx_ok() ? CLI_DONE : cli_trouble();
    if (code == CLI_DONE && !any) {
        print_whole(j, cfx_as_dict(cfx_dict_get(report, "whole")));
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "no layer of '%s' can be cut for %d ranks",
                 j->model, j->tensor);
        code = cli_trouble();
    } else if (code == CLI_DONE) {
        cfx_value plan = print_cut(j, ranks, report);
        code = j->simulate ? simulate(j, ranks) : CLI_DONE;
        if (code == CLI_DONE && j->report)
            code = cli_split_report(j, o);
        if (code == CLI_DONE && j->folder)
            code = cli_split_write(j, "rank", ranks, j->tensor, plan,
                                   cfx_as_list(cfx_dict_get(cfx_as_dict(plan), "ranks")));
    }
    free(ranks);
    return code;
}
