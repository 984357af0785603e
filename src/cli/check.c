/* cfx ops check: replays recorded calls and compares with what PyTorch computed.
 *
 * A line of calls.jsonl is {"op", "args", "kwargs", "out"}; a tensor is {"tensor": key, "stride"},
 * its data contiguous under that key. Every call is made twice: on real tensors, where values,
 * dtypes, shapes and strides must agree, and on fake ones, where all but the values must. "after"
 * has what the arguments that are written to hold then. A line with "error" in place of "out" must
 * fail in those words. Where gradients are asked for, the lines that have a "grad" are recorded and
 * walked back instead, and those that have a "grad2" a second time. */
#include "check.h"
#include "look.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../dispatch/dispatch.h"
#include "../value/json.h"

typedef cli_check_session session;

/* ---- from JSON to arguments ------------------------------------------------------------------ */

static cfx_value decode(session *s, cfx_value v);

/* The text that a dict has under a key; "", with an error, where that is no text. */
static const char *text_in(cfx_value v, const char *key) {
    const char *text = cfx_text(cfx_dict_get(cfx_as_dict(v), key));
    if (!text)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "\"%s\" is no text in %s", key,
                 cfx_value_repr(v));
    return text ? text : "";
}

/* A stride that the file gives; others than numbers from 0 on are an error. */
static int64_t stride_of(cfx_value v) {
    if (v.tag == CFX_TAG_INT && cfx_integer(v) >= 0)
        return cfx_integer(v);
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s is no stride", cfx_value_repr(v));
    return 0;
}

static cfx_value decode_tensor(session *s, cfx_value v) {
    const char *name = text_in(v, "tensor");
    cfx_value stored = cfx_dict_get(s->tensors, name);
    if (stored.tag != CFX_TAG_TENSOR) {
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "tensors.safetensors has no '%s'", name);
        return cfx_bad();
    }
    cfx_tensor *data = cfx_as_tensor(stored);
    cfx_value given = cfx_dict_get(cfx_as_dict(v), "stride");
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_contiguous(data->ndim, data->shape, stride);
    const bool strided = given.tag == CFX_TAG_LIST && !cli_check_programs(s);
    const int64_t n = strided ? cfx_as_list(given)->len : 0;
    for (int i = 0; i < n && i < data->ndim; i++)
        stride[i] = stride_of(cfx_as_list(given)->items[i]);
    if (!cfx_ok())
        return cfx_bad();
    cfx_tensor *t =
        cfx__tensor_empty((cfx_site){0}, data->dtype, s->fake, data->ndim, data->shape, stride);
    if (t->data)
        cfx__tensor_copy(t, data);
    return cfx_tensor_value(t);
}

static cfx_value decode_named(cfx_value v) {
    cfx_value x;
    cfx_dtype d;
    if (!cfx_is_none(cfx_dict_get(cfx_as_dict(v), "dtype")) &&
        cfx_dtype_parse(text_in(v, "dtype"), &d))
        return cfx_dtype_value(d);
    if (!cfx_is_none(cfx_dict_get(cfx_as_dict(v), "float")))
        return cfx_float(strtod(text_in(v, "float"), NULL));
    if (!cfx_is_none(cfx_dict_get(cfx_as_dict(v), "layout")))
        return cfx_layout_value(CFX_STRIDED);
    if (!cfx_is_none(cfx_dict_get(cfx_as_dict(v), "device")))
        return cfx_device_value((cfx_device){CFX_CPU, -1});
    if (!cfx_is_none(x = cfx_dict_get(cfx_as_dict(v), "complex")) && x.tag == CFX_TAG_LIST)
        return cfx_complex_value(cfx_number(cfx_at(x, 0)), cfx_number(cfx_at(x, 1)));
    if (!cfx_is_none(cfx_dict_get(cfx_as_dict(v), "memory_format"))) {
        const char *text = text_in(v, "memory_format");
        return cfx_memory_format_value(strstr(text, "channels_last_3d") ? CFX_CHANNELS_LAST_3D
                                       : strstr(text, "channels_last")  ? CFX_CHANNELS_LAST
                                       : strstr(text, "preserve")       ? CFX_PRESERVE
                                                                        : CFX_CONTIGUOUS);
    }
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "unknown kind of argument: %s", cfx_value_repr(v));
    return cfx_bad();
}

