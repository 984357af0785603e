/* Rules: patterns with replacements and conditions, read from a text or a table and indexed by
 * the function of their root. Start at cfx_rules_parse; rules_apply.c applies them. */
#include "../base/given.h"
#include "rules.h"

#include <ctype.h>

static void rules_free(void *obj) {
    cfx_rules *r = obj;
    for (size_t i = 0; i < r->rules.len; i++) {
        cfx__rule *rule = &r->rules.data[i];
        cfx_drop(rule->pattern);
        cfx_drop(rule->result);
        for (int k = 0; k < rule->nconditions; k++)
            cfx_drop(rule->conditions[k]);
    }
    VEC_FREE(r->rules);
    VEC_FREE(r->index);
    cfx__arena_release(&r->arena);
}

static const cfx__obj_type rules_type = {.name = "rules", .free = rules_free};
static const cfx_rules bad_rules = {.head = {.refs = 1, .flags = CFX__BAD, .type = &rules_type}};

/* ---- the index ------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    const cfx__rule_entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rule - y->rule;
}

static const cfx__pattern_node *node_of(const cfx__rule *r, const cfx_node *n) {
    return &r->pattern->nodes[cfx__node_of(n)->id];
}

/* What the first arguments of the root have to be, so that most rules are passed over at a glance.
 */
static void note_arguments(cfx__rule *r) {
    const cfx__pattern_node *root = node_of(r, r->pattern->anchors[0].node);
    for (int i = 0; root->schema && i < 2 && i < root->schema->nargs; i++) {
        cfx_value v = root->args[i];
        if (v.tag == CFX_TAG_NODE && !node_of(r, cfx_as_node(v))->wild)
            r->argument[i] = node_of(r, cfx_as_node(v))->key;
    }
    r->commutes = root->commutes;
}

static void make_index(cfx_rules *r) {
    for (size_t i = 0; i < r->rules.len; i++) {
        cfx__rule *rule = &r->rules.data[i];
        cfx__rule_entry e = {node_of(rule, rule->pattern->anchors[0].node)->key, (int)i};
        VEC_PUSH(r->index, e);
        note_arguments(rule);
    }
    if (r->index.len)
        qsort(r->index.data, r->index.len, sizeof *r->index.data, by_key);
}

