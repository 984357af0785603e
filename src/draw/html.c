/* The viewer's page: the program of src/draw/view, which tools/genview made one text of, and the
 * scene as JSON for it. Everything is laid out open here; the viewer takes over ranks and orders
 * and works out coordinates for what it shows open.
 *
 * Items stand as columns: arrays with an entry for each item. Texts stand once, in "text", and are
 * numbers elsewhere; 0 is the empty one. A line of a label is eight times its text plus its
 * style. */
#include "draw.h"

#include <cfx/cost.h>

#include "../run/select.h"
#include "../tensor/few.h"
#include "../value/json.h"
#include "view.inc"

typedef struct writer {
    cfx__text *out;
    cfx__draw_scene *s;
    cfx__map index; /* text to its number plus one */
    VEC(const char *) texts;
    cfx__arena arena;
    cfx__text scratch;
    cfx__map tensors; /* target to its number plus one */
    VEC(const cfx__draw_fold *) folds;
} writer;

/* ---- texts --------------------------------------------------------------------------------- */

static int text_number(writer *w, const char *text, size_t len) {
    uintptr_t known = (uintptr_t)cfx__map_getn(&w->index, text, len);
    if (known)
        return (int)known - 1;
    const char *own = cfx__arena_copy(&w->arena, text, len);
    VEC_PUSH(w->texts, own);
    cfx__map_set(&w->index, own, (void *)(uintptr_t)w->texts.len);
    return (int)w->texts.len - 1;
}

static int number_of(writer *w, const char *text) {
    return text ? text_number(w, text, strlen(text)) : 0;
}

static int scratch_number(writer *w) {
    int k = text_number(w, w->scratch.data ? w->scratch.data : "", w->scratch.len);
    w->scratch.len = 0;
    return k;
}

/* A JSON string inside a script element, which "</script" would end. */
static void put_string(cfx__text *out, const char *text) {
    cfx__text_putc(out, '"');
    for (size_t n; n = strcspn(text, "<"), cfx__json_characters(out, text, n), text[n];
         text += n + 1)
        cfx__text_puts(out, "\\u003c");
    cfx__text_putc(out, '"');
}

/* ---- columns of items ------------------------------------------------------------------------ */

/* Writes "key":[fn(item), ...]. */
static void put_column(writer *w, const char *key, void (*put)(writer *w, int i)) {
    cfx__text_printf(w->out, "\"%s\":[", key);
    for (int i = 0; i < (int)w->s->items.len; i++) {
        if (i)
            cfx__text_putc(w->out, ',');
        put(w, i);
    }
    cfx__text_puts(w->out, "],\n");
}

static void put_int(writer *w, int n) { cfx__text_printf(w->out, "%d", n); }
static void put_kind(writer *w, int i) { put_int(w, w->s->items.data[i].kind); }
static void put_family(writer *w, int i) { put_int(w, w->s->items.data[i].family); }
static void put_type(writer *w, int i) { put_int(w, number_of(w, w->s->items.data[i].type)); }
static void put_path(writer *w, int i) { put_int(w, number_of(w, w->s->items.data[i].path)); }
static void put_end(writer *w, int i) { put_int(w, w->s->items.data[i].end - i); }

static void put_parent(writer *w, int i) { put_int(w, i ? i - w->s->items.data[i].parent : 0); }

/* What is searched for and linked to: the node's name, the prefix of a sub-graph. */
static void put_name(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    if (item->kind == CFX__ITEM_GRAPH)
        put_int(w, number_of(w, w->s->sheets.data[item->graph].prefix));
    else if (item->until)
        put_int(w, number_of(w, item->until));
    else
        put_int(w, item->node ? number_of(w, item->node->name) : 0);
}

/* A module's call, the times a block repeats. */
static void put_call(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    put_int(w, item->kind == CFX__ITEM_REPEAT ? item->times : item->call);
}

static void put_op(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    if (item->node && item->node->op != CFX_PLACEHOLDER && item->node->op != CFX_OUTPUT)
        cfx__draw_put_op(&w->scratch, &w->s->sheets.data[item->graph], item->node);
    else if (item->node)
        cfx__text_puts(&w->scratch, cfx_opcode_name(item->node->op));
    put_int(w, scratch_number(w));
}

static void put_target(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    if (item->node)
        cfx__target_text(&w->scratch, item->node->target);
    put_int(w, scratch_number(w));
}

