/* --verify: a program before and after it was changed, run on the same inputs and compared. */
#include "look.h"

#include <stdlib.h>
#include <string.h>

const char *cli_folder(void) {
    const char *where = getenv("TMPDIR");
    where = where && *where ? where : P_tmpdir;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/cfx-XXXXXX", where);
    if (n < (int)sizeof path && mkdtemp(path))
        return cfx__text_format("%s", path);
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "no folder can be made in '%s'", where);
    return NULL;
}

const char *cli_quoted(const char *path) {
    cfx__text t = {0};
    cfx__text_putc(&t, '\'');
    for (; *path; path++)
        cfx__text_puts(&t, *path == '\'' ? "'\\''" : (char[]){*path, 0});
    cfx__text_putc(&t, '\'');
    return cfx__text_take(&t);
}

bool cli_choose_inputs(cfx_program *p, const char *inputs, cfx_list *flat) {
    if (!inputs && cli_sample_inputs(p, flat))
        return true;
    cfx_dict *file = cli_read_tensors(inputs, "in");
    return file && cli_make_inputs(p, file, flat);
}

/* Those of the inputs that a program still takes, copied: a program may write to them. */
static cfx_value inputs_for(const cfx_program *p, const cfx_program *before, const cfx_list *flat) {
    cfx_value out = cfx_list_value(0, NULL);
    for (int i = 0, k = 0; i < before->ninputs; i++) {
        if (before->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_value v = flat->items[k++];
        if (cfx_graph_find(p->module->graph, before->inputs[i].name))
            cfx_list_append(cfx_as_list(out),
                            v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v);
    }
    return out;
}

/* Runs a program by the interpreter, the reference; its results and the buffers it wrote to, as
 * tensors by name. */
static cfx_dict *run_program(cfx_program *p, cfx_value inputs, bool buffers) {
    cfx_dict *all = cfx_dict_new();
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_manual_seed(0);
    const cfx_executor *chosen = cfx_set_executor(&cfx_interpreter);
    cfx_value v = cfx_program_run_from(
        (cfx_site){0}, p,
        (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL});
    cfx_set_executor(chosen);
    if (cfx_is_bad(v))
        return NULL;
    cfx_tree_flatten(v, leaves);
    for (int64_t i = 0; i < leaves->len; i++) {
        cfx_value leaf = leaves->items[i];
        if (cfx_is_number(leaf) && leaf.tag != CFX_TAG_SYM)
            leaf = cfx_tensor_value(cfx_tensor_from_value(leaf));
        if (leaf.tag == CFX_TAG_TENSOR)
            cfx_dict_set(all, cfx__text_format("out%lld", (long long)i), leaf);
    }
    for (int i = 0; buffers && i < p->ninputs; i++) {
        cfx_tensor *t = p->inputs[i].kind == CFX_IN_BUFFER ? cfx_program_tensor(p, &p->inputs[i])
                                                           : NULL;
        if (t)
            cfx_dict_set(all, p->inputs[i].target, cfx_tensor_value(t));
    }
    return all;
}

static cfx_tensor *held(const cfx_program *p, int i) {
    const cfx_input_spec *s = &p->inputs[i];
    return s->kind == CFX_IN_BUFFER || s->kind == CFX_IN_CONSTANT ? cfx_program_tensor(p, s) : NULL;
}

/* The same, and what the program writes to is afterwards what it was before: it is to be saved.
 * Tensors that are one stay one, so they are not copied before but written back after. */
static cfx_dict *run_in_passing(cfx_program *p, cfx_value inputs) {
    cfx_value saved = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        cfx_list_append(cfx_as_list(saved),
                        held(p, i) ? cfx_tensor_value(cfx_clone(held(p, i))) : cfx_none());
    cfx_dict *all = run_program(p, inputs, true);
    for (int64_t i = 0; all && i < all->len; i++) {
        cfx_value copy = cfx_tensor_value(cfx_clone(all->entries[i].value));
        cfx_dict_put(all, all->entries[i].key, copy);
    }
    for (int i = 0; i < p->ninputs; i++)
        if (held(p, i) && !cfx_integer(cfx_equal(held(p, i), cfx_as_list(saved)->items[i])))
            cfx_copy_(held(p, i), cfx_as_list(saved)->items[i]);
    return all;
}

static bool is_result(const char *name) { /* "out3" */
    return !strncmp(name, "out", 3) && name[3] && !name[3 + strspn(name + 3, "0123456789")];
}

static bool same_bits(cfx_value got, cfx_value want) {
    cli_difference d = {0};
    return cfx_as_tensor(got)->dtype == cfx_as_tensor(want)->dtype &&
           cli_differ(cfx_as_tensor(got), cfx_as_tensor(want), &d) && !d.wrong;
}

int cli_verify(const char *model, const char *inputs, const cfx_program *changed, double least) {
    cfx_program *before = cfx_open(model), *after = cfx_program_copy(changed);
    cfx_value flat = cfx_list_value(0, NULL);
    if (!before || !after || !cli_choose_inputs(before, inputs, cfx_as_list(flat)))
        return cli_trouble();
    cfx_dict *want = run_program(before, inputs_for(before, before, cfx_as_list(flat)), true);
    cfx_dict *got =
        want ? run_in_passing(after, inputs_for(after, before, cfx_as_list(flat))) : NULL;
    if (!got)
        return cli_trouble();
    cfx_list *results = cfx_as_list(cfx_list_value(0, NULL)),
             *names = cfx_as_list(cfx_list_value(0, NULL));
    cfx_dict *expected = cfx_dict_new(); /* all results, and buffers that differ */
    int64_t equal = 0;
    for (int64_t i = 0; i < want->len; i++) {
        const char *name = cfx_text(want->entries[i].key);
        cfx_value v = cfx_dict_get(got, name);
        const bool buffer = !is_result(name);
        if (buffer && (cfx_is_none(v) || same_bits(v, want->entries[i].value))) {
            equal += !cfx_is_none(v);
            continue;
        }
        cfx_dict_put(expected, want->entries[i].key, want->entries[i].value);
        cfx_list_append(results, v);
        cfx_list_append(names, want->entries[i].key);
    }
    const bool same = cli_expect(results, names, expected, least);
    cli_answer("equal_buffers", cfx_int(equal));
    if (equal)
        cli_print("%lld buffer%s equal\n", (long long)equal, equal == 1 ? "" : "s");
    return same ? CLI_DONE : CLI_DIFFERS;
}
