/* From graph to items: a box for each node, a frame for each call of a module, frames for the
 * sub-graphs of cond and loops. Then: which frames are open.
 *
 * A module is a run of nodes whose metadata names it, so a module that is left and entered again
 * has two frames. Nodes without such metadata belong where both of their neighbours do. */
#include "draw.h"

#include <limits.h>

#include "../run/select.h"

/* A metadata entry of a node, or None; borrowed. Nodes have few, and most are asked for several: a
 * walk is faster than hashing. */
static cfx_value meta(const cfx_node *n, const char *key) {
    for (int64_t i = 0; n->meta && i < n->meta->len; i++) {
        const char *at = cfx_text(n->meta->entries[i].key);
        if (at && !strcmp(at, key))
            return n->meta->entries[i].value;
    }
    return cfx_none();
}

bool cfx__draw_put_source(cfx__text *out, const cfx_node *n) {
    const char *source = cfx_text(meta(n, "source"));
    const char *trace = cfx_text(meta(n, "stack_trace"));
    const char *last = source;
    size_t len, last_len = source ? strlen(source) : 0;
    for (const char *at = source ? NULL : trace, *next; (next = cfx__draw_next_line(at, &len));
         at = next) {
        const char *file = at + strspn(at, " ");
        if (strncmp(file, "File \"", 6))
            continue;
        last = file;
        last_len = (size_t)(at + len - file);
        if (next[0] && next[strspn(next, " ")] != 'F') /* and the line of code below */
            last_len += 1 + strcspn(next, "\n");
    }
    cfx__text_add(out, last, last_len);
    return last != NULL;
}

static int add_item(cfx__draw_scene *s, cfx__draw_item_kind kind, int parent, int sheet) {
    cfx__draw_item i = {.kind = (uint8_t)kind,
                   .graph = sheet,
                   .parent = parent,
                   .first = -1,
                   .last = -1,
                   .next = -1,
                   .nodes = kind == CFX__ITEM_BOX || kind == CFX__ITEM_HOLDER};
    VEC_PUSH(s->items, i);
    return (int)s->items.len - 1;
}

static void close_item(cfx__draw_scene *s, int i) { s->items.data[i].end = (int)s->items.len; }

/* ---- what is folded ------------------------------------------------------------------------ */

cfx_module *cfx__draw_subgraph(const cfx_module *owner, const cfx_node *n) {
    if (!owner || (n->op != CFX_GET_ATTR && n->op != CFX_CALL_MODULE))
        return NULL;
    cfx_module *m = cfx_module_find(owner, n->target.name);
    return m && m->graph ? m : NULL;
}

/* The sub-graph that an input stands for, or NULL. */
static cfx_module *folded_graph(const cfx__draw_sheet *sheet, const cfx_node *n) {
    uint32_t id = cfx__node_of(n)->id;
    return sheet->item[id] == CFX__FOLDED ? sheet->fold[id].graph : NULL;
}

static const char *kind_name(cfx_input_kind kind) {
    switch (kind) {
    case CFX_IN_PARAMETER:
        return "parameter";
    case CFX_IN_BUFFER:
        return "buffer";
    case CFX_IN_CONSTANT:
        return "constant";
    case CFX_IN_OBJECT:
        return "object";
    case CFX_IN_TOKEN:
        return "token";
    default:
        return NULL;
    }
}

static void fold(cfx__draw_sheet *sheet, const cfx_node *n, cfx__draw_fold f) {
    sheet->item[cfx__node_of(n)->id] = CFX__FOLDED;
    sheet->fold[cfx__node_of(n)->id] = f;
}

