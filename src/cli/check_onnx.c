/* cfx ops check of a folder of ONNX's test cases: each is a folder with model.onnx and folders
 * test_data_set_0, ... of inputs and results (input_0.pb, output_0.pb). */
#include "check.h"
#include "look.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../onnx/onnx.h"

typedef struct {
    int passed, failed, refused;
    const char *name;
} tally;

/* ---- one case -------------------------------------------------------------------------------- */

/* Files of bfloat16 were written by who had only uint16 for its bits. */
static cfx_value as_declared(cfx_value v, bool bf16) {
    bool bits = bf16 && v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->dtype == CFX_U16;
    return bits ? cfx_op_do(cfx_op_find("aten.view.dtype"), v, cfx_bf16) : v;
}

static bool is_bf16(const cfx_program *p, bool input, int64_t i) {
    const char *name = NULL;
    int64_t k = 0;
    for (int n = 0; n < (input ? p->ninputs : p->noutputs) && !name; n++)
        if (!input || p->inputs[n].kind == CFX_IN_USER)
            name = k++ == i ? (input ? p->inputs[n].name : p->outputs[n].name) : NULL;
    cfx_node *n = name ? cfx_graph_find(p->module->graph, name) : NULL;
    return n && cfx_node_result(n).dtype == CFX_BF16;
}

/* Values of a data set in order, by the names and kinds that the program has for them. */
static cfx_value read_set(const cfx_program *p, const char *dir, bool inputs) {
    cfx_value file = cfx_dict_get(p->extra, "onnx"), out = cfx_list_value(0, NULL);
    cfx_value names = cfx_dict_get(cfx_as_dict(file), inputs ? "inputs" : "outputs");
    cfx_value kinds = cfx_dict_get(cfx_as_dict(file), inputs ? "input_kinds" : "output_kinds");
    for (int64_t i = 0; i < cfx_as_list(names)->len && cfx_ok(); i++) {
        cfx_value kind = *cfx_dict_find(cfx_as_dict(kinds), cfx_as_list(names)->items[i]);
        const char *path = cfx__text_format("%s/%s_%lld.pb", dir, inputs ? "input" : "output",
                                            (long long)i);
        cfx_value v = cfx__onnx_sample(path, (cfx__onnx_kind)cfx_integer(kind));
        cfx_list_append(cfx_as_list(out), as_declared(v, is_bf16(p, inputs, i)));
    }
    return out;
}

/* The largest part of what is allowed that two numbers differ by: a thousandth, or two steps of
 * numbers of 16 bits. */
static double excess(double got, double want, cfx_dtype d) {
    const double share = d == CFX_BF16 ? 0x1p-6 : d == CFX_F16 ? 0x1p-9 : 1e-3;
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    return isfinite(got) && isfinite(want) ? fabs(got - want) / (share * fabs(want) + 1e-6)
                                           : INFINITY;
}

static const char *differ(cfx_value got, cfx_value want);

static const char *tensors_differ(cfx_tensor *got, cfx_tensor *want) {
    if (got->dtype != want->dtype || !cfx__tensor_same_shape(got, want))
        return cfx__text_format("%s, not %s", cli_brief(cfx_tensor_value(got)),
                                cli_brief(cfx_tensor_value(want)));
    bool complex = cfx__dtype_is_complex((cfx_dtype)want->dtype);
    cfx_dtype wide = complex ? CFX_C128 : CFX_F64;
    const cfx_tensor *g = cfx__tensor_contiguous_as(got, wide);
    const cfx_tensor *w = cfx__tensor_contiguous_as(want, wide);
    for (int64_t i = 0; i < want->numel * (complex ? 2 : 1); i++) {
        double a = ((const double *)g->data)[i], b = ((const double *)w->data)[i];
        if (!(excess(a, b, (cfx_dtype)want->dtype) <= 1))
            return cfx__text_format("element %lld is %.9g, not %.9g", (long long)i, a, b);
    }
    return NULL;
}