static void put_shape(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    if (item->node)
        cfx__draw_put_shape(&w->scratch, item->node);
    put_int(w, scratch_number(w));
}

static void put_source(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    if (item->node)
        cfx__draw_put_source(&w->scratch, item->node);
    put_int(w, scratch_number(w));
}

static void put_lines(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    cfx__text_putc(w->out, '[');
    for (int k = 0; k < item->nlines; k++) {
        const cfx__draw_line *line = &w->s->lines.data[item->line + k];
        put_int(w, 8 * text_number(w, w->s->text.data + line->at, line->len) + line->style);
        cfx__text_puts(w->out, k + 1 < item->nlines ? "," : "");
    }
    cfx__text_putc(w->out, ']');
}

static void put_closed_lines(writer *w, int i) {
    bool frame = i && w->s->items.data[i].open && w->s->items.data[i].kind != CFX__ITEM_GRAPH;
    if (frame)
        cfx__draw_label_closed(w->s, i);
    if (frame)
        put_lines(w, i);
    else
        cfx__text_putc(w->out, '0');
}

/* The tensor that stands for an argument where it is a folded node, or NULL. */
static const cfx_tensor *folded(const cfx__draw_sheet *sheet, cfx_value v) {
    uint32_t id = v.tag == CFX_TAG_NODE ? cfx__node_of(cfx_as_node(v))->id : 0;
    return v.tag == CFX_TAG_NODE && sheet->item[id] == CFX__FOLDED ? sheet->fold[id].tensor : NULL;
}

static void put_arg(writer *w, const cfx__draw_sheet *sheet, const char *name, cfx_value v,
                    bool first) {
    cfx__node_format_arg(&w->scratch, v);
    size_t len = w->scratch.len;
    cfx__text_puts(&w->scratch, " = ");
    if (!cfx__tensor_put_few(&w->scratch, folded(sheet, v)))
        w->scratch.len = len;
    int text = scratch_number(w);
    cfx__text_printf(w->out, "%s%d,%d", first ? "" : ",", number_of(w, name), text);
}

/* Names and texts of arguments in turn. */
static void put_args(writer *w, int i) {
    const cfx_node *n = w->s->items.data[i].node;
    if (!n || !(cfx_as_list(n->args)->len || cfx_as_dict(n->kwargs)->len)) {
        cfx__text_putc(w->out, '0');
        return;
    }
    const cfx__draw_sheet *sheet = &w->s->sheets.data[w->s->items.data[i].graph];
    bool overload = n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn;
    const cfx__schema *schema = overload ? cfx__op_info_of(n->target.op)->schema : NULL;
    cfx__text_putc(w->out, '[');
    for (int64_t k = 0; k < cfx_as_list(n->args)->len; k++)
        put_arg(w, sheet, schema && k < schema->nargs ? schema->args[k].name : "",
                cfx_as_list(n->args)->items[k], !k);
    for (int64_t k = 0; k < cfx_as_dict(n->kwargs)->len; k++)
        put_arg(w, sheet, cfx_text(cfx_as_dict(n->kwargs)->entries[k].key),
                cfx_as_dict(n->kwargs)->entries[k].value, !k && !cfx_as_list(n->args)->len);
    cfx__text_putc(w->out, ']');
}

/* The parameters, buffers and constants of a node, as numbers into "tensors". */
static void put_folds(writer *w, int i) {
    const cfx__draw_item *item = &w->s->items.data[i];
    const cfx__draw_sheet *sheet = &w->s->sheets.data[item->graph];
    bool any = false;
    if (item->node)
        cfx_each_input(item->node, u) {
            uint32_t id = cfx__node_of(u->node)->id;
            const cfx__draw_fold *f = &sheet->fold[id];
            if (sheet->item[id] != CFX__FOLDED || f->graph)
                continue;
            uintptr_t known = (uintptr_t)cfx__map_get(&w->tensors, f->target);
            if (!known) {
                VEC_PUSH(w->folds, f);
                known = w->folds.len;
                cfx__map_set(&w->tensors, f->target, (void *)known);
            }
            cfx__text_printf(w->out, "%c%d", any ? ',' : '[', (int)known - 1);
            any = true;
        }
    cfx__text_puts(w->out, any ? "]" : "0");
}

/* ---- wires and frames ------------------------------------------------------------------------ */