/* `given` tells for each placeholder of a sub-graph what is folded outside, or is NULL. */
static void fold_all(cfx__draw_sheet *sheet, const cfx__draw_fold *const *given, int ngiven) {
    int k = 0;
    cfx_each_node(sheet->graph, n) {
        if (n->op == CFX_GET_ATTR) {
            cfx_value v =
                sheet->module ? cfx_module_attr(sheet->module, n->target.name) : cfx_none();
            fold(sheet, n,
                 (cfx__draw_fold){.target = n->target.name,
                             .tensor = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL,
                             .kind = "attribute",
                             .graph = cfx__draw_subgraph(sheet->module, n),
                             .last = -1});
        }
        if (n->op != CFX_PLACEHOLDER)
            continue;
        if (sheet->program && k < sheet->program->ninputs) {
            const cfx_input_spec *spec = &sheet->program->inputs[k];
            if (kind_name(spec->kind))
                fold(sheet, n,
                     (cfx__draw_fold){.target = spec->target ? spec->target : n->name,
                                 .tensor = cfx_program_tensor(sheet->program, spec),
                                 .kind = kind_name(spec->kind),
                                 .last = -1});
        } else if (k < ngiven && given[k]) {
            fold(sheet, n, *given[k]);
        }
        k++;
    }
}

/* ---- focus --------------------------------------------------------------------------------- */

enum { AROUND = 2 }; /* steps from the nodes in focus to the last that is drawn */

static bool selects(const char *selector, const cfx_module *owner, const cfx_node *n, int deep) {
    if (cfx__run_selects(selector, n))
        return true;
    const cfx_module *m = deep < CFX__MAX_NESTING ? cfx__draw_subgraph(owner, n) : NULL;
    if (m)
        cfx_each_node(m->graph, k) if (selects(selector, m, k, deep + 1)) return true;
    if (n->op != CFX_GET_ATTR)
        cfx_each_input(n, u) if (u->node->op == CFX_GET_ATTR &&
                                 selects(selector, owner, u->node, deep + 1)) return true;
    return false;
}

static void come_near(uint8_t *far, const cfx_node *n, int step) {
    uint8_t *at = &far[cfx__node_of(n)->id];
    *at = *at > step ? (uint8_t)step : *at;
}

/* Steps from the focus up to what feeds it, or down to what it feeds: not up and down again, which
 * would bring in all that a shared value (a mask, a table) feeds elsewhere. */
static void spread(const cfx__draw_sheet *sheet, uint8_t *far, bool up) {
    size_t n = sheet->graph->made.len;
    uint8_t *own = cfx__alloc(n ? n : 1);
    for (size_t i = 0; i < n; i++)
        own[i] = far[i] ? AROUND + 1 : 0;
    for (int step = 0; step < AROUND; step++)
        cfx_each_node(sheet->graph, at) {
            uint32_t id = cfx__node_of(at)->id;
            if (own[id] != step || sheet->item[id] == CFX__FOLDED)
                continue;
            if (up)
                cfx_each_input(at, u) come_near(own, u->node, step + 1);
            else
                cfx_each_user(at, u) come_near(own, u->user, step + 1);
        }
    for (size_t i = 0; i < n; i++)
        far[i] = own[i] < far[i] ? own[i] : far[i];
    cfx__free(own);
}

/* How far each node is from the focus, up to AROUND; more: left out. NULL, with an error, when no
 * node is in it. The caller frees. */
static uint8_t *distances(const cfx__draw_sheet *sheet, const char *selector, const char *name) {
    uint8_t *far = cfx__alloc(sheet->graph->made.len);
    memset(far, AROUND + 1, sheet->graph->made.len);
    bool any = false;
    cfx_each_node(sheet->graph, n) {
        if (!selects(selector, sheet->module, n, 0))
            continue;
        any = true;
        far[cfx__node_of(n)->id] = 0;
    }
    if (!any) {
        cfx__free(far);
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node of %s matches '%s'%s", name, selector,
                 cfx__run_meant(sheet->graph, selector));
        return NULL;
    }
    spread(sheet, far, true);
    spread(sheet, far, false);
    return far;
}

/* ---- modules ------------------------------------------------------------------------------- */

/* One level of the modules around a node. */
typedef struct level {
    const char *key, *path, *type; /* type may be NULL */
    size_t key_len, path_len;
} level;