static cfx_value decode(session *s, cfx_value v) {
    if (v.tag == CFX_TAG_LIST) {
        cfx_value list = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(list), decode(s, cfx_as_list(v)->items[i]));
        return list;
    }
    if (v.tag != CFX_TAG_DICT)
        return v;
    return cfx_is_none(cfx_dict_get(cfx_as_dict(v), "tensor")) ? decode_named(v)
                                                               : decode_tensor(s, v);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Element i as two doubles. */
static void element(const cfx_tensor *t, int64_t i, double *re, double *im) {
    size_t mark = cfx_scope_open();
    cfx_value v = cfx__tensor_get(t, i);
    *re = cfx_number(v);
    *im = v.tag == CFX_TAG_COMPLEX ? cfx_as_complex(v)->im : 0;
    cfx_scope_close(mark);
}

static bool close_enough(double got, double want, double allowed) {
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return got == want || fabs(got - want) <= allowed;
}

static const char *compare_values(const cfx_tensor *got, const cfx_tensor *want) {
    double scale = 1e-6, re, im, wre, wim;
    for (int64_t i = 0; i < want->numel; i++) {
        element(want, i, &wre, &wim);
        if (isfinite(wre) && fabs(wre) > scale)
            scale = fabs(wre);
        if (isfinite(wim) && fabs(wim) > scale)
            scale = fabs(wim);
    }
    double allowed = cli_tolerance(want->dtype) * scale;
    for (int64_t i = 0; i < want->numel; i++) {
        element(got, i, &re, &im);
        element(want, i, &wre, &wim);
        if (!close_enough(re, wre, allowed) || !close_enough(im, wim, allowed))
            return cfx__text_format("element %lld is %.9g, not %.9g (largest %.3g)", (long long)i,
                                    re == wre ? im : re, re == wre ? wim : wre, scale);
    }
    return NULL;
}

static const char *compare_tensors(const cfx_tensor *got, const cfx_tensor *want, bool values,
                                   bool strides) {
    if (got->dtype != want->dtype)
        return cfx__text_format("dtype is %s, not %s", cfx_dtype_name(got->dtype),
                                cfx_dtype_name(want->dtype));
    if (!cfx__tensor_same_shape(got, want))
        return cfx__text_format("shape is %s, not %s", cfx__shape_text(got->ndim, got->shape),
                                cfx__shape_text(want->ndim, want->shape));
    if (strides && memcmp(got->stride, want->stride, (size_t)got->ndim * sizeof *got->stride))
        return cfx__text_format("strides are %s, not %s", cfx__shape_text(got->ndim, got->stride),
                                cfx__shape_text(want->ndim, want->stride));
    return values ? compare_values(got, want) : NULL;
}

/* Flattens a result (a value, a tuple, a list) for comparison with the flat list in the file. */
static void flatten(cfx_value v, cfx_list *out) {
    if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            flatten(cfx_as_list(v)->items[i], out);
    else
        cfx_list_append(out, v);
}

static const char *compare_all(cfx_value got, cfx_value want, bool values, bool strides) {
    cfx_value g = cfx_list_value(0, NULL), w = cfx_list_value(0, NULL);
    flatten(got, cfx_as_list(g));
    flatten(want, cfx_as_list(w));
    if (cfx_as_list(g)->len != cfx_as_list(w)->len)
        return cfx__text_format("%lld results, not %lld", (long long)cfx_as_list(g)->len,
                                (long long)cfx_as_list(w)->len);
    for (int64_t i = 0; i < cfx_as_list(w)->len; i++) {
        cfx_value a = cfx_as_list(g)->items[i], b = cfx_as_list(w)->items[i];
        const char *bad = NULL;
        if (a.tag == CFX_TAG_TENSOR && b.tag == CFX_TAG_TENSOR)
            bad = compare_tensors(cfx_as_tensor(a), cfx_as_tensor(b), values, strides);
        else if (cfx_is_number(a) && cfx_is_number(b))
            bad = !values || close_enough(cfx_number(a), cfx_number(b), 1e-4 * fabs(cfx_number(b)))
                      ? NULL
                      : cfx__text_format("it is %s, not %s", cfx_value_repr(a), cfx_value_repr(b));
        else if (!cfx_equal_values(a, b))
            bad = cfx__text_format("it is %s, not %s", cfx_value_type_name(a),
                                   cfx_value_type_name(b));
        if (bad)
            return cfx_as_list(w)->len > 1 ? cfx__text_format("result %lld: %s", (long long)i, bad)
                                           : bad;
    }
    return NULL;
}

static const char *compare(cfx_value got, cfx_value want, bool values) {
    return compare_all(got, want, values, true);
}

/* ---- replaying ------------------------------------------------------------------------------- */

