/* Text becomes a graph or a GraphModule: which form it is, and what both forms share. */
#include "emit.h"

/* The line of a place in the text, from 1; places are asked for from the first to the last. */
static uint32_t line_of(cfx__parser *p, const char *at) {
    if (!p->counted || at < p->counted)
        p->counted = p->start, p->lines = 0;
    for (; p->counted < at; p->counted++)
        p->lines += *p->counted == '\n';
    return p->lines + 1;
}

/* The target of a call_function is looked up; those of other nodes are text. */
cfx_node *cfx__parser_add_node(cfx__parser *p, cfx__parser_node_text t, cfx_value args,
                               cfx_value kwargs) {
    const char *name = cfx__string_new(t.name, t.name_len)->text;
    cfx_target target = {.name = NULL};
    if (t.op == CFX_CALL_FUNCTION)
        target = cfx__parser_target(p, t.target, t.target_len);
    else
        target.name = cfx__string_new(t.target, t.target_len)->text;
    cfx_node *n = cfx_graph_create(p->g, t.op, target, args, kwargs, name, t.type);
    if (!cfx_ok()) {
        p->failed = true;
        return NULL;
    }
    cfx__node_of(n)->line = line_of(p, t.op == CFX_PLACEHOLDER ? t.target : t.name);
    cfx__parser_bind_node(p, t.name, t.name_len, n);
    return n;
}

/* Strings are kept as they stand; what is no text has no form to be printed in again. */
static void check_characters(cfx__parser *p) {
    uint32_t code;
    size_t n = 1;
    for (const char *at = p->start; at < p->end && n; at += n) {
        n = cfx__utf8_get(at, (size_t)(p->end - at), &code);
        if (!n)
            cfx__parse_fail(p, at, "this byte is not UTF-8");
    }
}

void cfx__parse(cfx__parser *p) {
    check_characters(p);
    if (p->failed)
        return;
    const char *first = p->start + strspn(p->start, " \t\r\n");
    if (!strncmp(first, "graph(", 6)) {
        p->at = first;
        p->g = cfx_graph_new();
        VEC_PUSH(p->modules, ((cfx__parser_module){p->g, NULL, 0}));
        cfx__parse_graph_form(p);
    } else {
        cfx__parse_code_form(p);
    }
}

void cfx__parser_open(cfx__parser *p, const char *text, const char *what) {
    *p = (cfx__parser){.what = what ? what : "text", .start = text, .at = text,
                       .end = text + strlen(text)};
}

void cfx__parser_close(cfx__parser *p) {
    cfx__map_release(&p->nodes);
    cfx__map_release(&p->targets);
    cfx__arena_release(&p->arena);
    cfx__text_release(&p->path);
    VEC_FREE(p->stack);
    VEC_FREE(p->modules);
}

static bool is_text(const char *text) {
    if (!text)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the text to read is NULL");
    return cfx_ok();
}

/* Graphs and modules have no signature: what has one is a program. */
static void want_end(cfx__parser *p) {
    if (p->at < p->end)
        cfx__parse_fail(p, p->at, "this is the text of a program: cfx_program_parse reads it");
}

cfx_graph *cfx_graph_parse(const char *text, const char *what) {
    if (!is_text(text))
        return &cfx__graph_bad;
    size_t mark = cfx_scope_open();
    cfx__parser p;
    cfx__parser_open(&p, text, what);
    cfx__parse(&p);
    want_end(&p);
    cfx_graph *g = p.failed || !cfx_ok() ? &cfx__graph_bad : p.modules.data[0].g;
    cfx__parser_close(&p);
    return cfx_scope_return(mark, g);
}

/* The module number *next of the text, with those that stand inside it; scope. */
static cfx_module *build(const cfx__parser *p, size_t *next) {
    const cfx__parser_module *own = &p->modules.data[(*next)++];
    cfx_module *m = cfx_graph_module(NULL, own->g, own->name);
    while (*next < p->modules.len && p->modules.data[*next].indent > own->indent) {
        const char *name = p->modules.data[*next].name;
        cfx_nn_add(m, name, build(p, next));
    }
    return m;
}

cfx_module *cfx__parser_build(cfx__parser *p) {
    size_t next = 0;
    cfx_module *m = p->failed || !cfx_ok() ? &cfx__module_bad : build(p, &next);
    if (cfx__obj_is_bad(m) || next == p->modules.len)
        return m;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s: class %s stands beside class %s, not in it",
             p->what, p->modules.data[next].name, m->type);
    return &cfx__module_bad;
}

cfx_module *cfx_module_parse(const char *text, const char *what) {
    if (!is_text(text))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx__parser p;
    cfx__parser_open(&p, text, what);
    cfx__parse(&p);
    want_end(&p);
    cfx_module *m = cfx__parser_build(&p);
    cfx__parser_close(&p);
    return cfx_scope_return(mark, m);
}