typedef struct levels {
    level *data;
    size_t len, cap;
    const char *root; /* the type of the root, where metadata tells it */
} levels;

/* The modules around n, outermost first, the root left out; false when nothing tells. */
static bool levels_of(const cfx_node *n, levels *out) {
    out->len = 0;
    cfx_value stack = meta(n, "nn_module_stack");
    if (stack.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < cfx_as_dict(stack)->len; i++) {
            cfx_value v = cfx_as_dict(stack)->entries[i].value;
            bool pair =
                (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST) && cfx_as_list(v)->len == 2;
            const char *key = cfx_text(cfx_as_dict(stack)->entries[i].key);
            const char *path = pair ? cfx_text(cfx_as_list(v)->items[0]) : NULL;
            if (!key || !path || cfx__path_is_no_module(path))
                continue;
            if (!*path) {
                out->root = cfx_text(cfx_as_list(v)->items[1]);
                continue;
            }
            level l = {key, path, cfx_text(cfx_as_list(v)->items[1]), strlen(key), strlen(path)};
            VEC_PUSH(*out, l);
        }
        return true;
    }
    if (n->op != CFX_CALL_MODULE)
        return false;
    const char *path = n->target.name;
    for (const char *dot = path; (dot = strchr(dot, '.')); dot++) {
        level l = {path, path, NULL, (size_t)(dot - path), (size_t)(dot - path)};
        VEC_PUSH(*out, l);
    }
    return true;
}

typedef struct builder {
    cfx__draw_scene *s;
    int sheet;
    VEC(int) open;         /* the frames that are open, outermost first */
    levels now, next;      /* scratch; next: of the next node that tells */
    const cfx_node *known; /* that node; NULL: none is left */
    bool looked;           /* known is up to date */
    int deep;              /* graphs around this one */
} builder;

static bool same_level(const cfx__draw_item *i, const level *l) {
    return strlen(i->key) == l->key_len && !memcmp(i->key, l->key, l->key_len);
}

/* How many of the open frames are in `l` too. */
static size_t common(const builder *b, const levels *l) {
    size_t k = 0;
    while (k < b->open.len && k < l->len &&
           same_level(cfx__draw_item_at(b->s, b->open.data[k]), &l->data[k]))
        k++;
    return k;
}

static void close_to(builder *b, size_t n) {
    while (b->open.len > n)
        close_item(b->s, b->open.data[--b->open.len]);
}

static int top(const builder *b, int root) {
    return b->open.len ? b->open.data[b->open.len - 1] : root;
}

static void open_level(builder *b, int root, const level *l) {
    cfx__draw_scene *s = b->s;
    int i = add_item(s, CFX__ITEM_MODULE, top(b, root), b->sheet);
    cfx__draw_item *item = cfx__draw_item_at(s, i);
    item->key = cfx__arena_copy(&s->arena, l->key, l->key_len);
    item->path = cfx__arena_copy(&s->arena, l->path, l->path_len);
    item->type = l->type;
    if (!l->type) { /* from the path of a call_module: ask the module itself */
        const cfx_module *owner = s->sheets.data[b->sheet].module;
        const cfx_module *m = owner ? cfx_module_find(owner, item->path) : NULL;
        item->type = m ? m->type : NULL;
    }
    uintptr_t calls = (uintptr_t)cfx__map_get(&s->calls, item->path) + 1;
    cfx__map_set(&s->calls, item->path, (void *)calls);
    item->call = (int)calls;
    VEC_PUSH(b->open, i);
}