/* What went wrong with a call. A limit that was reached stays, and ends the check. */
static const char *take_error(void) {
    const cfx_error *e = cfx_error_last();
    const char *text = cfx__text_format("%s: %s", cfx_error_kind_name(e->kind), e->message);
    cfx__error_forgive();
    return text;
}

/* Whether fake tensors can say anything of the result: not when it is data, or shaped by data. */
static bool has_fake(cfx_op *op) { return op->shape || op->view || op->decompose; }

typedef cli_check_arguments arguments;

arguments cli_check_decode(session *s, cfx_value call, bool fake) {
    s->fake = fake;
    cfx_value given = cfx_dict_get(cfx_as_dict(call), "kwargs");
    arguments a = {cfx_as_list(decode(s, cfx_dict_get(cfx_as_dict(call), "args"))), cfx_dict_new()};
    for (int64_t i = 0; given.tag == CFX_TAG_DICT && i < cfx_as_dict(given)->len; i++)
        cfx_dict_put(a.kw, cfx_as_dict(given)->entries[i].key,
                     decode(s, cfx_as_dict(given)->entries[i].value));
    s->fake = false;
    return a;
}

static cfx_value perform(cfx_op *op, arguments a) {
    if (!cfx_ok())
        return cfx_bad();
    return cfx_op_do_from((cfx_site){0}, op,
                          (cfx_args){(int)a.args->len, a.args->items, a.kw->len ? a.kw : NULL});
}

const char *cli_check_results(session *s, cfx_op *op, cfx_value call, cfx_value got) {
    /* where strides decide what it gives, PyTorch's were of others */
    const cfx_value want = op->effects & (CFX_LAYOUT | CFX_STORAGE)
                               ? perform(op, cli_check_decode(s, call, false))
                               : decode(s, cfx_dict_get(cfx_as_dict(call), "out"));
    if (!cfx_ok())
        return take_error();
    cfx_value all = cfx_list_value(0, NULL), some = cfx_list_value(0, NULL);
    flatten(want, cfx_as_list(all));
    for (int64_t i = 0; i < cfx_as_list(all)->len; i++) /* a program does not give None */
        if (!cfx_is_none(cfx_as_list(all)->items[i]))
            cfx_list_append(cfx_as_list(some), cfx_as_list(all)->items[i]);
    return cfx_is_none(got) && !cfx_as_list(some)->len ? NULL : compare_all(got, some, true, false);
}

/* The tensors that the call writes to, in the order of the schema. */
static cfx_value written(cfx_op *op, arguments a) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    cfx_value found = cfx_list_value(0, NULL);
    for (int i = 0; i < s->nargs; i++)
        if (s->args[i].writes)
            flatten(i < a.args->len ? a.args->items[i] : cfx_dict_get(a.kw, s->args[i].name),
                    cfx_as_list(found));
    return found;
}

static const char *replay(session *s, cfx_op *op, cfx_value call, bool fake) {
    cfx_value want = decode(s, cfx_dict_get(cfx_as_dict(call), "out"));
    cfx_value after = cfx_dict_get(cfx_as_dict(call), "after");
    arguments a = cli_check_decode(s, call, fake);
    bool before = cfx_set_fake_mode(fake);
    cfx_value got = perform(op, a);
    cfx_set_fake_mode(before);
    bool unknown = fake && cfx__error_unknown(); /* as when indexing by a mask */
    if (!cfx_ok())
        return unknown ? (cfx_error_clear(), NULL) : take_error();
    const char *bad = cfx_is_none(got) && !cfx_as_list(want)->len ? NULL
                                                                 : compare(got, want, !fake);
    if (bad || cfx_is_none(after))
        return bad;
    bad = compare(written(op, a), decode(s, after), !fake);
    return bad ? cfx__text_format("written: %s", bad) : NULL;
}

