/* cfx opt --weights, --lora: other weights in a program, and what did not fit. */
#include "look.h"

#include <math.h>
#include <string.h>

/* "not in the program: 3 tensors of the file: a, b, c"; the first few are named. */
static void say_list(const cfx_dict *report, const char *key, const char *what, const char *of) {
    enum { SHOWN = 8 };
    const cfx_value list = cfx_dict_get(report, key);
    if (list.tag != CFX_TAG_LIST)
        return;
    cfx__text names = {0};
    for (int64_t i = 0; i < cfx_len(list) && i < SHOWN; i++)
        cfx__text_printf(&names, "%s%s", i ? ", " : "", cfx_text(cfx_at(list, i)));
    if (cfx_len(list) > SHOWN)
        cfx__text_printf(&names, " and %lld more", (long long)(cfx_len(list) - SHOWN));
    cli_say("cfx: %s: %lld %s%s%s: %s\n", what, (long long)cfx_len(list),
            *of ? "tensor" : "weight", cfx_len(list) == 1 ? "" : "s", of, names.data);
    cfx__text_release(&names);
    cli_answer(key, list);
}

static void print_count(const cfx_dict *report, const char *key, const char *what) {
    const cfx_value list = cfx_dict_get(report, key);
    const int64_t n = list.tag == CFX_TAG_LIST ? cfx_len(list) : 0;
    if (n)
        cli_print("%lld weight%s %s\n", (long long)n, n == 1 ? "" : "s", what);
    cli_answer(key, list.tag == CFX_TAG_LIST ? list : cfx_list_value(0, NULL));
}

static bool put_file(cfx_program *p, const char *path, const cli_out *out) {
    cfx_dict *report = cfx_dict_new();
    if (!cfx_program_load_weights(p, path, out->force, report))
        return false;
    print_count(report, "loaded", "taken from the file");
    say_list(report, "converted", "converted to the dtype that the program has", "");
    say_list(report, "missing", "not in the file, left as they were", "");
    say_list(report, "unused", "not in the program", " of the file");
    return true;
}

static bool read_alpha(const char *text, double *alpha) {
    char *end;
    *alpha = NAN;
    if (!text)
        return true;
    *alpha = cfx__number_read(text, &end);
    if (end == text || *end || !isfinite(*alpha))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--alpha wants a number, not '%s'", text);
    return cfx_ok();
}

static bool put_adapter(cfx_program *p, const char *path, const char *text) {
    cfx_dict *report = cfx_dict_new();
    double alpha;
    if (cli_is_folder(path))
        path = cfx__text_format("%s/adapter_model.safetensors", path);
    if (!read_alpha(text, &alpha) || !cfx_program_merge_lora(p, path, alpha, report))
        return false;
    print_count(report, "merged", "merged with the adapter");
    print_count(report, "replaced", "replaced by the adapter's own");
    say_list(report, "unused", "not in the program", " of the adapter");
    return true;
}

bool cli_put_weights(cfx_program *p, const char *weights, const char *lora, const char *alpha,
                     const cli_out *out) {
    return (!weights || put_file(p, weights, out)) && (!lora || put_adapter(p, lora, alpha));
}