/* For each item how far back its inputs are; those that are cut to stubs as negative numbers.
 * Wires come in the order of their consumers. */
static void put_inputs(writer *w) {
    const cfx__draw_scene *s = w->s;
    size_t n = s->items.len, *first = cfx__alloc0((n + 2) * sizeof *first);
    size_t *order = cfx__alloc((s->wires.len + 1) * sizeof *order);
    for (size_t k = 0; k < s->wires.len; k++)
        first[s->wires.data[k].to + 2]++;
    for (size_t i = 0; i < n; i++)
        first[i + 2] += first[i + 1];
    for (size_t k = 0; k < s->wires.len; k++)
        order[first[s->wires.data[k].to + 1]++] = k;
    cfx__text_puts(w->out, "\"inputs\":[");
    for (size_t i = 0; i < n; i++) {
        cfx__text_puts(w->out, i ? ",[" : "[");
        for (size_t k = first[i]; k < first[i + 1]; k++) {
            const cfx__draw_wire *wire = &s->wires.data[order[k]];
            int back = wire->to - wire->from;
            cfx__text_printf(w->out, "%s%d", k > first[i] ? "," : "", wire->cut ? -back : back);
        }
        cfx__text_putc(w->out, ']');
    }
    cfx__text_puts(w->out, "],\n");
    cfx__free(first);
    cfx__free(order);
}

/* [frame, [points in each rank], [a child, or -1 - net], [source of each net], [from, to, net]] */
void cfx__draw_html_frame(cfx__draw_scene *s, const cfx__draw_plot *p) {
    cfx__text *out = &s->frames;
    cfx__text_printf(out, "%s[%d,[", out->len ? ",\n" : "", p->frame);
    for (int r = 0; r < p->nranks; r++)
        cfx__text_printf(out, "%s%d", r ? "," : "", p->first.data[r + 1] - p->first.data[r]);
    cfx__text_puts(out, "],[");
    for (size_t k = 0; k < p->points.len; k++) {
        const cfx__draw_point *pt = &p->points.data[p->order.data[k]];
        cfx__text_printf(out, "%s%d", k ? "," : "",
                         pt->item >= 0 ? pt->item - p->frame : -1 - pt->net);
    }
    cfx__text_puts(out, "],[");
    for (size_t k = 0; k < p->nets.len; k++)
        cfx__text_printf(out, "%s%d", k ? "," : "", p->nets.data[k].item - p->frame);
    cfx__text_puts(out, "],[");
    for (size_t k = 0; k < p->arcs.len; k++) {
        const cfx__draw_arc *a = &p->arcs.data[k];
        const cfx__draw_point *from = &p->points.data[a->from], *to = &p->points.data[a->to];
        cfx__text_printf(out, "%s%d,%d,%d", k ? "," : "", p->first.data[from->rank] + from->pos,
                         p->first.data[to->rank] + to->pos, a->net);
    }
    cfx__text_puts(out, "]]");
}

/* ---- tensors and facts ----------------------------------------------------------------------- */

static void put_tensors(writer *w) {
    cfx__text_puts(w->out, "\"tensors\":[");
    for (size_t i = 0; i < w->folds.len; i++) {
        const cfx__draw_fold *f = w->folds.data[i];
        cfx__text_puts(w->out, i ? ",\n{\"name\":" : "\n{\"name\":");
        put_string(w->out, f->target);
        cfx__text_puts(w->out, ",\"kind\":");
        put_string(w->out, f->kind);
        if (f->tensor) {
            cfx__draw_put_tensor(&w->scratch, f->tensor);
            cfx__text_puts(w->out, ",\"shape\":");
            put_string(w->out, w->scratch.data);
            w->scratch.len = 0;
            cfx__text_printf(w->out, ",\"bytes\":%lld",
                             (long long)(cfx_tensor_numel(f->tensor) *
                                         cfx_dtype_size(cfx_tensor_dtype(f->tensor))));
            if (cfx__tensor_put_few(&w->scratch, f->tensor)) {
                cfx__text_puts(w->out, ",\"numbers\":");
                put_string(w->out, w->scratch.data);
                w->scratch.len = 0;
            } else
                cfx__draw_put_stats(w->out, f->tensor);
        }
        cfx__text_putc(w->out, '}');
    }
    cfx__text_puts(w->out, "],\n");
}