void cfx__rules_for(const cfx_rules *r, uint64_t key, int *first, int *n) {
    int lo = 0, hi = (int)r->index.len;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (r->index.data[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    *first = lo;
    for (*n = 0; lo + *n < (int)r->index.len && r->index.data[lo + *n].key == key;)
        ++*n;
}

/* ---- one rule -------------------------------------------------------------------------------- */

/* Whether the pattern writes in place: then it says itself in which order. */
static bool writes(const cfx__pattern *p) {
    for (int i = 0; i < p->ncalls; i++)
        if (cfx_node_is_impure(p->calls[i]))
            return true;
    return false;
}

static bool read_pattern(cfx__rule *rule, cfx__rule_text *t) {
    cfx_graph *g = cfx__pattern_parse(t, CFX__RULE_PATTERN, NULL);
    rule->pattern = g ? cfx_keep(cfx__pattern_new(g, NULL, true)) : NULL;
    rule->writes = rule->pattern && writes(rule->pattern);
    return rule->pattern != NULL;
}

static bool read_result(cfx__rule *rule, cfx__rule_text *t) {
    rule->result = cfx_keep(cfx__pattern_parse(t, CFX__RULE_RESULT, rule->pattern->graph));
    return rule->result != NULL;
}

static bool read_condition(cfx__rule *rule, cfx__rule_text *t) {
    if (rule->nconditions == COUNT(rule->conditions)) {
        cfx__rule_fail(t, "it has more than %d conditions: join them by 'and'",
                       COUNT(rule->conditions));
        return false;
    }
    cfx_graph *g = cfx__pattern_parse(t, CFX__RULE_CONDITION, rule->pattern->graph);
    if (g)
        rule->conditions[rule->nconditions++] = cfx_keep(g);
    return g != NULL;
}

/* Adds a rule, whole or in part: what it holds is freed with the rules. */
static bool add(cfx_rules *r, cfx__rule rule, bool fine) {
    VEC_PUSH(r->rules, rule);
    return fine;
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool is_name(char c) { return isalnum((unsigned char)c) || strchr("_-.", c) != NULL; }

/* Where the rule ends that starts before `at`: at the next line that is not indented. */
static const char *rule_end(const char *at, const char *end) {
    for (; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        if (at + 1 < end && !strchr(" \t\r\n#", at[1]))
            return at;
    return end;
}

static bool take_word(cfx__rule_text *t, const char *word) {
    while (t->at < t->end && (isspace((unsigned char)*t->at) || *t->at == '#'))
        t->at += *t->at == '#' ? strcspn(t->at, "\n") : 1;
    size_t n = strlen(word);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n))
        return false;
    t->at += n;
    return true;
}

/* name: pattern -> result, then conditions; `names` are those of the rules before it. */
static bool read_rule(cfx_rules *r, cfx__map *names, cfx__rule_text *t, const char *end) {
    const char *name = t->at;
    while (t->at < end && is_name(*t->at))
        t->at++;
    size_t len = (size_t)(t->at - name);
    if (!len || t->at == end || *t->at != ':' || (t->at + 1 < end && t->at[1] == '=')) {
        cfx__rule_fail(t, "expected a rule, 'name: pattern -> result', not '%.20s'", name);
        return false;
    }
    cfx__rule rule = {.name = cfx__arena_copy(&r->arena, name, len)};
    t->at++;
    t->rule = rule.name;
    t->end = rule_end(t->at, end);
    if (cfx__map_get(names, rule.name))
        cfx__rule_fail(t, "there is a rule of that name already");
    cfx__map_set(names, rule.name, names);
    rule.text = *t;
    if (!cfx_ok() || !read_pattern(&rule, t))
        return add(r, rule, false);
    if (!take_word(t, "->")) {
        cfx__rule_fail(t, "expected '->' and what the pattern becomes");
        return add(r, rule, false);
    }
    bool fine = read_result(&rule, t);
    while (fine && take_word(t, "where"))
        fine = read_condition(&rule, t);
    return add(r, rule, fine);
}

cfx_rules *cfx_rules_parse(const char *text, const char *what) {
    if (!cfx__given((cfx_site){0}, text, "text of the rules") || !cfx_ok())
        return (cfx_rules *)&bad_rules;
    size_t mark = cfx_scope_open();
    cfx_rules *r = cfx__obj_new(&rules_type, sizeof *r);
    cfx__rule_text t = {.start = cfx__arena_copy(&r->arena, text, strlen(text))};
    t.file = cfx__arena_copy(&r->arena, what ? what : "rules", strlen(what ? what : "rules"));
    t.at = t.start;
    const char *end = t.start + strlen(t.start);
    cfx__map names = {0};
    bool fine = true;
    while (fine) {
        t.end = end;
        t.rule = NULL;
        if (take_word(&t, "") && t.at == end)
            break;
        fine = read_rule(r, &names, &t, end);
    }
    cfx__map_release(&names);
    if (fine)
        make_index(r);
    return cfx_scope_return(mark, fine && cfx_ok() ? r : (cfx_rules *)&bad_rules);
}

cfx_rules *cfx_rules_open(const char *path) {
    size_t mark = cfx_scope_open();
    cfx__file_mapping *m = cfx__given((cfx_site){0}, path, "path") ? cfx__file_map(path) : NULL;
    if (!m)
        return cfx_scope_return(mark, (cfx_rules *)&bad_rules);
    const char *text = cfx__string_new(m->data, m->size)->text;
    cfx_drop(m);
    return cfx_scope_return(mark, cfx_rules_parse(text, path));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static cfx__rule_text text_of(const char *name, const char *text) {
    return (cfx__rule_text){.rule = name, .start = text, .at = text, .end = text + strlen(text)};
}

cfx_rules *cfx_rules_table(const cfx_rule *rows, int n) {
    size_t mark = cfx_scope_open();
    cfx_rules *r = cfx__obj_new(&rules_type, sizeof *r);
    bool fine = cfx__given((cfx_site){0}, rows, "table of rules") && cfx_ok();
    for (int i = 0; fine && i < n; i++) {
        const cfx_rule *row = &rows[i];
        cfx__rule rule = {.name = row->name ? row->name : row->pattern, .row = row};
        if (!row->pattern || (!row->replacement && !row->then)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "rule %s has no pattern, or nothing to put in its place",
                     rule.name ? rule.name : "?");
            fine = false;
            break;
        }
        rule.text = text_of(rule.name, row->pattern);
        cfx__rule_text t = rule.text;
        fine = read_pattern(&rule, &t);
        if (fine && row->replacement)
            t = text_of(rule.name, row->replacement), fine = read_result(&rule, &t);
        if (fine && row->where)
            t = text_of(rule.name, row->where), fine = read_condition(&rule, &t);
        fine = add(r, rule, fine);
    }
    if (fine)
        make_index(r);
    return cfx_scope_return(mark, fine && cfx_ok() ? r : (cfx_rules *)&bad_rules);
}
