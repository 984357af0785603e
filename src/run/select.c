/* Selectors: texts that pick nodes, one grammar for all who take one; see cfx/select.h. Start at
 * cfx__run_selects, which asks of one node. */
#include <cfx/select.h>

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "select.h"

/* Whether one of the node's modules is at `path` or matches it as a pattern. */
static bool in_module(const char *path, const cfx_node *n) {
    if (n->op == CFX_CALL_MODULE && cfx__text_glob(path, n->target.name))
        return true;
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    for (int64_t i = 0; stack.tag == CFX_TAG_DICT && i < cfx_as_dict(stack)->len; i++) {
        const char *at = cfx_text(cfx_at(cfx_as_dict(stack)->entries[i].value, 0));
        if (at && cfx__text_glob(path, at))
            return true;
    }
    return false;
}

/* A pattern over what cfx_node_is compares, or over the whole target. */
static bool is_op(const char *pattern, const cfx_node *n) {
    size_t mark = cfx_scope_open();
    const char *name = cfx__node_operator(n);
    bool is = name && (cfx__text_glob(pattern, name) || cfx__text_glob(pattern, n->target.name) ||
                       cfx_node_is(n, pattern));
    cfx_scope_close(mark);
    return is;
}

/* ---- lines of the source --------------------------------------------------------------------- */

/* Whether a file is the one that is meant: "model.py" is "/a/model.py" too. */
static bool is_file(const char *pattern, const char *file, size_t len) {
    const char *whole = cfx__text_format("%.*s", (int)len, file);
    return cfx__text_glob(pattern, whole) ||
           cfx__text_glob(cfx__text_format("*/%s", pattern), whole);
}

/* "model.py", "model.py:12" or "model.py:12-20": the file, and which lines. */
typedef struct lines {
    const char *file; /* scope */
    long first, last;
} lines;

static lines lines_of(const char *text) {
    lines l = {text, 0, LONG_MAX};
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    if (!colon || !isdigit((unsigned char)colon[1]))
        return l;
    long first = strtol(colon + 1, &end, 10), last = first;
    if (*end == '-' && isdigit((unsigned char)end[1]))
        last = strtol(end + 1, &end, 10);
    return *end ? l : (lines){cfx__text_format("%.*s", (int)(colon - text), text), first, last};
}

/* A line on the way to a node: 'File "model.py", line 12, in forward', or "model.c:12". */
typedef struct place {
    const char *file; /* not terminated */
    size_t len;
    long line;
} place;

/* Shows all lines on the way to n; stops where one is the last that is wanted. */
static void each_place(const cfx_node *n, bool (*show)(const place *p, void *user), void *user) {
    const char *source = cfx_text(cfx_node_get_meta(n, "source"));
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    const char *colon = source ? strrchr(source, ':') : NULL;
    if (colon &&
        !show(&(place){source, (size_t)(colon - source), strtol(colon + 1, NULL, 10)}, user))
        return;
    for (const char *p = trace; p && (p = strstr(p, "File \"")); p++) {
        const char *file = p + 6, *quote = strstr(file, "\", line ");
        if (quote &&
            !show(&(place){file, (size_t)(quote - file), strtol(quote + 8, NULL, 10)}, user))
            return;
    }
}

typedef struct asked {
    lines l;
    bool found;
} asked;

static bool ask(const place *p, void *user) {
    asked *a = user;
    a->found = p->line >= a->l.first && p->line <= a->l.last && is_file(a->l.file, p->file, p->len);
    return !a->found;
}

static bool in_source(const char *text, const cfx_node *n) {
    size_t mark = cfx_scope_open();
    asked a = {.l = lines_of(text)};
    each_place(n, ask, &a);
    cfx_scope_close(mark);
    return a.found;
}

bool cfx__run_selects(const char *selector, const cfx_node *n) {
    if (!strncmp(selector, "op:", 3))
        return is_op(selector + 3, n);
    if (!strncmp(selector, "module:", 7))
        return in_module(selector + 7, n);
    if (!strncmp(selector, "source:", 7))
        return in_source(selector + 7, n);
    return cfx__text_glob(selector, n->name);
}

/* ---- what was meant -------------------------------------------------------------------------- */

/* What a selector comes nearest to. */
typedef struct meant {
    const char *word; /* behind "op:" or "module:" */
    const char *near; /* NULL: nothing is near */
    int far;          /* at most so many signs differ */
} meant;

static void consider(meant *m, const char *text) {
    int d = text ? cfx__text_distance(m->word, text, m->far) : m->far + 1;
    if (d <= m->far) {
        m->near = text;
        m->far = d - 1;
    }
}

static void consider_modules(meant *m, const cfx_node *n) {
    consider(m, n->op == CFX_CALL_MODULE ? n->target.name : NULL);
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    for (int64_t i = 0; stack.tag == CFX_TAG_DICT && i < cfx_as_dict(stack)->len; i++) {
        const char *path = cfx_text(cfx_at(cfx_as_dict(stack)->entries[i].value, 0));
        consider(m, path && *path ? path : NULL);
    }
}

/* What a selector of lines comes nearest to: the line of its file, or the file, by its name. */
typedef struct near_place {
    lines l;
    meant file;
    long line, far; /* by so many lines; -1: the file has none */
    bool any;
} near_place;