/* The item of a node, in whatever graph it is; less than 0: it has none. */
static int item_of(const cfx__draw_scene *s, const cfx_node *n) {
    for (size_t k = 0; k < s->sheets.len; k++)
        if (s->sheets.data[k].graph == n->graph)
            return s->sheets.data[k].item[cfx__node_of(n)->id];
    return -1;
}

static int64_t flops_of(const cfx_node_cost *n) { return n->flops; }
static int64_t bytes_of(const cfx_node_cost *n) { return n->bytes; }
static int64_t live_of(const cfx_node_cost *n) { return n->live; }

/* Of each node whose result takes memory the last that needs it. */
static void put_until(writer *w, const cfx_cost *cost) {
    bool any = false;
    for (int i = 0; i < cost->n; i++) {
        const cfx_node_cost *n = &cost->nodes[i];
        int item = n->bytes ? item_of(w->s, n->node) : -1;
        int last = item < 0 ? -1 : item_of(w->s, cost->nodes[n->freed].node);
        if (last < 0)
            continue;
        cfx__text_printf(w->out, "%s%d,%d", any ? "," : "", item, last);
        any = true;
    }
}

/* What nodes cost, where all sizes are known. */
static void put_costs(writer *w, const cfx_cost *cost) {
    static const struct {
        const char *name;
        int64_t (*of)(const cfx_node_cost *n);
    } columns[] = {
        {"FLOPs", flops_of}, {"result (bytes)", bytes_of}, {"alive (bytes)", live_of}};
    for (int k = 0; k < COUNT(columns); k++) {
        bool any = false;
        cfx__text_printf(w->out, "[\"%s\",[", columns[k].name);
        for (int i = 0; i < cost->n; i++) {
            int item = item_of(w->s, cost->nodes[i].node);
            if (item < 0 || cost->nodes[i].node->op == CFX_OUTPUT)
                continue;
            cfx__text_printf(w->out, "%s%d,%lld", any ? "," : "", item,
                             (long long)columns[k].of(&cost->nodes[i]));
            any = true;
        }
        cfx__text_puts(w->out, "]],\n");
    }
}

/* "until":[item, item, ...] and "facts":[[name, [item, value, ...]], ...]: what metadata tells,
 * then the caller's. */
static void put_own_facts(writer *w) {
    const cfx__draw_item *items = w->s->items.data;
    cfx_program *p = w->s->sheets.data[0].program;
    bool fine = cfx_ok();
    cfx_cost *cost = fine && p ? cfx_program_cost(p, NULL) : NULL;
    if (cfx_failed(cost) && fine)
        cfx__error_forgive(); /* a size that nothing tells: there are no costs then */
    cfx__text_puts(w->out, "\"until\":[");
    if (!cfx_failed(cost))
        put_until(w, cost);
    cfx__text_puts(w->out, "],\n\"facts\":[");
    if (!cfx_failed(cost))
        put_costs(w, cost);
    cfx__text_puts(w->out, "[\"dtype\",[");
    bool any = false;
    for (size_t i = 0; i < w->s->items.len; i++) {
        cfx_result r = items[i].node ? cfx_node_result(items[i].node) : (cfx_result){0};
        if (r.kind != CFX_RESULT_TENSOR)
            continue;
        cfx__text_printf(w->out, "%s%zu,\"%s\"", any ? "," : "", i, cfx_dtype_brief(r.dtype));
        any = true;
    }
    cfx__text_puts(w->out, "]]");
}

/* A value of the caller's; false, with an error, where it is of a kind that no column has. */
static bool put_fact(cfx__text *out, const char *column, const char *node, cfx_value v) {
    if (v.tag == CFX_TAG_INT)
        cfx__text_printf(out, "%lld", (long long)cfx_integer(v));
    else if (v.tag == CFX_TAG_FLOAT)
        cfx__draw_put_number(out, cfx_number(v));
    else if (v.tag == CFX_TAG_STR)
        put_string(out, cfx_as_string(v)->text);
    else if (v.tag == CFX_TAG_NONE)
        cfx__text_puts(out, "null");
    else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) {
        cfx__text_putc(out, '[');
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
            cfx_value x = cfx_as_list(v)->items[i];
            if (x.tag != CFX_TAG_INT && x.tag != CFX_TAG_FLOAT)
                return put_fact(out, column, node, cfx_bad());
            cfx__text_puts(out, i ? "," : "");
            put_fact(out, column, node, x);
        }
        cfx__text_putc(out, ']');
    } else {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "column '%s' of node %s is neither a number nor a text nor a list of numbers",
                 column, node);
        return false;
    }
    return true;
}

