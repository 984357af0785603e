#include "draw.h"

#include "numbers.h"

/* ---- graphs to lay out --------------------------------------------------------------------- */

static void put_in_module(cfx_node *n, int outer, int inner) {
    cfx_dict *stack = cfx_dict_new();
    cfx_dict_set(stack, "root", cfx_tuple("", "Net"));
    const char *path = cfx__text_format("block.%d", outer);
    cfx_dict_set(stack, path, cfx_tuple(path, "my.Block"));
    if (inner >= 0) {
        path = cfx__text_format("block.%d.part%d", outer, inner);
        cfx_dict_set(stack, path, cfx_tuple(path, "my.Part"));
    }
    cfx_node_set_meta(n, "nn_module_stack", cfx_dict_value(stack));
}

/* A graph of n nodes, each of two that came before it, most of them near, in modules of modules. */
static cfx_graph *random_graph(int n, uint32_t seed) {
    test_seed(seed);
    cfx_graph *g = cfx_graph_new();
    cfx_node **made = cfx__alloc((size_t)n * sizeof *made);
    for (int i = 0; i < n; i++) {
        size_t mark = cfx_scope_open();
        if (i < 3) {
            made[i] = cfx_graph_placeholder(g, cfx__text_format("in%d", i), NULL, false, CFX_NONE);
        } else {
            uint32_t near = test_draw(4), far = test_draw(20);
            cfx_node *a = made[i - 1 - (int)near % i];
            cfx_node *b = made[far < 14 ? i - 1 - (int)far % i : (int)test_draw(3)];
            made[i] = cfx_graph_call_function(g, i % 5 ? "torch.add" : "torch.sigmoid",
                                              i % 5 ? cfx_tuple(a, b) : cfx_tuple(a), CFX_NONE);
            put_in_module(made[i], i / 30, i % 30 < 20 ? i % 30 / 5 : -1);
        }
        cfx_scope_close(mark);
    }
    cfx_graph_output(g, cfx_tuple(made[n - 1], made[n / 2]));
    free(made);
    return g;
}

/* ---- what must hold ------------------------------------------------------------------------ */

static bool overlap(const cfx__draw_item *a, const cfx__draw_item *b) {
    return a->x - a->left < b->x + b->w + b->right && b->x - b->left < a->x + a->w + a->right &&
           a->y < b->y + b->h && b->y < a->y + a->h;
}

static int count_overlaps(cfx__draw_scene *s, const cfx__draw_item *frame) {
    int bad = 0;
    for (int a = frame->first; a >= 0; a = s->items.data[a].next)
        for (int b = s->items.data[a].next; b >= 0; b = s->items.data[b].next)
            bad += overlap(&s->items.data[a], &s->items.data[b]);
    return bad;
}

static bool inside(const cfx__draw_item *i, const cfx__draw_item *frame) {
    return i->x - i->left >= frame->x && i->x + i->w + i->right <= frame->x + frame->w &&
           i->y >= frame->y && i->y + i->h <= frame->y + frame->h;
}

/* Whether a straight piece of a wire runs through an item of its frame. */
static bool hits(const cfx__draw_item *i, int x0, int y0, int x1, int y1) {
    int left = x0 < x1 ? x0 : x1, right = x0 < x1 ? x1 : x0;
    int top = y0 < y1 ? y0 : y1, bottom = y0 < y1 ? y1 : y0;
    return right > i->x && left < i->x + i->w && bottom > i->y && top < i->y + i->h;
}

/* Wires bend only where no box is, and run straight down beside boxes. */
static int count_hits(cfx__draw_scene *s, const cfx__draw_stroke *t) {
    const cfx__draw_item *frame = cfx__draw_item_at(s, t->frame);
    int bad = 0, dx = frame->x, dy = frame->y;
    for (int c = frame->first; c >= 0; c = s->items.data[c].next) {
        const cfx__draw_item *i = cfx__draw_item_at(s, c);
        bad += hits(i, dx + t->x0, dy + t->y0, dx + t->x0, dy + t->turn0);
        bad += hits(i, dx + t->x1, dy + t->turn1, dx + t->x1, dy + t->y1);
        if (t->lane) {
            bad += hits(i, dx + t->x0, dy + t->turn0, dx + t->lane, dy + t->turn0);
            bad += hits(i, dx + t->lane, dy + t->turn0, dx + t->lane, dy + t->turn1);
            bad += hits(i, dx + t->lane, dy + t->turn1, dx + t->x1, dy + t->turn1);
        } else {
            bad += hits(i, dx + t->x0, dy + t->turn0, dx + t->x1, dy + t->turn1);
        }
    }
    return bad;
}

