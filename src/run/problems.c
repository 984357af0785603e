/* All that is wrong with a program: who looks at what, and the list that comes of it, also as text
 * and as an error. Start at cfx_program_problems. */
#include "../base/given.h"
#include "problems.h"

typedef cfx__finding finding;

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct problems {
    cfx_problems pub;
    VEC(cfx_problem) items;
    cfx__arena arena; /* texts */
} problems;

static void problems_free(void *obj) {
    problems *p = obj;
    VEC_FREE(p->items);
    cfx__arena_release(&p->arena);
}

static const cfx__obj_type problems_type = {.name = "problems", .free = problems_free};
static const problems bad = {
    .pub = {.head = {.refs = 1, .flags = CFX__BAD, .type = &problems_type}}};

static const char *kept(problems *p, const char *text) {
    return text ? cfx__arena_copy(&p->arena, text, strlen(text)) : NULL;
}

/* "true_graph_0.relu"; scope. */
static const char *name_of(const finding *f, const cfx_node *n) {
    return n && *f->path ? cfx__text_format("%s.%s", f->path, n->name) : n ? n->name : NULL;
}

void cfx__problem_add(finding *f, const cfx_node *n, cfx_error_kind kind, const char *fmt, ...) {
    problems *p = (problems *)f->found;
    cfx__text text = {0};
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vshow(&text, fmt, ap); /* names in it may come from a file */
    va_end(ap);
    CFX_SCOPE {
        cfx_problem one = {.kind = kind,
                           .text = kept(p, text.data),
                           .node = kept(p, name_of(f, n)),
                           .line = n ? (int)cfx__node_of(n)->line : 0};
        VEC_PUSH(p->items, one);
    }
    cfx__text_release(&text);
    p->pub.items = p->items.data;
    p->pub.n = (int)p->items.len;
}

void cfx__problem_take(finding *f, const cfx_node *n, const char *before) {
    const cfx_error *e = cfx_error_last();
    if (!e)
        return;
    size_t mark = cfx_scope_open();
    const cfx_error_kind kind = e->kind;
    const char *text = cfx__text_format("%s%s", before, e->message);
    if (cfx__error_forgive())
        cfx__problem_add(f, n, kind, "%s", text);
    cfx_scope_close(mark);
}

/* ---- the list as text ------------------------------------------------------------------------ */

enum { LISTED = 50, NAMED = 3 };

/* How many nodes have problem i; 0 where an earlier one has it, and stands for all. */
static int count_same(const cfx_problems *found, int i) {
    int n = 0;
    for (int k = 0; k < found->n; k++)
        if (!strcmp(found->items[k].text, found->items[i].text)) {
            if (k < i)
                return 0;
            n++;
        }
    return n;
}

/* "m.fx:7", without a file (NULL) nothing. */
static void put_file(cfx__text *out, const char *file, int line) {
    cfx__text_puts_line(out, file ? file : "");
    if (file && line)
        cfx__text_printf(out, ":%d", line);
}

/* "node a, line 7", or with a file "m.fx:7: node a"; of several "5 nodes (a, b, c, ...)". */
static void put_place(cfx__text *out, const cfx_problems *found, int i, int n, const char *file) {
    const cfx_problem *p = &found->items[i];
    put_file(out, file, p->line);
    if (!p->node)
        return;
    cfx__text_puts(out, file ? ": " : "");
    if (n == 1)
        cfx__text_showf(out, "node %s", p->node);
    else
        cfx__text_printf(out, "%d nodes (", n);
    for (int k = i, named = 0; n > 1 && k < found->n && named < NAMED; k++)
        if (!strcmp(found->items[k].text, p->text))
            cfx__text_showf(out, "%s%s", named++ ? ", " : "", found->items[k].node);
    if (n > 1)
        cfx__text_puts(out, n > NAMED ? ", ...)" : ")");
    if (!file && p->line)
        cfx__text_printf(out, ", line %d", p->line);
}