/* The item of a node by its name with the prefix of its graph; -1: none. */
static int item_named(const cfx__draw_scene *s, const char *name) {
    for (size_t k = 0; k < s->sheets.len; k++) {
        const cfx__draw_sheet *sheet = &s->sheets.data[k];
        size_t n = strlen(sheet->prefix);
        const cfx_node *node =
            strncmp(name, sheet->prefix, n) ? NULL : cfx_graph_find(sheet->graph, name + n);
        if (node)
            return sheet->item[cfx__node_of(node)->id];
    }
    return INT32_MIN;
}

static bool put_callers_facts(writer *w, const cfx_dict *columns) {
    for (int64_t k = 0; columns && k < columns->len; k++) {
        const char *name = cfx_text(columns->entries[k].key);
        cfx_value values = columns->entries[k].value;
        if (!name || values.tag != CFX_TAG_DICT) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "column '%s' is no dict of node names to values", name ? name : "?");
            return false;
        }
        cfx__text_puts(w->out, ",\n[");
        put_string(w->out, name);
        cfx__text_puts(w->out, ",[");
        bool any = false;
        for (int64_t i = 0; i < cfx_as_dict(values)->len; i++) {
            const char *node = cfx_text(cfx_as_dict(values)->entries[i].key);
            int item = item_named(w->s, node ? node : "");
            if (item == INT32_MIN) {
                cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                         "column '%s' has a value for '%s', which is no node of %s", name,
                         node ? node : "?", w->s->name);
                return false;
            }
            if (item < 0)
                continue; /* a parameter, drawn in the boxes that use it */
            cfx__text_printf(w->out, "%s%d,", any ? "," : "", item);
            any = true;
            if (!put_fact(w->out, name, node, cfx_as_dict(values)->entries[i].value))
                return false;
        }
        cfx__text_puts(w->out, "]]");
    }
    return true;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Where the viewer starts: the nodes in focus. */
static bool put_focus(writer *w) {
    const char *focus = w->s->options->focus;
    bool any = false;
    cfx__text_puts(w->out, "\"focus\":[");
    for (size_t i = 0; focus && i < w->s->items.len; i++) {
        if (!w->s->items.data[i].node || !cfx__run_selects(focus, w->s->items.data[i].node))
            continue;
        cfx__text_printf(w->out, "%s%zu", any ? "," : "", i);
        any = true;
    }
    cfx__text_puts(w->out, "],\n");
    if (focus && !any)
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no node of %s matches '%s'%s", w->s->name, focus,
                 cfx__run_meant(w->s->sheets.data[0].graph, focus));
    return any || !focus;
}

/* Frames that start closed: what is beside the spine. */
static void put_asides(writer *w) {
    bool any = false;
    cfx__text_puts(w->out, "\"aside\":[");
    for (size_t i = 1; i < w->s->items.len; i++) {
        const cfx__draw_item *item = &w->s->items.data[i];
        if (item->kind == CFX__ITEM_BOX || item->side <= CFX__ON_SPINE)
            continue;
        cfx__text_printf(w->out, "%s%zu", any ? "," : "", i);
        any = true;
    }
    cfx__text_puts(w->out, "],\n");
}

