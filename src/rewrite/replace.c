/* torch.fx's replace_pattern: all places are found first, then changed one after the other. Start
 * at cfx_replace_pattern_in. */
#include "match.h"

static void matches_free(void *obj) {
    cfx_matches *m = obj;
    for (int i = 0; i < m->len; i++) {
        cfx_drop(m->items[i].nodes);
        cfx_value_drop(m->items[i].replacements);
    }
    cfx__free(m->items);
    cfx_drop(m->pattern);
}

static const cfx__obj_type matches_type = {.name = "matches", .free = matches_free};
static const cfx_matches bad_matches = {
    .head = {.refs = 1, .flags = CFX__BAD, .type = &matches_type}, .pattern = &cfx__graph_bad};

cfx_value cfx_found_get(const cfx_found *f, const char *name) {
    for (int64_t i = 0; f && name && i < f->nodes->len; i++)
        if (!strcmp(cfx_as_node(f->nodes->entries[i].key)->name, name))
            return f->nodes->entries[i].value;
    return cfx_none();
}

/* ---- find ------------------------------------------------------------------------------------ */

typedef struct finding {
    cfx__matcher matcher;
    bool *taken;
    VEC(cfx_found) found;
} finding;

static void add_found(finding *f, cfx_node *anchor) {
    const cfx__pattern *p = f->matcher.pattern;
    cfx_found found = {.anchor = anchor, .nodes = cfx_keep(cfx_dict_new())};
    cfx_each_node(p->graph, n) {
        cfx_value v = *cfx__match_slot(f->matcher.table, n);
        if (n->op == CFX_OUTPUT)
            continue;
        cfx_dict_put(found.nodes, cfx_node_value(n), v);
        if (n->op != CFX_PLACEHOLDER)
            f->taken[cfx__node_of(cfx_as_node(v))->id] = true;
    }
    VEC_PUSH(f->found, found);
}

static cfx_matches *find_all(cfx_graph *g, const cfx__pattern *p, cfx_replace_options o) {
    finding f = {.taken = cfx__alloc0(g->made.len + 1)};
    cfx__matcher_open(&f.matcher, p, g);
    f.matcher.ignore_literals = o.ignore_literals;
    f.matcher.inputs = o.match_placeholder;
    f.matcher.output = o.match_output;
    f.matcher.taken = o.overlapping ? NULL : f.taken;
    f.matcher.ntaken = g->made.len;
    cfx_each_node(g, n) CFX_SCOPE if (cfx__match_at(&f.matcher, n)) add_found(&f, n);
    cfx__matcher_close(&f.matcher);
    cfx__free(f.taken);
    cfx_matches *m = cfx__obj_new(&matches_type, sizeof *m);
    m->pattern = cfx_keep(p->graph);
    for (size_t i = 0; i < f.found.len; i++) {
        bool keep = !o.filter || o.filter(&f.found.data[i], g, o.user);
        if (keep)
            f.found.data[m->len++] = f.found.data[i];
        else
            cfx_drop(f.found.data[i].nodes);
    }
    m->items = f.found.data;
    return m;
}

static cfx__pattern *pattern_of(cfx_source s) {
    return s.text ? cfx__pattern_text(s.text)
           : s.graph ? cfx__pattern_new(s.graph, NULL, false)
                     : cfx__pattern_module(s.module);
}

static bool is_graph_module(const cfx_module *gm) {
    if (gm && gm->graph)
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a pattern is looked for in a GraphModule, not in %s",
             gm ? gm->type : "NULL");
    return false;
}

cfx_matches *cfx_find_pattern_in(cfx_module *gm, cfx_source pattern, cfx_replace_options o) {
    if (!cfx_ok() || !is_graph_module(gm))
        return (cfx_matches *)&bad_matches;
    size_t mark = cfx_scope_open();
    cfx__pattern *p = pattern_of(pattern);
    return cfx_scope_return(mark, p ? find_all(gm->graph, p, o) : (cfx_matches *)&bad_matches);
}

/* ---- replace --------------------------------------------------------------------------------- */

/* A replacement: its graph, and the module whose attributes it names, or NULL. */
typedef struct replacement {
    cfx_graph *graph;
    cfx_module *module;
    bool by_name; /* its inputs are the pattern's by name, not by position */
    cfx__rule_text text;
} replacement;