/* Opens and closes frames so that the next item lands where n belongs. */
static void enter(builder *b, int root, const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT) {
        close_to(b, 0);
        return;
    }
    if (levels_of(n, &b->now)) {
        b->looked = b->looked && b->known != n;
        close_to(b, common(b, &b->now));
        for (size_t k = b->open.len; k < b->now.len; k++)
            open_level(b, root, &b->now.data[k]);
        return;
    }
    if (!b->looked) {
        b->looked = true;
        b->known = n->next;
        while (b->known && !levels_of(b->known, &b->next))
            b->known = b->known->next;
        if (!b->known)
            b->next.len = 0;
    }
    close_to(b, common(b, &b->next));
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void build(cfx__draw_scene *s, int root, int sheet, const uint8_t *far, int deep);

static int add_sheet(cfx__draw_scene *s, cfx__draw_sheet sheet, const cfx__draw_fold *const *given,
                     int ngiven) {
    size_t n = sheet.graph->made.len ? sheet.graph->made.len : 1;
    sheet.item = cfx__alloc0(n * sizeof *sheet.item);
    sheet.mark = cfx__alloc0(n * sizeof *sheet.mark);
    sheet.family = cfx__alloc0((size_t)sheet.graph->nrows + 1);
    sheet.fold = cfx__alloc0(n * sizeof *sheet.fold);
    fold_all(&sheet, given, ngiven);
    VEC_PUSH(s->sheets, sheet);
    return (int)s->sheets.len - 1;
}

typedef VEC(const cfx__draw_fold *) operands;

/* Adds the values of v in order: what is folded, or NULL for any other. */
static void flatten(const cfx__draw_sheet *sheet, cfx_value v, operands *out) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            flatten(sheet, cfx_as_list(v)->items[i], out);
        return;
    }
    const cfx__draw_fold *f = NULL;
    if (v.tag == CFX_TAG_NODE && sheet->item[cfx__node_of(cfx_as_node(v))->id] == CFX__FOLDED)
        f = &sheet->fold[cfx__node_of(cfx_as_node(v))->id];
    VEC_PUSH(*out, f);
}

/* What the placeholders of the sub-graphs of n get: the values after the last graph argument. */
static operands operands_of(const cfx__draw_sheet *sheet, const cfx_node *n) {
    operands all = {0};
    cfx_list *args = cfx_as_list(n->args);
    int64_t from = 0;
    for (int64_t i = 0; i < args->len; i++)
        if (args->items[i].tag == CFX_TAG_NODE && folded_graph(sheet, cfx_as_node(args->items[i])))
            from = i + 1;
    for (int64_t i = from; i < args->len; i++)
        flatten(sheet, args->items[i], &all);
    return all;
}

static int placeholders(const cfx_graph *g) {
    int k = 0;
    cfx_each_node(g, n) k += n->op == CFX_PLACEHOLDER;
    return k;
}

/* A sub-graph as a frame inside its node. */
static void add_subgraph(cfx__draw_scene *s, int holder, const cfx_node *n, const char *name,
                         cfx_module *m, int deep) {
    int outer = cfx__draw_item_at(s, holder)->graph;
    operands given = operands_of(&s->sheets.data[outer], n);
    const char *path = s->sheets.data[outer].prefix;
    path = cfx__text_format("%s%s.%s.", path, n->name, name);
    bool fits = given.len == (size_t)placeholders(m->graph);
    int sheet = add_sheet(s,
                          (cfx__draw_sheet){.graph = m->graph,
                                       .module = m,
                                       .prefix = cfx__arena_copy(&s->arena, path, strlen(path))},
                          given.data, fits ? (int)given.len : 0);
    VEC_FREE(given);
    int i = add_item(s, CFX__ITEM_GRAPH, holder, sheet);
    cfx__draw_item_at(s, i)->path = name;
    build(s, i, sheet, NULL, deep + 1);
    close_item(s, i);
}