/* Whether a wire that comes in runs through the title of its frame. */
static bool crosses_title(cfx__draw_scene *s, const cfx__draw_stroke *t) {
    const cfx__draw_item *frame = cfx__draw_item_at(s, t->frame);
    int width = 0;
    for (int i = 0; i < frame->nlines; i++) {
        int w = s->lines.data[frame->line + i].width * CFX__CHAR_W;
        width = w > width ? w : width;
    }
    return t->frame && t->y0 == 0 && t->x0 > frame->title && t->x0 < frame->title + width;
}

/* Lays a graph out and checks the scene. */
static void check_scene(cfx_graph *g, cfx_draw_options o) {
    cfx__draw_scene s;
    if (!CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o)))
        return;
    int overlaps = 0, outside = 0, through = 0, upwards = 0;
    for (size_t i = 0; i < s.items.len; i++) {
        const cfx__draw_item *it = &s.items.data[i];
        if (cfx__draw_is_frame(it))
            overlaps += count_overlaps(&s, it);
        if (i && it->seen)
            outside += !inside(it, &s.items.data[it->parent]);
    }
    for (size_t i = 0; i < s.strokes.len; i++) {
        const cfx__draw_stroke *t = &s.strokes.data[i];
        through += count_hits(&s, t) + crosses_title(&s, t);
        upwards += !t->lane && !(t->y0 <= t->turn0 && t->turn0 <= t->turn1 && t->turn1 <= t->y1);
    }
    CHECK_INT(overlaps, 0);
    CHECK_INT(outside, 0);
    CHECK_INT(through, 0);
    CHECK_INT(upwards, 0);
    /* every pair of visible items is a wire, and a wire is drawn or has a stub */
    size_t cut = 0;
    for (size_t i = 0; i < s.wires.len; i++)
        cut += s.wires.data[i].cut;
    CHECK_INT(s.stubs.len, cut);
    cfx__draw_scene_release(&s);
}

TEST(draw_layout_has_no_overlaps) {
    for (uint32_t seed = 1; seed <= 12; seed++)
        CFX_SCOPE
    {
        cfx_graph *g = random_graph(20 + (int)seed * 25, seed);
        check_scene(g, (cfx_draw_options){.all = true});
        check_scene(g, (cfx_draw_options){.depth = 1});
        check_scene(g, (cfx_draw_options){.depth = 2});
    }
    CHECK_OK();
}

TEST(draw_layout_of_a_tall_frame_does_not_stretch_what_is_beside_it) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *a = x, *b = x;
    for (int i = 0; i < 4; i++) {
        b = cfx_graph_call_function(g, "torch.tanh", cfx_tuple(b), CFX_NONE);
        put_in_module(b, 0, -1);
    }
    for (int i = 0; i < 4; i++) {
        a = cfx_graph_call_function(g, "torch.relu", cfx_tuple(a), CFX_NONE);
        cfx_node_set_meta(a, "nn_module_stack", cfx_dict_value(cfx_dict_new()));
    }
    cfx_graph_output(g, cfx_node_value(
                            cfx_graph_call_function(g, "torch.add", cfx_tuple(a, b), CFX_NONE)));
    cfx_draw_options o = {.all = true};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    const cfx__draw_item *before = NULL;
    for (size_t i = 1; i < s.items.len; i++) {
        const cfx__draw_item *it = &s.items.data[i];
        if (!it->node || strncmp(it->node->name, "relu", 4))
            continue;
        if (before)
            CHECK_INT(it->y - before->y - before->h, 24);
        before = it;
    }
    CHECK(before != NULL);
    cfx__draw_scene_release(&s);
}

TEST(draw_layout_of_a_chain_is_straight) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 6; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    cfx_draw_options o = {0};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK_INT(s.strokes.len, 7);
    for (size_t i = 0; i < s.strokes.len; i++)
        CHECK_INT(s.strokes.data[i].x0, s.strokes.data[i].x1);
    cfx__draw_scene_release(&s);
}