static const char *replay_error(session *s, cfx_op *op, cfx_value call) {
    const char *want = text_in(call, "error");
    perform(op, cli_check_decode(s, call, false));
    const char *got = cfx_ok() ? "no error" : take_error();
    return strcmp(got, want) ? cfx__text_format("%s\n    not %s", got, want) : NULL;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Every floating-point or complex tensor in v asks for a gradient and is appended to `inputs`. */
static void ask_gradients(cfx_value v, cfx_list *inputs) {
    if (v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            ask_gradients(cfx_as_list(v)->items[i], inputs);
    if (v.tag != CFX_TAG_TENSOR)
        return;
    cfx_dtype d = (cfx_dtype)cfx_as_tensor(v)->dtype;
    if (cfx__dtype_is_float(d) || cfx__dtype_is_complex(d)) {
        cfx_requires_grad(cfx_as_tensor(v), true);
        cfx_list_append(inputs, v);
    }
}

/* A gradient that is None counts as zeros. */
static const char *compare_gradient(cfx_value got, cfx_value want) {
    if (got.tag == CFX_TAG_TENSOR && want.tag == CFX_TAG_TENSOR) {
        if (cfx_as_tensor(got)->dtype != cfx_as_tensor(want)->dtype)
            return cfx__text_format("dtype is %s, not %s",
                                    cfx_dtype_name((cfx_dtype)cfx_as_tensor(got)->dtype),
                                    cfx_dtype_name((cfx_dtype)cfx_as_tensor(want)->dtype));
        if (!cfx__tensor_same_shape(cfx_as_tensor(got), cfx_as_tensor(want)))
            return cfx__text_format(
                "shape is %s, not %s",
                cfx__shape_text(cfx_as_tensor(got)->ndim, cfx_as_tensor(got)->shape),
                cfx__shape_text(cfx_as_tensor(want)->ndim, cfx_as_tensor(want)->shape));
        return compare_values(cfx_as_tensor(got), cfx_as_tensor(want));
    }
    const cfx_tensor *one = got.tag == CFX_TAG_TENSOR    ? cfx_as_tensor(got)
                            : want.tag == CFX_TAG_TENSOR ? cfx_as_tensor(want)
                                                         : NULL;
    for (int64_t i = 0; one && i < one->numel; i++)
        if (cfx__tensor_number(one, i) != 0)
            return got.tag == CFX_TAG_TENSOR ? "there is one, but none flows" : "there is none";
    return NULL;
}

static const char *compare_gradients(cfx_value got, cfx_value want, const char *what) {
    if (!cfx_ok())
        return take_error();
    if (cfx_as_list(got)->len != cfx_as_list(want)->len)
        return cfx__text_format("%lld %ss, not %lld", (long long)cfx_as_list(got)->len, what,
                                (long long)cfx_as_list(want)->len);
    for (int64_t i = 0; i < cfx_as_list(want)->len; i++) {
        const char *bad = compare_gradient(cfx_as_list(got)->items[i], cfx_as_list(want)->items[i]);
        if (bad)
            return cfx__text_format("%s %lld: %s", what, (long long)i, bad);
    }
    return NULL;
}

/* Those of `values` whose numbers `which` has. */
static cfx_value picked(cfx_value values, cfx_value which) {
    cfx_value some = cfx_list_value(0, NULL);
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(which)->len; i++)
        cfx_list_append(cfx_as_list(some),
                        cfx_at(values, cfx_integer(cfx_as_list(which)->items[i])));
    return some;
}

/* The backward pass of a backward pass, to the inputs of both. */
static const char *replay_second(session *s, cfx_value second, cfx_value grads, cfx_value inputs,
                                 cfx_value starts) {
    cfx_value both = cfx_list_value(0, NULL), want = cfx_list_value(0, NULL);
    flatten(inputs, cfx_as_list(both));
    flatten(starts, cfx_as_list(both));
    flatten(decode(s, cfx_dict_get(cfx_as_dict(second), "inputs")), cfx_as_list(want));
    flatten(decode(s, cfx_dict_get(cfx_as_dict(second), "of_cotangents")), cfx_as_list(want));
    cfx_value roots = picked(grads, cfx_dict_get(cfx_as_dict(second), "of_gradients"));
    cfx_value got = cfx_grad(
        roots, both, .grad_outputs = decode(s, cfx_dict_get(cfx_as_dict(second), "cotangents")),
        .allow_unused = true);
    return compare_gradients(got, want, "second gradient");
}

/* The call once more, recorded, and the backward pass from the results that have a cotangent. */
static const char *replay_grad(session *s, cfx_op *op, cfx_value call) {
    cfx_value grad = cfx_dict_get(cfx_as_dict(call), "grad");
    cfx_value second = cfx_dict_get(cfx_as_dict(call), "grad2");
    arguments a = cli_check_decode(s, call, false);
    cfx_value inputs = cfx_list_value(0, NULL), results = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < a.args->len; i++)
        ask_gradients(a.args->items[i], cfx_as_list(inputs));
    for (int64_t i = 0; i < a.kw->len; i++)
        ask_gradients(a.kw->entries[i].value, cfx_as_list(inputs));
    cfx_value starts = decode(s, cfx_dict_get(cfx_as_dict(grad), "cotangents"));
    cfx_value want = decode(s, cfx_dict_get(cfx_as_dict(grad), "inputs"));
    cfx_value unused = cfx_list_value(0, NULL);
    bool twice = !cfx_is_none(second);
    if (twice)
        ask_gradients(starts, cfx_as_list(unused));
    flatten(perform(op, a), cfx_as_list(results));
    cfx_value roots = picked(results, cfx_dict_get(cfx_as_dict(grad), "of_outputs"));
    cfx_value got = cfx_grad(roots, inputs, .grad_outputs = starts, .allow_unused = true,
                             .create_graph = twice);
    const char *bad = compare_gradients(got, want, "gradient");
    return bad || !twice ? bad : replay_second(s, second, got, inputs, starts);
}

