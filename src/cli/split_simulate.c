/* cfx split --simulate: what a program was split into runs in this process, and so does the whole;
 * do they give the same? And --measure: what the nodes take. */
#include "split.h"

#include <string.h>

/* ---- runs ------------------------------------------------------------------------------------ */

static cfx_value run_program(cfx_program *p, cfx_value inputs) {
    cfx_args a = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL};
    return cfx_program_run_with((cfx_site){0}, p, &cfx_interpreter, NULL, a);
}

/* The results as leaves; NULL where the run failed. */
static cfx_list *leaves_of(cfx_value v) {
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    if (cfx_is_bad(v) || !cfx_ok())
        return NULL;
    cfx_tree_flatten(v, leaves);
    return leaves;
}

/* Stage after stage, each on what the one before gave. */
static cfx_list *run_stages(const cfx_stages *s, cfx_value inputs) {
    cfx_list *leaves = NULL;
    for (int i = 0; i < s->n; i++) {
        leaves = leaves_of(run_program(s->stages[i].program, inputs));
        if (!leaves)
            return NULL;
        inputs = cfx_list_value(leaves->len, leaves->items);
    }
    return leaves;
}

/* ---- what they give -------------------------------------------------------------------------- */

static bool is_same(cfx_value got, cfx_value want) {
    cli_difference d = {0};
    if (want.tag != CFX_TAG_TENSOR || got.tag != CFX_TAG_TENSOR)
        return got.tag == want.tag && cfx_equal_values(got, want);
    const cfx_tensor *a = cfx_as_tensor(got), *b = cfx_as_tensor(want);
    return a->dtype == b->dtype && cli_differ(a, b, &d) && !d.wrong;
}

/* How many of two lists differ; each is told. */
static int compare(const char *what, const cfx_list *got, const cfx_list *want) {
    int wrong = got->len != want->len;
    for (int64_t i = 0; i < want->len && i < got->len; i++) {
        if (is_same(got->items[i], want->items[i]))
            continue;
        cli_print("%s %lld differs: %s and %s\n", what, (long long)i, cli_brief(got->items[i]),
                  cli_brief(want->items[i]));
        wrong++;
    }
    return wrong;
}

/* What stages have written to, against the same of the whole. */
static int compare_written(const cfx_stages *s, const cfx_program *whole, int *count) {
    int wrong = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->stages[i].program->ninputs; k++) {
            const cfx_input_spec *in = &s->stages[i].program->inputs[k];
            if (in->kind != CFX_IN_BUFFER)
                continue;
            cfx_tensor *got = cfx_program_tensor(s->stages[i].program, in);
            cfx_tensor *want = cfx_program_tensor(whole, in);
            if (!got || !want)
                continue;
            ++*count;
            if (is_same(cfx_tensor_value(got), cfx_tensor_value(want)))
                continue;
            cli_print("buffer %s of stage %d differs\n", in->target, i);
            wrong++;
        }
    return wrong;
}

int cli_split_simulate_stages(cli_split_job *j, const cfx_stages *s) {
    /* the whole again: both may write to their buffers */
    cfx_program *whole = cfx_to_aten(cfx_open(j->model));
    if (!cfx_ok() || !cli_split_inputs(j))
        return cli_trouble();
    cfx_value a = cli_split_copies(j), b = cli_split_copies(j);
    cfx_manual_seed(0);
    cfx_list *want = leaves_of(run_program(whole, a));
    cfx_manual_seed(0);
    cfx_list *got = want ? run_stages(s, b) : NULL;
    if (!got)
        return cli_trouble();
    int buffers = 0, wrong = compare("result", got, want);
    wrong += compare("input", cfx_as_list(b), cfx_as_list(a));
    wrong += compare_written(s, whole, &buffers);
    cli_answer("same", cfx_bool(!wrong));
    cli_print("\n%d stages give %s (%lld result%s, %d buffer%s)\n", s->n,
              wrong ? "something else than the whole" : "what the whole gives, bit for bit",
              (long long)want->len, want->len == 1 ? "" : "s", buffers, buffers == 1 ? "" : "s");
    return wrong ? CLI_DIFFERS : CLI_DONE;
}