TEST(draw_layout_breaks_long_chains_into_columns) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 200; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    cfx_draw_options o = {0};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    const cfx__draw_item *root = cfx__draw_item_at(&s, 0);
    CHECK(root->columns > 3);
    CHECK(root->w < 3 * root->h && root->h < 3 * root->w);
    CHECK_INT(s.strokes.len, 201);
    cfx__draw_scene_release(&s);
    check_scene(g, o);
}

/* ---- wires --------------------------------------------------------------------------------- */

TEST(draw_cuts_values_with_many_uses) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *mask = cfx_graph_placeholder(g, "mask", NULL, false, CFX_NONE);
    cfx_node *n = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    for (int i = 0; i < 9; i++)
        n = cfx_graph_call_function(g, "torch.add", cfx_tuple(n, mask), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    cfx_draw_options o = {0};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK_INT(s.stubs.len, 8); /* the first use keeps its wire */
    CHECK_INT(s.items.data[s.sheets.data[0].item[cfx__node_of(mask)->id]].uses, 8);
    CHECK_STR(cfx__draw_stub_text(&s, &s.items.data[s.wires.data[4].to], 0), "mask");
    cfx__draw_scene_release(&s);
}

TEST(draw_cuts_long_wires) {
    cfx_graph *g = cfx_graph_new();
    cfx_node *first = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE), *n = first;
    for (int i = 0; i < 14; i++)
        n = cfx_graph_call_function(g, "torch.relu", cfx_tuple(n), CFX_NONE);
    n = cfx_graph_call_function(g, "torch.add", cfx_tuple(n, first), CFX_NONE);
    cfx_graph_output(g, cfx_node_value(n));
    cfx_draw_options o = {0};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK_INT(s.stubs.len, 1);
    CHECK(s.stubs.data[0].node == first);
    cfx__draw_scene_release(&s);
}

TEST(draw_closes_modules_by_depth) {
    cfx_graph *g = random_graph(1200, 7);
    cfx_draw_options o = {0};
    cfx__draw_scene s;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK(s.boxes <= CFX__READABLE);
    CHECK_INT(s.items.data[0].nodes, 1201);
    cfx__draw_scene_release(&s);
    o.all = true;
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK_INT(s.boxes, 1201);
    cfx__draw_scene_release(&s);
    o = (cfx_draw_options){.depth = 1};
    CHECK(cfx__draw_scene_make(&s, g, NULL, NULL, &o));
    CHECK_INT(s.boxes, 40 + 3 + 1); /* blocks, inputs, output */
    cfx__draw_scene_release(&s);
}

TEST(draw_families) {
    static const struct {
        const char *target;
        cfx__draw_family family;
    } cases[] = {{"torch.ops.aten.linear.default", CFX__FAMILY_LINEAR},
                 {"torch.ops.aten.add_.Tensor", CFX__FAMILY_MATH},
                 {"torch.ops.aten.relu_.default", CFX__FAMILY_ACTIVATION},
                 {"torch.ops.aten.upsample_bilinear2d.vec", CFX__FAMILY_POOL},
                 {"torch.ops.aten._native_batch_norm_legit_no_training.default", CFX__FAMILY_NORM},
                 {"torch.ops.aten.linalg_vector_norm.default", CFX__FAMILY_REDUCE},
                 {"torch.ops.aten.permute.default", CFX__FAMILY_VIEW},
                 {"torch.ops.aten.log_sigmoid.default", CFX__FAMILY_ACTIVATION},
                 {"torch.ops.higher_order.cond", CFX__FAMILY_CONTROL},
                 {"operator.getitem", CFX__FAMILY_VIEW},
                 {"torch.ops.aten.normal.Tensor_float", CFX__FAMILY_RANDOM},
                 {"torch.exp", CFX__FAMILY_MATH},
                 {"my.own_function", CFX__FAMILY_OTHER}};
    cfx_graph *g = cfx_graph_new();
    for (int i = 0; i < COUNT(cases); i++)
        cfx_graph_call_function(g, cases[i].target, CFX_NONE, CFX_NONE);
    uint8_t known[64] = {0};
    cfx__draw_sheet sheet = {.graph = g, .family = known};
    int i = 0;
    cfx_each_node(g, n) {
        if (cfx__draw_family_of(&sheet, n) != cases[i].family)
            test_fail(CFX_HERE, "%s is %s", cases[i].target,
                      cfx__draw_family_name(cfx__draw_family_of(&sheet, n)));
        i++;
    }
}