static bool put_graph(writer *w) {
    cfx__draw_scene *s = w->s;
    cfx__text_puts(w->out, "{\"title\":");
    put_string(w->out, s->name);
    cfx__text_printf(w->out, ",\"depth\":%d,\n", s->options->depth);
    number_of(w, "");
    static const struct {
        const char *key;
        void (*put)(writer *w, int i);
    } columns[] = {{"kind", put_kind},     {"family", put_family}, {"parent", put_parent},
                   {"size", put_end},      {"call", put_call},     {"name", put_name},
                   {"op", put_op},         {"path", put_path},     {"type", put_type},
                   {"target", put_target}, {"shape", put_shape},   {"source", put_source},
                   {"args", put_args},     {"weights", put_folds}, {"lines", put_lines},
                   {"closed", put_closed_lines}};
    for (int i = 0; i < COUNT(columns); i++)
        put_column(w, columns[i].key, columns[i].put);
    put_inputs(w);
    put_asides(w);
    put_tensors(w);
    bool ok = put_focus(w);
    cfx__text_printf(w->out, "\"frames\":[%s],\n", s->frames.len ? s->frames.data : "");
    put_own_facts(w);
    ok = ok && put_callers_facts(w, s->options->columns);
    const cfx_dict *given = s->options->columns; /* the page opens coloured by the first */
    cfx__text_puts(w->out, "],\n\"given\":");
    put_string(w->out, ok && given && given->len ? cfx_text(given->entries[0].key) : "");
    cfx__text_puts(w->out, ",\n\"text\":[");
    for (size_t i = 0; i < w->texts.len; i++) {
        cfx__text_puts(w->out, i ? ",\n" : "\n");
        put_string(w->out, w->texts.data[i]);
    }
    cfx__text_puts(w->out, "]}");
    return ok;
}

static bool put_scene(cfx__text *out, cfx__draw_scene *s) {
    writer w = {.out = out, .s = s};
    bool ok = put_graph(&w);
    cfx__map_release(&w.index);
    cfx__map_release(&w.tensors);
    cfx__arena_release(&w.arena);
    cfx__text_release(&w.scratch);
    VEC_FREE(w.texts);
    VEC_FREE(w.folds);
    return ok;
}

/* By the ids of b's nodes: whether each is other than its counterpart. To be freed. */
static bool *changed_nodes(const cfx_pairs *pairs) {
    const cfx_graph *g = pairs->b->module->graph;
    bool *changed = cfx__alloc0((g->made.len + 1) * sizeof *changed);
    for (int i = 0; i < pairs->n; i++)
        if (pairs->pairs[i].b->graph == g)
            changed[cfx__node_of(pairs->pairs[i].b)->id] = pairs->pairs[i].changed;
    return changed;
}

/* Whether a node, or a weight that is drawn in its box, is other than in the other program. */
static bool is_changed(const cfx__draw_scene *s, const bool *changed, const cfx_pair *pair) {
    bool other = pair->changed;
    if (pair->b->graph == s->sheets.data[0].graph)
        cfx_each_input(pair->b, u)
            other |= item_of(s, u->node) < 0 && changed[cfx__node_of(u->node)->id];
    return other;
}

/* The other program of a page with two, and which items belong together. */
static bool put_other(cfx__text *out, const cfx__draw_scene *s, const cfx_draw_options *o) {
    cfx_program *b = o->pairs->b;
    cfx_draw_options own = {.form = CFX_HTML, .depth = o->depth, .columns = o->columns_b};
    cfx__draw_scene other;
    bool ok = cfx__draw_scene_make(&other, b->module->graph, b->module, b, &own), any = false;
    cfx__text_puts(out, ",\n");
    ok = ok && put_scene(out, &other);
    cfx__text_puts(out, "],\n\"pairs\":[");
    bool *changed = changed_nodes(o->pairs);
    for (int i = 0; ok && i < o->pairs->n; i++) {
        const cfx_pair *pair = &o->pairs->pairs[i];
        int left = item_of(s, pair->a), right = item_of(&other, pair->b);
        if (left < 0 || right < 0)
            continue;
        cfx__text_printf(out, "%s%d,%d,%d", any ? "," : "", left, right,
                         is_changed(&other, changed, pair));
        any = true;
    }
    cfx__free(changed);
    cfx__draw_scene_release(&other);
    return ok;
}

bool cfx__draw_write_html(cfx__text *out, cfx__draw_scene *s) {
    cfx__text_puts(out, view_before);
    cfx__text_puts(out, "{\"tones\":[");
    for (int f = 0; f < CFX__FAMILY_COUNT; f++) {
        const cfx__draw_tones_row *t = &cfx__draw_tones[f];
        cfx__text_printf(out, "%s[\"%s\",\"%s\",\"%s\",\"%s\"]", f ? "," : "", t->light.fill,
                         t->light.line, t->dark.fill, t->dark.line);
    }
    cfx__text_puts(out, "],\n\"graphs\":[");
    bool ok = put_scene(out, s);
    if (ok && s->options->pairs)
        ok = put_other(out, s, s->options);
    cfx__text_puts(out, "]}\n");
    cfx__text_puts(out, view_after);
    return ok;
}
