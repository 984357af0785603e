/* What a page folds away at first. The spine of a program are the values that lead from its inputs
 * through its weights to its results. Beside it stand
 *
 *   unused values     that lead to no result and change nothing: checks, leftovers of tracing
 *   constants         that depend on neither an input nor a weight: positions, tables, empty masks
 *   side values       that join the spine where a value computed with weights already is: masks,
 *                     rotary tables, scales
 *
 * all told by the graph alone. Those in a row in a frame get an item of their own. */
#include "draw.h"

enum { LED = 1, FED = 2, WEIGHTED = 4, SPINE = 8 }; /* leads to a result; depends on an input, on a
                                                       weight; on the spine */

typedef struct facts {
    const cfx__draw_sheet *sheet;
    uint8_t *of;  /* by node id: the bits above */
    bool learned; /* there are parameters; else every tensor that is folded is a weight */
} facts;

static uint8_t *fact(const facts *f, const cfx_node *n) { return &f->of[cfx__node_of(n)->id]; }

static bool is_folded(const facts *f, const cfx_node *n) {
    return f->sheet->item[cfx__node_of(n)->id] == CFX__FOLDED;
}

static bool is_parameter(const facts *f, const cfx_node *n) {
    return is_folded(f, n) && !strcmp(f->sheet->fold[cfx__node_of(n)->id].kind, "parameter");
}

static bool has_dimensions(const facts *f, const cfx_node *n) {
    const cfx_tensor *t = f->sheet->fold[cfx__node_of(n)->id].tensor;
    return !t || cfx_tensor_ndim(t);
}

/* A number without a dimension is none: ONNX has scales and what masks are filled with as such. */
static bool is_weight(const facts *f, const cfx_node *n) {
    return f->learned ? is_parameter(f, n) && has_dimensions(f, n)
                      : is_folded(f, n) && f->sheet->fold[cfx__node_of(n)->id].tensor;
}

/* Checks alone: operators with effects that give nothing. */
static bool is_check(const cfx_node *n) {
    bool overload = n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn;
    return overload && !cfx__op_info_of(n->target.op)->schema->nrets;
}

/* Whether a node is there for itself: it gives results, or changes a value in place. */
static bool is_kept(const cfx_node *n) {
    return n->op != CFX_GET_ATTR && n->op != CFX_PLACEHOLDER && cfx_node_is_impure(n) &&
           !is_check(n);
}

static void look_down(facts *f) {
    cfx_each_node(f->sheet->graph, n) f->learned |= is_parameter(f, n);
    cfx_each_node(f->sheet->graph, n) {
        uint8_t bits = n->op == CFX_CALL_MODULE ? WEIGHTED : 0;
        if (n->op == CFX_PLACEHOLDER && !is_folded(f, n))
            bits |= FED;
        if (is_weight(f, n))
            bits |= WEIGHTED;
        cfx_each_input(n, u) bits |= *fact(f, u->node) & (FED | WEIGHTED);
        *fact(f, n) = bits;
    }
}

/* Of a value on the spine its inputs are there too: those computed with weights, or all of them. */
static void look_up(facts *f) {
    for (cfx_node *n = cfx_graph_last(f->sheet->graph); n; n = n->prev) {
        if (is_kept(n)) /* where its result is read, that tells where it stands */
            *fact(f, n) |= n->num_users ? LED : LED | SPINE;
        uint8_t bits = *fact(f, n) & (LED | SPINE);
        bool joined = false;
        if (n->op != CFX_OUTPUT)
            cfx_each_input(n, u) joined |=
                !is_folded(f, u->node) && *fact(f, u->node) & WEIGHTED;
        cfx_each_input(n, u) *fact(f, u->node) |=
            bits & (joined && !(*fact(f, u->node) & WEIGHTED) ? LED : LED | SPINE);
    }
}

/* What a node is beside the spine, or CFX__ON_SPINE. */
static cfx__draw_side side_of(const facts *f, const cfx_node *n) {
    uint8_t bits = *fact(f, n);
    if (n->op == CFX_PLACEHOLDER || (is_kept(n) && !n->num_users))
        return CFX__ON_SPINE;
    if (!(bits & LED))
        return CFX__UNUSED;
    if (!(bits & (FED | WEIGHTED)))
        return CFX__CONSTANTS;
    return bits & SPINE ? CFX__ON_SPINE : CFX__SIDE;
}

/* A frame is beside the spine where all that is in it is. Sub-graphs have inputs of their own and
 * are left as they are. */
void cfx__draw_find_sides(cfx__draw_scene *s) {
    facts f = {.sheet = &s->sheets.data[0]};
    f.of = cfx__alloc0(f.sheet->graph->made.len + 1);
    look_down(&f);
    look_up(&f);
    cfx__draw_item *items = s->items.data;
    for (int i = (int)s->items.len - 1; i > 0; i--) {
        cfx__draw_item *item = &items[i];
        if (item->gone || item->graph)
            continue;
        if (item->kind == CFX__ITEM_BOX || item->kind == CFX__ITEM_HOLDER)
            item->side = side_of(&f, item->node);
        if (item->side == CFX__NO_SIDE)
            continue;
        cfx__draw_item *frame = &items[item->parent];
        if (frame->side == CFX__NO_SIDE || frame->side == item->side)
            frame->side = item->side;
        else
            frame->side = frame->side == CFX__ON_SPINE || item->side == CFX__ON_SPINE
                              ? CFX__ON_SPINE : CFX__SIDE;
    }
    cfx__free(f.of);
}

/* Whether all that leaves an item are tensors of bool. */
static bool gives_masks(const cfx__draw_scene *s, int self) {
    const cfx__draw_item *items = s->items.data;
    const cfx__draw_sheet *sheet = &s->sheets.data[items[self].graph];
    bool any = false;
    for (int i = self + 1; i < items[self].end; i++) {
        bool leaves = false;
        if (items[i].node && items[i].graph == items[self].graph)
            cfx_each_user(items[i].node, u) {
                int to = sheet->item[cfx__node_of(u->user)->id];
                leaves |= to >= items[self].end;
            }
        if (!leaves)
            continue;
        cfx_result r = cfx_node_result(items[i].node);
        if (r.kind != CFX_RESULT_TENSOR || r.dtype != CFX_BOOL)
            return false;
        any = true;
    }
    return any;
}

const char *cfx__draw_side_name(const cfx__draw_scene *s, int i) {
    if (gives_masks(s, i))
        return "mask";
    return s->items.data[i].side == CFX__UNUSED      ? "unused values"
           : s->items.data[i].side == CFX__CONSTANTS ? "constants"
                                                     : "side values";
}