void cli_check_failed(session *s, int number, const char *name, const char *how, const char *bad) {
    s->failed++;
    bad = cfx__text_format("%s", bad); /* it may be that of the last error */
    cfx__error_forgive();
    cli_answer_row("failures",
                   cfx_dict_of("line", number, "operator", name, "how", how, "why", bad));
    cli_print("line %d: %s%s: %s\n", number, name, how, bad);
}

static void check_line(session *s, const char *line, size_t len, int number) {
    cfx_value call = cfx__json_parse(line, len, "calls.jsonl");
    const char *name =
        call.tag == CFX_TAG_DICT ? cfx_text(cfx_dict_get(cfx_as_dict(call), "op")) : NULL;
    const char *bad = NULL, *how = "";
    if (!cfx_ok())
        bad = take_error();
    else if (!name)
        bad = "no \"op\" in this line";
    if (name && !cfx__text_glob(s->pattern, name))
        return;
    if (name && s->way == CLI_CHECK_GRAD && cfx_is_none(cfx_dict_get(cfx_as_dict(call), "grad")))
        return;
    cfx_op *op = name ? cfx_op_find(name) : NULL;
    if (name && !op)
        bad = "no such operator";
    bool fails = name && !cfx_is_none(cfx_dict_get(cfx_as_dict(call), "error"));
    if (!bad && cli_check_programs(s)) {
        if (!fails)
            (s->way == CLI_CHECK_ONNX   ? cli_check_written
             : s->way == CLI_CHECK_CORE ? cli_check_core
                                        : cli_check_compiled)(s, op, call, number);
        return;
    }
    if (!bad)
        bad = fails     ? replay_error(s, op, call)
              : s->way == CLI_CHECK_GRAD ? replay_grad(s, op, call)
                        : replay(s, op, call, false);
    if (!bad && s->way != CLI_CHECK_GRAD && !fails && has_fake(op)) {
        bad = replay(s, op, call, true);
        how = " (fake)";
    }
    if (!cfx_ok())
        return;
    if (bad)
        cli_check_failed(s, number, name ? name : "?", how, bad);
    else
        s->passed++;
}

int cli_check(const char *dir, const char *pattern, cli_check_way way, const char *keep) {
    session s = {.pattern = pattern, .way = way, .keep = keep};
    const bool programs = cli_check_programs(&s);
    snprintf(s.folder, sizeof s.folder, "%s", keep ? keep : "");
    if (keep && mkdir(keep, 0777) && errno != EEXIST)
        return cli_wrong("'%s' cannot be made: %s", keep, strerror(errno));
    s.tensors = cfx_safetensors_read(cfx__text_format("%s/tensors.safetensors", dir));
    if (!cfx_ok())
        return cli_trouble();
    const char *path = cfx__text_format("%s/calls.jsonl", dir);
    cfx__file_mapping *f = cfx__file_map(path);
    if (!f)
        return cli_trouble();
    int number = 0;
    const char *const end = f->data + f->size;
    for (const char *line = f->data, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        if (!cfx__limit_time() || !cfx_ok())
            break;
        CFX_SCOPE
        check_line(&s, line, (size_t)(next - line), ++number);
    }
    cfx_drop(f);
    if (way == CLI_CHECK_COMPILED)
        cli_check_built(&s);
    if (s.folder[0] && !keep)
        rmdir(s.folder);
    if (!cfx_ok())
        return cli_trouble();
    cli_print(programs ? "%d passed, %d failed, %d refused\n" : "%d passed, %d failed\n", s.passed,
              s.failed, s.refused);
    if (programs)
        cli_answer("refused", cfx_int(s.refused));
    cli_answer("passed", cfx_int(s.passed));
    cli_answer("failed", cfx_int(s.failed));
    return s.failed ? CLI_DIFFERS : CLI_DONE;
}
