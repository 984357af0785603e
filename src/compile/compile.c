/* cfx_compile_c: prepares a program, plans it and writes it. Start there. */

#include <cfx/ops.h>
#include <cfx/pack.h>
#include <cfx/select.h>

#include "compile.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The caller's inputs in flattened order: those given or the program's samples; NULL: none. */
static const cfx_list *given_inputs(const cfx_program *p, const cfx_compile_options *o) {
    int64_t users = 0;
    for (int i = 0; i < p->ninputs; i++)
        users += p->inputs[i].kind == CFX_IN_USER;
    if (o->inputs.tag == CFX_TAG_LIST)
        return cfx_as_list(o->inputs);
    cfx_list *flat = cfx_as_list(cfx_list_value(0, NULL));
    cfx_value sample = cfx_program_sample_inputs(p);
    if (cfx_is_bad(sample))
        cfx__error_forgive();
    if (sample.tag == CFX_TAG_TUPLE)
        cfx_tree_flatten(sample, flat);
    return flat->len == users ? flat : NULL;
}

/* ---- programs -------------------------------------------------------------------------------- */

static const char *fallback_name(const cfx_compile_options *o) {
    return o->name && *o->name ? o->name : "model";
}

/* A name as the beginning of others, where keywords of C are none. */
static const char *prefix_of(const char *name) {
    const char *own = cfx__c_identifier(name);
    const size_t n = strlen(own);
    return cfx__text_format("%.*s", (int)(n > 1 && own[n - 1] == '_' ? n - 1 : n), own);
}

/* Appends the tensors, numbers and texts that a result is made of; what a node gives several of is
 * taken apart before `end`. */
static void flatten(cfx_node *end, cfx_value v, cfx_list *to) {
    if (v.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < cfx_as_dict(v)->len; i++)
            flatten(end, cfx_as_dict(v)->entries[i].value, to);
    const cfx_result r =
        v.tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(v)) : (cfx_result){0};
    const cfx_list *several = cfx__c_several(r.kind == CFX_RESULT_SEVERAL ? r.value : v);
    for (int64_t i = 0; several && i < several->len; i++) {
        cfx_value item = several->items[i];
        if (v.tag == CFX_TAG_NODE)
            CFX_INSERT_BEFORE(end->graph, end) {
                cfx_node *n = cfx_graph_call(end->graph, "operator.getitem", v, (int)i);
                cfx_node_set_meta(n, "val", item);
                item = cfx_node_value(n);
            }
        flatten(end, item, to);
    }
    if (v.tag != CFX_TAG_DICT && !several)
        cfx_list_append(to, v);
}

/* A program whose results are one after the other in a tuple; scope. Bad, with an error. */
static const cfx_program *flattened(const cfx_program *p) {
    cfx_program *copy = cfx_program_copy(p);
    cfx_node *end = cfx_failed(copy) ? NULL : cfx_graph_output_node(copy->module->graph);
    cfx_value results = cfx_tuple_value(0, NULL);
    if (end && !cfx_program_infer(copy)) /* what each node gives */
        cfx__error_forgive();            /* where it matters, planning will say it */
    if (end)
        flatten(end, cfx_at(end->args, 0), cfx_as_list(results));
    if (end && cfx_ok() && !cfx_equal_values(results, cfx_at(end->args, 0)) &&
        cfx_node_set_arg(end, 0, results))
        cfx_program_sync(copy);
    return copy;
}

/* A program whose results are also what selectors pick, the names of which are noted; scope. Bad,
 * with an error. */
static const cfx_program *tapped(cfx__c *c, const cfx_program *p) {
    cfx_program *copy = cfx_program_copy(p);
    cfx_node *end = cfx_failed(copy) ? NULL : cfx_graph_output_node(copy->module->graph);
    if (!end)
        return copy;
    cfx_value results = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(cfx_at(end->args, 0)); i++)
        cfx_list_append(cfx_as_list(results), cfx_at(cfx_at(end->args, 0), i));
    for (const char *at = c->o.taps; *at && cfx_ok();) {
        const size_t n = strcspn(at, "\n");
        const cfx_value nodes =
            cfx_select_nodes(copy->module->graph, cfx__text_format("%.*s", (int)n, at));
        for (int64_t i = 0; cfx_ok() && i < cfx_len(nodes); i++) {
            const cfx_node *node = cfx_as_node(cfx_at(nodes, i));
            if (node->op != CFX_CALL_FUNCTION || cfx_node_result(node).kind != CFX_RESULT_TENSOR)
                continue;
            const char *name = cfx__text_format("tap_%s", node->name);
            cfx_list_append(cfx_as_list(results), cfx_at(nodes, i));
            VEC_PUSH(c->taps, name);
        }
        at += n + (at[n] != 0);
    }
    if (cfx_ok() && !c->taps.len)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--tap: no node that is picked gives one tensor");
    if (cfx_ok() && cfx_node_set_arg(end, 0, results))
        cfx_program_sync(copy);
    return copy;
}

/* What could not be taken apart: said as others say what has no form. */
static void fail_ready(cfx__c *c) {
    const char *problem = cfx__text_format("%s", cfx_error_last()->message);
    cfx__error_forgive();
    VEC_PUSH(c->problems, problem);
    cfx__c_fail(c);
}