/* Whether the sentence begins with the node itself. */
static bool names_node(const cfx_problem *p) {
    size_t n = p->node ? strlen(p->node) : 0;
    return n && !strncmp(p->text, "node ", 5) && !strncmp(p->text + 5, p->node, n) &&
           p->text[5 + n] == ' ';
}

static void put_problem(cfx__text *out, const cfx_problems *found, int i, int n, const char *file) {
    size_t before = out->len;
    if (!names_node(&found->items[i]))
        put_place(out, found, i, n, file);
    else if (file)
        put_file(out, file, found->items[i].line);
    else if (found->items[i].line)
        cfx__text_printf(out, "line %d", found->items[i].line);
    cfx__text_printf(out, "%s%s", out->len > before ? ": " : "", found->items[i].text);
}

/* Calls fn for each problem that is listed, with how many nodes have it; how many are left. */
typedef void listing_fn(const cfx_problems *found, int i, int n, void *user);

static int list(const cfx_problems *found, listing_fn *fn, void *user) {
    int listed = 0, i = 0;
    for (; i < found->n && listed < LISTED; i++) {
        int n = count_same(found, i);
        if (n)
            fn(found, i, n, user);
        listed += n > 0;
    }
    return found->n - i;
}

typedef struct {
    cfx__text text;
    const char *file;
} writing;

static void write_problem(const cfx_problems *found, int i, int n, void *user) {
    writing *w = user;
    put_problem(&w->text, found, i, n, w->file);
    cfx__text_putc(&w->text, '\n');
}

const char *cfx_problems_str(const cfx_problems *found, const char *file) {
    writing w = {.file = file};
    int left = cfx_failed(found) ? 0 : list(found, write_problem, &w);
    if (left)
        cfx__text_printf(&w.text, "and %d more problems\n", left);
    return cfx__text_take(&w.text);
}

/* The first is the error, the others are notes. */
static void note_problem(const cfx_problems *found, int i, int n, void *user) {
    (void)user;
    cfx__text text = {0};
    if (i) {
        put_problem(&text, found, i, n, NULL);
    } else {
        cfx_fail(found->items[0].kind, (cfx_site){0}, "%s", found->items[0].text);
        cfx__text_puts(&text, found->items[0].node ? "in " : "");
        put_place(&text, found, i, n, NULL);
    }
    if (text.len)
        cfx_error_note("%s", text.data);
    cfx__text_release(&text);
}