static bool replacement_of(cfx_source s, const cfx__pattern *p, replacement *out) {
    if (s.text) {
        out->text = (cfx__rule_text){.start = s.text, .at = s.text, .end = s.text + strlen(s.text)};
        out->graph = cfx__pattern_parse(&out->text, CFX__RULE_RESULT, p->graph);
        out->by_name = true;
    } else if (s.graph) {
        out->graph = s.graph;
    } else if (s.module) {
        out->module = s.module->graph ? s.module : cfx_symbolic_trace(s.module);
        out->graph = out->module->graph;
    }
    if (!out->text.start)
        out->text = (cfx__rule_text){.start = "", .at = "", .end = ""};
    if (!out->graph && cfx_ok())
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is nothing to replace the pattern by");
    return out->graph != NULL;
}

static cfx_value renewed(cfx_node *n, void *user) {
    const cfx__successors *s = user;
    while (cfx__node_of(n)->id < s->len && s->by_id[cfx__node_of(n)->id])
        n = s->by_id[cfx__node_of(n)->id];
    return cfx_node_value(n);
}

/* A value as it is now that some nodes have taken the places of others; scope. */
static cfx_value current(cfx_value v, cfx__successors *s) {
    if (v.tag == CFX_TAG_NODE)
        return renewed(cfx_as_node(v), s);
    return cfx__value_scope_own(
        cfx__node_map(cfx__value_scope_own(cfx__graph_freeze(v)), renewed, s));
}

/* What the inputs of the replacement are at one place. False, with an error, where it has others.
 */
static bool inputs_of(const replacement *r, const cfx__pattern *p, const cfx_value *table,
                      cfx_list *out) {
    int n = 0;
    cfx_each_node(r->graph, in) {
        if (in->op != CFX_PLACEHOLDER)
            continue;
        const cfx_node *of = r->by_name   ? cfx__pattern_named(p->graph, in->target.name)
                             : n < p->nwild ? p->wild[n]
                                            : NULL;
        n++;
        if (of)
            cfx_list_append(out, table[cfx__node_of(of)->id]);
    }
    if (!r->by_name && n != p->nwild) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "Placeholder count mismatch: %d vs %d",
                 p->nwild, n);
        return false;
    }
    return true;
}

/* torch.fx's words where a node would name what is nowhere. */
static bool adopt(cfx_module *gm, const replacement *r) {
    cfx_each_node(r->graph, n) {
        const char *path = n->target.name;
        if ((n->op != CFX_CALL_MODULE && n->op != CFX_GET_ATTR) || cfx_module_has(gm, path))
            continue;
        if (!r->module || !cfx_module_has(r->module, path)) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Attempted to create a \"%s\" node during subgraph rewriting with target %s, "
                     "but the referenced attribute does not exist in the replacement GraphModule",
                     cfx_opcode_name(n->op), path);
            return false;
        }
        cfx_value v = cfx_module_attr(r->module, path);
        if (v.tag == CFX_TAG_MODULE)
            v = cfx_module_value(cfx_module_copy(cfx_as_module(v)));
        cfx_module_set_attr(gm, path, v);
    }
    return cfx_ok();
}

static bool replace_one(cfx_module *gm, const cfx__pattern *p, const replacement *r, cfx_found *f,
                        cfx__successors *successors, bool *unsorted) {
    cfx_value *table = cfx__alloc0((size_t)p->len * sizeof *table);
    for (int64_t i = 0; i < f->nodes->len; i++) {
        cfx_node *key = cfx_as_node(f->nodes->entries[i].key);
        cfx_value v = f->nodes->entries[i].value;
        if (key->op == CFX_PLACEHOLDER) {
            cfx_value now = current(v, successors);
            if (v.tag != CFX_TAG_NODE || cfx_as_node(now) != cfx_as_node(v))
                cfx_dict_put(f->nodes, cfx_node_value(key), now);
            v = now;
        }
        *cfx__match_slot(table, key) = v;
    }
    cfx_list *inputs = cfx_as_list(cfx_list_value(0, NULL));
    cfx__splice s = {.graph = gm->graph, .pattern = p, .table = table, .replacement = r->graph,
                     .text = &r->text};
    bool fine = inputs_of(r, p, table, inputs) && adopt(gm, r);
    s.inputs = inputs->items;
    s.ninputs = (int)inputs->len;
    fine = fine && cfx__splice_do(&s, successors);
    *unsorted |= s.unsorted;
    if (fine)
        f->replacements = cfx_value_keep(s.made);
    cfx__free(table);
    return fine;
}

