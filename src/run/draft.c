/* Draft export: what an export would refuse is decided by the example, and told. Start at
 * cfx_draft_export_from. */
#include "../trace/draft.h"

#include <cfx/export.h>

#include "../trace/export.h"
#include "run.h"

/* ---- sizes that cannot vary as was said ------------------------------------------------------ */

static bool is_size(cfx_value v) { /* (name, least, most) */
    return v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len == 3 &&
           cfx_as_list(v)->items[0].tag == CFX_TAG_STR;
}

/* What was said of sizes, with Dim.AUTO for every one that was to vary. */
static cfx_value relaxed(cfx_value v) {
    if (is_size(v) || (v.tag == CFX_TAG_STR && strcmp(cfx_text(v), "Dim.STATIC")))
        return cfx_string_value("Dim.AUTO");
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx_value out = cfx__value_like(v);
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            cfx_list_append(cfx_as_list(out), relaxed(cfx_as_list(v)->items[i]));
        return out;
    }
    if (v.tag != CFX_TAG_DICT)
        return v;
    cfx_dict *out = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
        cfx_dict_put(out, cfx_as_dict(v)->entries[i].key,
                     relaxed(cfx_as_dict(v)->entries[i].value));
    return cfx_dict_value(out);
}

/* Whether the export failed for what was said of sizes; that is noted then, and forgiven. */
static bool forgive_sizes(cfx__draft *d) {
    const cfx_error *e = cfx_error_last();
    if (!e || strncmp(e->message, "Constraints violated", 20))
        return false;
    cfx__draft_note(d, "sizes", cfx__text_format("%s", e->message), "", cfx_none());
    return cfx__error_forgive();
}

/* ---- the report ------------------------------------------------------------------------------ */

cfx_value cfx_draft_failures(const cfx_program *p) {
    if (cfx_failed(p))
        return cfx_list_value(0, NULL);
    cfx_value all = cfx_dict_get(p->extra, "draft");
    return all.tag == CFX_TAG_LIST ? all : cfx_list_value(0, NULL);
}

/* A text of several lines, each behind an indent. */
static void put_lines(cfx__text *t, const char *indent, const char *text) {
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        cfx__text_printf(t, "%s%.*s\n", indent, (int)(end - text), text);
    }
}

static void put_failure(cfx__text *t, int64_t i, const cfx_dict *f) {
    const char *expression = cfx_text(cfx_dict_get(f, "expression"));
    const char *line = cfx_text(cfx_dict_get(f, "line"));
    if (!strcmp(cfx_text(cfx_dict_get(f, "kind")), "sizes")) {
        cfx__text_printf(t, "%lld. Constraint violation error.\n"
                            "    The specified input dynamic_shapes spec was found to be incorrect "
                            "during tracing.\n", (long long)i);
        put_lines(t, "    ", expression);
        cfx__text_puts(t, "    Dim.AUTO was taken for all sizes that were to vary instead.\n\n");
        return;
    }
    cfx__text_printf(t, "%lld. Data dependent error.\n"
                        "    When exporting, we were unable to evaluate the value of `%s`.\n",
                     (long long)i, expression);
    if (*line) {
        cfx__text_puts(t, "    This occurred at the following user stacktrace:\n");
        put_lines(t, "        ", line);
    }
    cfx__text_printf(t, "    As a result, it was specialized to a constant (e.g. `%s`), and "
                        "asserts were inserted into the graph.\n"
                        "    Please add `torch._check(...)` to the original code to assert this "
                        "data-dependent assumption.\n\n",
                     cfx_text(cfx_dict_get(f, "value")));
}

const char *cfx_draft_report(const cfx_program *p) {
    static const char rule[] =
        "#####################################################################################\n";
    cfx__text t = {0};
    size_t mark = cfx_scope_open();
    const cfx_list *all = cfx_as_list(cfx_draft_failures(p));
    if (!all->len)
        cfx__text_printf(&t, "%sCongratulations: No issues are found during export, and it was "
                             "able to soundly produce a graph.\n%s", rule, rule);
    else
        cfx__text_printf(&t, "%sWARNING: %lld issue(s) found during export, and it was not able to "
                             "soundly produce a graph.\nPlease follow the instructions to fix the "
                             "errors.\n%s\n", rule, (long long)all->len, rule);
    for (int64_t i = 0; i < all->len; i++)
        put_failure(&t, i + 1, cfx_as_dict(all->items[i]));
    cfx_scope_close(mark);
    return cfx__text_take(&t);
}

/* ---- export ---------------------------------------------------------------------------------- */

/* A draft runs on what it was made of: else it is none. */
static bool takes_example(cfx_program *p, cfx_value args, cfx_value kwargs) {
    size_t mark = cfx_scope_open();
    cfx_value a = cfx__draft_copied(args), kw = cfx__draft_copied(kwargs);
    cfx_program *copy = cfx_program_copy(p); /* it may write to its buffers */
    cfx_program_run_with((cfx_site){0}, copy, &cfx_interpreter, NULL,
                         (cfx_args){(int)cfx_as_list(a)->len, cfx_as_list(a)->items,
                                    cfx_as_dict(kw)->len ? cfx_as_dict(kw) : NULL});
    cfx_scope_close(mark);
    if (!cfx_ok())
        cfx_error_note("when the draft ran on the example");
    return cfx_ok();
}

cfx_program *cfx_draft_export_from(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                                   cfx_value dynamic, cfx_export_options options) {
    cfx__draft d;
    if (!cfx__module_given(m))
        return &cfx__program_bad;
    if (cfx_is_none(args))
        args = cfx_tuple_value(0, NULL);
    if (cfx_is_none(kwargs))
        kwargs = cfx_dict_value(cfx_dict_new());
    if (args.tag != CFX_TAG_TUPLE || kwargs.tag != CFX_TAG_DICT) /* which says so itself */
        return cfx_export_from(at, m, args, kwargs, dynamic, options);
    size_t mark = cfx_scope_open();
    cfx_program *p = &cfx__program_bad;
    if (cfx__draft_begin(&d, m, args, kwargs)) {
        p = cfx__export_program(at, m, args, kwargs, dynamic, options, &d);
        if (!cfx_ok() && forgive_sizes(&d))
            p = cfx__export_program(at, m, args, kwargs, relaxed(dynamic), options, &d);
    }
    if (cfx_ok() && d.failures->len) {
        cfx_dict_set(p->extra, "draft", cfx_list_value(d.failures->len, d.failures->items));
        takes_example(p, args, kwargs);
    }
    cfx__draft_end(&d);
    return cfx_scope_return(mark, cfx_ok() ? p : &cfx__program_bad);
}