static bool report(const cfx_problems *found) {
    if (cfx_failed(found) || !found->n)
        return !cfx_failed(found) && cfx_ok();
    int left = list(found, note_problem, NULL);
    if (left)
        cfx_error_note("and %d more problems", left);
    return false;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* What is looked at: by whom, and how far. */
typedef struct looking {
    finding f;
    const cfx_list *dialects; /* names; NULL: whatever is called */
    const cfx_verifier *verifier; /* instead of those; NULL: none */
    bool calls;               /* what they compute */
} looking;

static void check_structure(const char *path, cfx_module *m, void *user) {
    finding *f = user;
    const cfx_node *where = NULL;
    f->path = path;
    if (m->graph && cfx_ok() &&
        (!cfx__graph_check(m->graph) || !cfx__graph_lint(m->graph, m, &where)))
        cfx__problem_take(f, where, "");
}

/* Whether the graphs hold together, without which nothing more can be asked of them. */
static bool check_structures(finding *f) {
    if (!cfx__program_whole((cfx_site){0}, f->program))
        cfx__problem_take(f, NULL, "");
    else
        cfx_module_walk(f->program->module, check_structure, f);
    f->path = "";
    return cfx_ok() && !f->found->n;
}

static void verify(looking *l, const cfx_node *n) {
    if (l->verifier)
        cfx__verify_node(&l->f, l->verifier, n);
    for (int64_t i = 0; l->dialects && i < l->dialects->len; i++)
        cfx__verify_node(&l->f, cfx__verifier_of(l->dialects->items[i]), n);
}

static void check_nodes(const char *path, cfx_module *m, void *user) {
    looking *l = user;
    l->f.path = path;
    cfx__infer_enter(&l->f.infer, m);
    const bool calls = l->calls && m->graph && cfx__infer_reaches(&l->f.infer, m);
    if (m->graph)
        cfx_each_node(m->graph, n) {
            int before = l->f.found->n;
            size_t mark = cfx_scope_open();
            verify(l, n);
            if (calls && n->op == CFX_CALL_FUNCTION && l->f.found->n == before)
                cfx__verify_call(&l->f, n);
            cfx_scope_close(mark);
            if (!cfx_ok() || !cfx__limit_time())
                break;
        }
    l->f.path = "";
}

/* No size fits a range in which nothing lies. */
static void check_ranges(finding *f) {
    const cfx_dict *ranges = f->program->ranges;
    for (int64_t i = 0; i < ranges->len; i++) {
        cfx_value range = ranges->entries[i].value;
        bool pair = range.tag == CFX_TAG_TUPLE && cfx_as_list(range)->len == 2;
        cfx_value low = pair ? cfx_as_list(range)->items[0] : cfx_none();
        cfx_value high = pair ? cfx_as_list(range)->items[1] : cfx_none();
        if (low.tag == CFX_TAG_INT && high.tag == CFX_TAG_INT &&
            cfx_integer(low) > cfx_integer(high))
            cfx__problem_add(f, NULL, CFX_VALUE_ERROR,
                             "nothing lies in the range of %s, from %lld to %lld",
                             cfx_value_str(ranges->entries[i].key), (long long)cfx_integer(low),
                             (long long)cfx_integer(high));
    }
}

static cfx_problems *look(looking *l, const cfx_program *p) {
    problems *found = cfx__obj_new(&problems_type, sizeof *found);
    l->f = (finding){.program = p, .found = &found->pub, .path = "", .infer = {.program = p}};
    l->f.infer.few = CFX__TRIED_WORLDS;
    if (check_structures(&l->f)) {
        cfx__program_infer_most(p);
        cfx_module_walk(p->module, check_nodes, l);
        cfx__verify_signature(&l->f);
        check_ranges(&l->f);
    }
    cfx__infer_end(&l->f.infer);
    return cfx_ok() ? &found->pub : (cfx_problems *)(uintptr_t)&bad;
}

cfx_problems *cfx_program_problems(const cfx_program *p) {
    if (!cfx_ok() || !cfx__program_given((cfx_site){0}, p))
        return (cfx_problems *)(uintptr_t)&bad;
    if (cfx__program_is_sound(p))
        return cfx__obj_new(&problems_type, sizeof(problems));
    size_t mark = cfx_scope_open();
    looking l = {.dialects = cfx__dialects_of(p), .calls = true};
    cfx_problems *found = cfx_scope_return(mark, look(&l, p));
    if (!cfx_failed(found) && !found->n)
        cfx__program_sound(p);
    return found;
}

bool cfx_program_check(const cfx_program *p) {
    size_t mark = cfx_scope_open();
    bool fine = report(cfx_program_problems(p));
    cfx_scope_close(mark);
    return fine;
}

cfx_problems *cfx_program_verify(const cfx_program *p, const cfx_verifier *v) {
    if (!cfx_ok() || !cfx__program_given((cfx_site){0}, p) ||
        !cfx__given((cfx_site){0}, v, "verifier"))
        return (cfx_problems *)(uintptr_t)&bad;
    size_t mark = cfx_scope_open();
    return cfx_scope_return(mark, look(&(looking){.verifier = v}, p));
}

bool cfx__program_check_graphs(const cfx_program *p) {
    return report(look(&(looking){.calls = false}, p));
}

bool cfx__program_check_results(const cfx_program *p) {
    return report(look(&(looking){.calls = true}, p));
}