cfx_matches *cfx_replace_pattern_in(cfx_module *gm, cfx_source pattern, cfx_source with,
                                    cfx_replace_options o) {
    if (!cfx_ok() || !is_graph_module(gm))
        return (cfx_matches *)&bad_matches;
    if (o.overlapping) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "places that overlap cannot be replaced");
        return (cfx_matches *)&bad_matches;
    }
    size_t mark = cfx_scope_open();
    replacement r = {0};
    cfx__pattern *p = pattern_of(pattern);
    if (!p || (!o.replacement && !replacement_of(with, p, &r)))
        return cfx_scope_return(mark, (cfx_matches *)&bad_matches);
    cfx_matches *m = find_all(gm->graph, p, o);
    cfx__successors successors = {.len = gm->graph->made.len};
    successors.by_id = cfx__alloc0((successors.len + 1) * sizeof *successors.by_id);
    bool unsorted = false, fine = true;
    for (int i = 0; i < m->len && fine; i++)
        CFX_SCOPE {
            if (o.replacement)
                fine = replacement_of(cfx_source_graph(o.replacement(&m->items[i], gm->graph,
                                                                     o.user)), p, &r);
            fine = fine && replace_one(gm, p, &r, &m->items[i], &successors, &unsorted);
        }
    cfx__free(successors.by_id);
    if (unsorted)
        fine = cfx_graph_sort(gm->graph) && fine;
    if (fine && m->len && with.module)
        cfx_graph_module_prune(gm);
    return cfx_scope_return(mark, fine && cfx_ok() ? m : (cfx_matches *)&bad_matches);
}

/* ---- one node -------------------------------------------------------------------------------- */

enum { MAX_PATTERNS = 1000 }; /* that a thread remembers */

static void *patterns_new(void) { return cfx__alloc0(sizeof(cfx__map)); }

static void patterns_clear(cfx__map *map) {
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].key) {
            cfx__free((char *)map->slots[i].key);
            cfx_drop(map->slots[i].value);
        }
    cfx__map_release(map);
}

static void patterns_free(void *data) {
    patterns_clear(data);
    cfx__free(data);
}

/* The pattern of a text, made once in each thread; NULL, with an error. */
static const cfx__pattern *pattern_for(const char *text) {
    cfx__map *map = cfx__ctx_slot(CFX__SLOT_REWRITE, patterns_new, patterns_free);
    cfx__pattern *p = cfx__map_get(map, text);
    if (p)
        return p;
    size_t mark = cfx_scope_open();
    p = cfx_keep(cfx__pattern_text(text));
    cfx_scope_close(mark);
    if (!p)
        return NULL;
    if (map->len >= MAX_PATTERNS)
        patterns_clear(map);
    size_t n = strlen(text) + 1;
    cfx__map_set(map, memcpy(cfx__alloc(n), text, n), p);
    return p;
}

bool cfx_match_nodes(cfx_node *n, const char *text, ...) {
    if (!n || !n->graph || !text || !cfx_ok())
        return false;
    const cfx__pattern *p = pattern_for(text);
    if (!p)
        return false;
    size_t mark = cfx_scope_open();
    cfx__matcher m;
    cfx__matcher_open(&m, p, n->graph);
    m.whole = false;
    bool found = cfx__match_at(&m, n);
    for (int i = 0; found && i < p->nwild; i++)
        found = cfx__match_slot(m.table, p->wild[i])->tag == CFX_TAG_NODE;
    va_list ap;
    va_start(ap, text);
    for (int i = 0; found && i < p->nwild + p->ncalls; i++) {
        const cfx_node *of = i < p->nwild ? p->wild[i] : p->calls[i - p->nwild];
        cfx_node *is = cfx_as_node(*cfx__match_slot(m.table, of));
        cfx_node **out = is == n ? NULL : va_arg(ap, cfx_node **);
        if (is != n && !out)
            break;
        if (out)
            *out = is;
    }
    va_end(ap);
    cfx__matcher_close(&m);
    cfx_scope_close(mark);
    return found;
}