/* Fills w->c, and the samples where a test is asked for; false, with an error. */
static bool write_ready(cfx__c_job *w, const cfx_program *p, bool integers) {
    cfx__c *c = &w->c;
    c->name = prefix_of(fallback_name(&c->o));
    c->upper = cfx__c_upper(c->name);
    p = flattened(p);
    if (c->o.taps && cfx_ok())
        p = tapped(c, p);
    w->source = p;
    c->program = cfx_ok() ? cfx__c_ready(p, integers) : NULL;
    if (!cfx_ok() || cfx_failed(c->program)) {
        if (!cfx_ok() && !c->o.taps)
            fail_ready(c);
        return false;
    }
    const cfx_list *sample = cfx__c_sizes_find(c, p, given_inputs(p, &c->o));
    return sample && cfx_ok() && (c->nvary ? cfx__c_write_sizes(w) : cfx__c_write(w, sample)) &&
           (!c->o.test || cfx__c_samples(w, sample));
}

/* What rounds to bytes has a form around layers in integers alone: a program that has it elsewhere
 * is computed in floats. */
static bool write_somehow(cfx__c_job *w, const cfx_program *p) {
    const cfx_compile_options o = w->c.o;
    if (write_ready(w, p, true))
        return true;
    bool rounds = false;
    cfx_each_node(p->module->graph, n) rounds |=
        n->op == CFX_CALL_FUNCTION && n->target.op && cfx__c_rounds(n->target.op);
    if (!rounds)
        return false;
    cfx__error_forgive();
    cfx__c_job_end(w);
    *w = (cfx__c_job){.c = {.o = o}};
    return write_ready(w, p, false);
}

/* Makes header and source; false, with an error. */
static bool make(cfx__c_job *w, const cfx_program *p, cfx__text *header, cfx__text *source,
                 const char *path) {
    cfx__c *c = &w->c;
    if (!write_somehow(w, p))
        return false;
    if (c->o.weights == CFX_WEIGHTS_AUTO)
        c->o.weights = cfx__c_weights_bytes(c) <= 1 << 20 ? CFX_WEIGHTS_INLINE : CFX_WEIGHTS_FILE;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *stem = cfx__text_format("%.*s", (int)strlen(base) - 2, base);
    for (const char *at = stem; *at; at++)
        if ((unsigned char)*at < 0x20 || strchr("\"\\?*<>", *at)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "'%s' is no name of a header that C could include", stem);
            return false;
        }
    cfx__c_header(c, header);
    cfx__c_source(c, source, cfx__text_format("%s.h", stem), cfx__text_format("%s.bin", stem));
    return cfx_ok();
}

/* Whether what was written to a file has reached the system. */
static bool is_written(FILE *file) { return fflush(file) == 0 && !ferror(file); }

/* Source, header and weights: none is replaced unless there is room for all of them. */
static bool save(const cfx__c *c, const char *path, const char *stem, const cfx__text *header,
                 const cfx__text *source) {
    cfx__file_save text, head, weights;
    const bool apart = c->o.weights == CFX_WEIGHTS_FILE;
    if (!cfx_ok() || !cfx__file_save_open(&text, path))
        return false;
    if (!cfx__file_save_open_with(&head, cfx__text_format("%s.h", stem), &text)) {
        cfx__file_save_close(&text, false);
        return false;
    }
    if (apart && !cfx__file_save_open_with(&weights, cfx__text_format("%s.bin", stem), &text)) {
        cfx__file_save_close_pair(&text, &head, false);
        return false;
    }
    fwrite(source->data, 1, source->len, text.file);
    fwrite(header->data, 1, header->len, head.file);
    if (apart)
        cfx__c_weights_file(c, weights.file);
    const bool fine =
        is_written(text.file) && is_written(head.file) && (!apart || is_written(weights.file));
    if (!fine)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "cannot write '%s': the disk may be full", path);
    const bool kept = !apart || cfx__file_save_close(&weights, fine);
    return cfx__file_save_close_pair(&text, &head, fine && kept) && kept;
}

bool cfx_compile_c(const cfx_program *p, const cfx_compile_options *options, const char *path) {
    static const cfx_compile_options none;
    const size_t len = path ? strlen(path) : 0;
    if (cfx_failed(p))
        return false;
    if (len < 3 || strcmp(path + len - 2, ".c") != 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "C is written to a file whose name ends in .c");
        return false;
    }
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx__c_job w = {.c = {.o = options ? *options : none}};
    cfx__text header = {0}, source = {0};
    const char *stem = cfx__text_format("%.*s", (int)len - 2, path);
    bool fine = make(&w, p, &header, &source, path);
    fine = fine && save(&w.c, path, stem, &header, &source);
    cfx__text_release(&header);
    cfx__text_release(&source);
    cfx__c_job_end(&w);
    cfx_set_grad_mode(before);
    cfx_scope_close(mark);
    return fine;
}

const char *cfx_compile_text(const cfx_program *p, const cfx_compile_options *options) {
    static const cfx_compile_options none;
    if (cfx_failed(p))
        return NULL;
    size_t mark = cfx_scope_open();
    cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    cfx__c_job w = {.c = {.o = options ? *options : none}};
    w.c.o.weights = CFX_WEIGHTS_FILE;
    cfx__text header = {0}, source = {0};
    const bool fine =
        make(&w, p, &header, &source, cfx__text_format("%s.c", prefix_of(fallback_name(&w.c.o))));
    cfx_value out = fine ? cfx_string_value(source.data) : cfx_none();
    cfx__text_release(&header);
    cfx__text_release(&source);
    cfx__c_job_end(&w);
    cfx_set_grad_mode(before);
    return cfx_text(cfx_scope_return_value(mark, out));
}