static bool consider_place(const place *p, void *user) {
    near_place *near = user;
    const long far = p->line < near->l.first ? near->l.first - p->line : p->line - near->l.last;
    const char *whole = cfx__text_format("%.*s", (int)p->len, p->file);
    const char *slash = strrchr(whole, '/');
    near->any = true;
    if (!is_file(near->l.file, p->file, p->len)) {
        consider(&near->file, slash && !strchr(near->file.word, '/') ? slash + 1 : whole);
    } else if (near->far < 0 || far < near->far) {
        near->line = p->line;
        near->far = far;
    }
    return true;
}

static const char *meant_place(const cfx_graph *g, const char *text) {
    near_place near = {.l = lines_of(text), .far = -1};
    near.file = (meant){.word = near.l.file, .far = (int)strlen(near.l.file) / 3 + 1};
    cfx_each_node(g, n) each_place(n, consider_place, &near);
    return !near.any      ? "; no source lines are noted in the program"
           : near.far >= 0 ? cfx__text_format(" (did you mean 'source:%s:%ld'?)", near.l.file,
                                              near.line)
           : near.file.near
               ? cfx__text_format(" (did you mean 'source:%s'?)", near.file.near)
               : "";
}

const char *cfx__run_meant(const cfx_graph *g, const char *selector) {
    const bool op = !strncmp(selector, "op:", 3), module = !strncmp(selector, "module:", 7);
    if (!strncmp(selector, "source:", 7))
        return meant_place(g, selector + 7);
    const size_t kind = op ? 3 : module ? 7 : 0, word = strcspn(selector, ":");
    if (!kind && selector[word] &&
        strspn(selector, "abcdefghijklmnopqrstuvwxyz") == word)
        return "; what stands before a colon is op, module or source";
    meant m = {.word = selector + kind, .far = (int)strlen(selector + kind) / 3 + 1};
    cfx_each_node(g, n) {
        if (module)
            consider_modules(&m, n);
        else
            consider(&m, op ? cfx__node_operator(n) : n->name);
    }
    return m.near ? cfx__text_format(" (did you mean '%.*s%s'?)", (int)kind, selector, m.near) : "";
}

/* ---- all nodes of a graph -------------------------------------------------------------------- */

/* Marks the nodes that a part without ".." or "," picks; false, with an error, where none is. */
static bool mark_part(const cfx_graph *g, const char *part, bool *chosen) {
    bool any = false;
    cfx_each_node(g, n) if (n->op != CFX_OUTPUT && cfx__run_selects(part, n))
        any = chosen[cfx__node_of(n)->id] = true;
    if (!any)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node matches '%s'%s", part,
                 cfx__run_meant(g, part));
    return any;
}

void cfx__run_between(const cfx_graph *g, const bool *from, const bool *to, bool *chosen) {
    bool *below = cfx__alloc0(g->made.len + 1), *above = cfx__alloc0(g->made.len + 1);
    cfx_each_node(g, n) {
        bool *here = &below[cfx__node_of(n)->id];
        *here = !from || from[cfx__node_of(n)->id];
        cfx_each_input(n, u) *here |= below[cfx__node_of(u->node)->id];
    }
    for (cfx_node *n = cfx_graph_last(g); n; n = cfx_node_before(n)) {
        const size_t id = cfx__node_of(n)->id;
        above[id] |= to[id];
        cfx_each_input(n, u) above[cfx__node_of(u->node)->id] |= above[id];
        chosen[id] |= above[id] && below[id] && n->op != CFX_OUTPUT;
    }
    cfx__free(below);
    cfx__free(above);
}

/* "A..B"; without A: from the inputs on; without B: to the results. */
static bool mark_between(const cfx_graph *g, const char *from, const char *to, bool *chosen) {
    bool *first = cfx__alloc0(g->made.len + 1), *last = cfx__alloc0(g->made.len + 1);
    bool *found = cfx__alloc0(g->made.len + 1), any = false;
    bool fine = (!*from || mark_part(g, from, first)) && (!*to || mark_part(g, to, last));
    if (!*to && cfx_graph_output_node(g))
        last[cfx__node_of(cfx_graph_output_node(g))->id] = true;
    if (fine)
        cfx__run_between(g, *from ? first : NULL, last, found);
    for (size_t i = 0; i < g->made.len; i++) {
        any |= found[i];
        chosen[i] |= found[i];
    }
    if (fine && !any)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "nothing lies between '%s' and '%s'", from, to);
    cfx__free(first);
    cfx__free(last);
    cfx__free(found);
    return fine && any;
}

static bool mark_all(const cfx_graph *g, const char *selector, bool *chosen) {
    bool fine = true;
    for (const char *at = selector; *at && fine;) {
        size_t len = strcspn(at, ",");
        const char *part = cfx__string_new(at, len)->text, *dots = strstr(part, "..");
        fine = dots ? mark_between(g, cfx__string_new(part, (size_t)(dots - part))->text, dots + 2,
                                   chosen)
                    : mark_part(g, part, chosen);
        at += len + (at[len] == ',');
    }
    return fine;
}

cfx_value cfx_select_nodes(const cfx_graph *g, const char *selector) {
    if (!g || !selector || !*selector) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no graph, or no selector");
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx_value found = cfx_list_value(0, NULL);
    bool *chosen = cfx__alloc0(g->made.len + 1);
    if (mark_all(g, selector, chosen))
        cfx_each_node(g, n) if (chosen[cfx__node_of(n)->id])
            cfx_list_append(cfx_as_list(found), cfx_node_value(n));
    cfx__free(chosen);
    return cfx_scope_return_value(mark, cfx_ok() ? found : cfx_bad());
}