static void add_node(builder *b, int root, cfx_node *n, bool context) {
    cfx__draw_scene *s = b->s;
    cfx_module *owner = s->sheets.data[b->sheet].module;
    cfx_module *called = n->op == CFX_CALL_MODULE ? cfx__draw_subgraph(owner, n) : NULL;
    bool holds = called != NULL;
    cfx_each_input(n, u) holds |= folded_graph(&s->sheets.data[b->sheet], u->node) != NULL;
    holds &= b->deep < CFX__MAX_NESTING && n->op != CFX_OUTPUT;
    int i = add_item(s, holds ? CFX__ITEM_HOLDER : CFX__ITEM_BOX, top(b, root), b->sheet);
    cfx__draw_item_at(s, i)->node = n;
    cfx__draw_item_at(s, i)->context = context;
    cfx__draw_item_at(s, i)->family = (uint8_t)cfx__draw_family_of(&s->sheets.data[b->sheet], n);
    s->sheets.data[b->sheet].item[cfx__node_of(n)->id] = i;
    if (holds) {
        if (called)
            add_subgraph(s, i, n, n->target.name, called, b->deep);
        cfx_each_input(n, u) {
            cfx_module *m = folded_graph(&s->sheets.data[b->sheet], u->node);
            if (m)
                add_subgraph(s, i, n, u->node->target.name, m, b->deep);
        }
    }
    close_item(s, i);
}

static void build(cfx__draw_scene *s, int root, int sheet, const uint8_t *far, int deep) {
    builder b = {.s = s, .sheet = sheet, .deep = deep};
    cfx_each_node(s->sheets.data[sheet].graph, n) {
        int *item = &s->sheets.data[sheet].item[cfx__node_of(n)->id];
        if (*item == CFX__FOLDED)
            continue;
        if (far && far[cfx__node_of(n)->id] > AROUND) {
            *item = CFX__LEFT_OUT;
            continue;
        }
        enter(&b, root, n);
        add_node(&b, root, n, far && far[cfx__node_of(n)->id]);
    }
    close_to(&b, 0);
    cfx__draw_item_at(s, root)->type = b.now.root;
    VEC_FREE(b.open);
    VEC_FREE(b.now);
    VEC_FREE(b.next);
}

/* ---- open and closed ----------------------------------------------------------------------- */

/* Frames of modules with one thing in them are no frames: what is in them takes their place, and a
 * box their name. Counts the nodes in each on the way. */
static void dissolve(cfx__draw_scene *s) {
    cfx__draw_item *items = s->items.data;
    int n = (int)s->items.len;
    int *kids = cfx__alloc0((size_t)n * sizeof *kids);
    for (int i = n - 1; i > 0; i--) {
        kids[items[i].parent]++;
        items[items[i].parent].first = i; /* the first child in the end, and the only one if so */
        items[items[i].parent].nodes += items[i].nodes;
    }
    for (int i = n - 1; i > 0; i--) {
        if (items[i].kind != CFX__ITEM_MODULE || kids[i] != 1)
            continue;
        cfx__draw_item *child = &items[items[i].first], *parent = &items[items[i].parent];
        child->parent = items[i].parent;
        if (parent->first == i)
            parent->first = items[i].first;
        if (!child->path && child->kind != CFX__ITEM_GRAPH) {
            child->path = items[i].path;
            child->type = items[i].type;
            child->call = items[i].call;
        }
        items[i].gone = true;
    }
    cfx__free(kids);
}

/* Links the children of each frame. */
static void link_items(cfx__draw_scene *s) {
    cfx__draw_item *items = s->items.data;
    int n = (int)s->items.len;
    for (int i = 0; i < n; i++)
        items[i].first = items[i].last = items[i].next = -1;
    for (int i = 1; i < n; i++) {
        cfx__draw_item *parent = &items[items[i].parent];
        *(parent->last < 0 ? &parent->first : &items[parent->last].next) = i;
        parent->last = i;
        bool group = items[i].kind == CFX__ITEM_GRAPH || items[i].kind == CFX__ITEM_REPEAT ||
                     items[i].kind == CFX__ITEM_ASIDE;
        items[i].depth = parent->depth + !group;
    }
}