static const char *differ(cfx_value got, cfx_value want) {
    if (got.tag == CFX_TAG_TENSOR && want.tag == CFX_TAG_TENSOR)
        return tensors_differ(cfx_as_tensor(got), cfx_as_tensor(want));
    bool lists = got.tag == CFX_TAG_LIST && want.tag == CFX_TAG_LIST;
    if (!lists || cfx_as_list(got)->len != cfx_as_list(want)->len)
        return cfx_is_none(got) && cfx_is_none(want) ? NULL : "a value of another kind";
    for (int64_t i = 0; i < cfx_as_list(got)->len; i++) {
        const char *why = differ(cfx_at(got, i), cfx_at(want, i));
        if (why)
            return why;
    }
    return NULL;
}

/* Runs a program on one data set; NULL where results are those there, else what is not. */
static const char *run_set(cfx_program *p, const char *dir) {
    cfx_value inputs = read_set(p, dir, true), wants = read_set(p, dir, false);
    if (!cfx_ok())
        return NULL;
    cfx_value got = cfx_program_run_from(
        (cfx_site){0}, p,
        (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL});
    if (cfx_is_bad(got))
        return NULL;
    bool one = cfx_as_list(wants)->len == 1;
    for (int64_t i = 0; i < cfx_as_list(wants)->len; i++) {
        const char *why = differ(one ? got : cfx_at(got, i), cfx_at(wants, i));
        if (why)
            return cfx__text_format("result %lld: %s", (long long)i, why);
    }
    return NULL;
}

static void check_case(tally *t, const char *dir) {
    const char *why = NULL;
    cfx_program *p = cfx_open(cfx__text_format("%s/model.onnx", dir));
    for (int i = 0; cfx_ok() && !why; i++) {
        const char *set = cfx__text_format("%s/test_data_set_%d", dir, i);
        if (access(set, F_OK))
            break;
        why = run_set(p, set);
    }
    const cfx_error *e = cfx_error_last();
    bool refused = !cfx_ok() && e->kind == CFX_NOT_IMPLEMENTED_ERROR;
    t->passed += cfx_ok() && !why;
    t->failed += why || (!cfx_ok() && !refused);
    t->refused += refused;
    if (!cfx_ok())
        why = cfx__text_format("%s", e->message);
    cfx_error_clear();
    if (why) {
        cli_print("%s: %s: %s\n", refused ? "refused" : "failed", t->name, why);
        cli_answer_row("failures", cfx_dict_of("case", t->name, "how",
                                               refused ? "refused" : "failed", "why", why));
    }
}

/* ---- all cases ------------------------------------------------------------------------------- */

static bool is_case(const char *dir) {
    return access(cfx__text_format("%s/model.onnx", dir), F_OK) == 0;
}

bool cli_has_onnx_cases(const char *dir) {
    if (is_case(dir))
        return true;
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = *e->d_name != '.' && is_case(cfx__text_format("%s/%s", dir, e->d_name));
    if (d)
        closedir(d);
    return found;
}

int cli_check_onnx(const char *dir, const char *pattern) {
    tally t = {.name = dir};
    struct dirent **names;
    int n = is_case(dir) ? 0 : scandir(dir, &names, NULL, alphasort);
    if (is_case(dir))
        CFX_SCOPE { check_case(&t, dir); }
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        CFX_SCOPE {
            const char *path = cfx__text_format("%s/%s", dir, name);
            t.name = name;
            if (*name != '.' && is_case(path) && (!pattern || cfx__text_glob(pattern, name)))
                check_case(&t, path);
        }
        free(names[i]);
    }
    if (n > 0)
        free(names);
    if (t.refused)
        cli_print("%d refused\n", t.refused);
    cli_print("%d passed, %d failed\n", t.passed, t.failed);
    cli_answer("passed", cfx_int(t.passed));
    cli_answer("failed", cfx_int(t.failed));
    cli_answer("refused", cfx_int(t.refused));
    return t.failed ? CLI_DIFFERS : CLI_DONE;
}