/* Of blocks that repeat the first is drawn; items of the others stand behind those of the first. */
static void hide_repeats(cfx__draw_scene *s) {
    cfx__draw_item *items = s->items.data;
    for (int i = 1; i < (int)s->items.len; i++) {
        if (items[i].kind != CFX__ITEM_REPEAT || items[i].hidden)
            continue;
        int first = items[i].first, size = items[first].end - first;
        for (int b = items[first].next; b >= 0; b = items[b].next) {
            if (items[b].end - b != size)
                continue;
            for (int k = 0; k < size; k++) {
                items[b + k].hidden = true;
                items[b + k].like = first + k;
            }
        }
    }
}

/* The depth at which modules are closed: the deepest that leaves a readable number of boxes. */
static int choose_depth(const cfx__draw_scene *s) {
    if (s->options->all || s->options->form == CFX_HTML)
        return INT_MAX;
    if (s->options->depth > 0)
        return s->options->depth;
    int deepest = 0;
    for (size_t i = 0; i < s->items.len; i++)
        deepest = s->items.data[i].depth > deepest ? s->items.data[i].depth : deepest;
    int *boxes = cfx__alloc0((size_t)(deepest + 2) * 2 * sizeof *boxes);
    int *frames = boxes + deepest + 2;
    for (size_t i = 1; i < s->items.len; i++) {
        const cfx__draw_item *it = &s->items.data[i];
        if (it->kind != CFX__ITEM_GRAPH && it->kind != CFX__ITEM_REPEAT && !it->hidden)
            (it->kind == CFX__ITEM_BOX ? boxes : frames)[it->depth]++;
    }
    int best = 1, seen = boxes[0];
    for (int d = 1; d <= deepest + 1; d++) {
        seen += boxes[d];
        if (seen + frames[d] <= CFX__READABLE)
            best = d;
    }
    cfx__free(boxes);
    return best > deepest ? INT_MAX : best;
}

static void open_frames(cfx__draw_scene *s) {
    cfx__draw_item *items = s->items.data;
    s->depth = choose_depth(s);
    items[0].open = items[0].seen = true;
    for (int i = 1; i < (int)s->items.len; i++) {
        const cfx__draw_item *parent = &items[items[i].parent];
        items[i].seen = parent->seen && parent->open && !items[i].hidden;
        items[i].shown = items[i].hidden ? items[items[i].like].shown
                         : items[i].seen ? i
                                         : parent->shown;
        items[i].open = items[i].kind == CFX__ITEM_GRAPH ||
                        (items[i].kind != CFX__ITEM_BOX && items[i].depth < s->depth);
        if (!items[i].node && items[i].kind != CFX__ITEM_GRAPH)
            items[i].family = CFX__FAMILY_MODULE;
        s->boxes += items[i].seen && (!items[i].open || items[i].kind == CFX__ITEM_HOLDER);
    }
}

bool cfx__draw_tree(cfx__draw_scene *s, cfx_graph *g, cfx_module *gm, cfx_program *p) {
    size_t mark = cfx_scope_open();
    int sheet = add_sheet(
        s, (cfx__draw_sheet){.graph = g, .module = gm, .program = p, .prefix = ""}, NULL, 0);
    uint8_t *far = NULL;
    if (s->options->focus && s->options->form != CFX_HTML) {
        far = distances(&s->sheets.data[sheet], s->options->focus, s->name);
        if (!far) {
            cfx_scope_close(mark);
            return false;
        }
    }
    add_item(s, CFX__ITEM_GRAPH, -1, sheet);
    build(s, 0, sheet, far, 0);
    close_item(s, 0);
    if (!s->options->name && s->items.data[0].type)
        s->name = cfx__draw_last_part(s->items.data[0].type);
    cfx__free(far);
    dissolve(s);
    if (s->options->form == CFX_HTML)
        cfx__draw_find_sides(s);
    cfx__draw_compact(s);
    link_items(s);
    if (s->groups && s->options->form == CFX_SVG)
        hide_repeats(s);
    open_frames(s);
    cfx_scope_close(mark);
    return true;
}
