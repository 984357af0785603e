/* Types of the caller's: how they print, and their way through traces, exports, runs and files. */
#include "files.h"

#include <cfx/tree.h>

#include "run.h"

static const char *const fields[] = {"x", "y", NULL};
static const cfx_tree_type point = {.name = "Point", .path = "mine.Point", .fields = fields};
static const cfx_tree_type boxes = {.name = "Boxes", .path = "mine.Boxes"};

static void register_types(void) {
    CHECK(cfx_tree_register(&point) && cfx_tree_register(&boxes) && cfx_tree_register(&point));
}

TEST(named_tuples_print_and_are_tuples) {
    register_types();
    cfx_value p = cfx_tree_of(&point, 1, cfx_list(2));
    CHECK_STR(cfx_repr(p), "Point(x=1, y=[2])");
    CHECK_STR(cfx_repr(cfx_tree_of(&boxes, p, 3)), "Boxes(Point(x=1, y=[2]), 3)");
    CHECK_STR(cfx_repr(cfx_value_field(p, "y")), "[2]");
    CHECK(cfx_tree_type_of(p) == &point && !cfx_tree_type_of(cfx_tuple(1, 2)));
    CHECK(cfx_equal_values(p, cfx_tuple(1, cfx_list(2))));
    CHECK_OK();
    cfx_value_field(p, "z");
    CHECK_ERROR("'Point' object has no attribute 'z'");
    cfx_tree_of(&point, 1);
    CHECK_ERROR("Point has 2 fields, but 1 values were given");
    static const cfx_tree_type other = {.name = "Other", .path = "mine.Point"};
    cfx_tree_of(&other, 1);
    CHECK_ERROR("Other is no registered type of trees");
    CHECK(!cfx_tree_register(&other));
    CHECK_ERROR("mine.Point: another type of trees is registered under this path");
}

/* ---- objects of the caller's ----------------------------------------------------------------- */

typedef struct pair_of {
    cfx_tensor *first, *second;
    int64_t scale;
} pair_of;

static void flatten_pair(const void *object, cfx_list *parts) {
    const pair_of *p = object;
    cfx_list_append(parts, cfx_tuple(p->first, p->second));
    cfx_list_append(parts, cfx_int(p->scale));
}

static bool unflatten_pair(void *object, const cfx_list *parts) {
    pair_of *p = object;
    p->first = cfx_tensor_at(parts->items[0], 0);
    p->second = cfx_tensor_at(parts->items[0], 1);
    p->scale = cfx_integer(parts->items[1]);
    return p->scale > 0;
}

static const cfx_tree_type pairs = {.name = "Pair", .path = "mine.Pair", .flatten = flatten_pair,
                                    .unflatten = unflatten_pair};

static cfx_value swap_pair(cfx_module *self, cfx_args a) {
    (void)self;
    pair_of p;
    if (!cfx_tree_unpack(&pairs, a.v[0], &p))
        return cfx_bad();
    p = (pair_of){cfx_mul(p.second, p.scale), p.first, p.scale};
    return cfx_tree_pack(&pairs, &p);
}

TEST(objects_are_taken_apart_and_put_together) {
    CHECK(cfx_tree_register(&pairs));
    register_types();
    cfx_value given = cfx_tree_pack(&pairs, &(pair_of){cfx_ones(1), cfx_zeros(1), 3});
    CHECK_STR(cfx_repr(given), "Pair((tensor([1.]), tensor([0.])), 3)");
    cfx_module *m = cfx_module_new_n("Swap", swap_pair, "p");
    cfx_program *p = cfx_export(m, cfx_tuple(given), CFX_NONE, CFX_NONE);
    cfx_program *read = cfx_program_parse(cfx_program_fx(p), "text");
    CHECK_STR(cfx_tree_spec_text(read->in_spec), cfx_tree_spec_text(p->in_spec));
    pair_of back;
    CHECK(cfx_tree_unpack(&pairs, cfx_program_run(read, given), &back));
    CHECK_STR(cfx_str(back.second), "tensor([1.])");
    CHECK_INT(back.scale, 3);
    CHECK_OK();
    CHECK(!cfx_tree_unpack(&pairs, cfx_tuple(1, 2), &back));
    CHECK_ERROR("this is no Pair that an object is made of");
    cfx_tree_pack(&point, &back);
    CHECK_ERROR("the type has no function that takes objects apart");
}

TEST(types_have_specs_of_their_own) {
    register_types();
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_value tree = cfx_list(cfx_tree_of(&point, 1, 2), cfx_tree_of(&boxes, 3));
    cfx_value spec = cfx_tree_flatten(tree, cfx_as_list(leaves));
    CHECK_STR(cfx_repr(leaves), "[1, 2, 3]");
    CHECK_STR(cfx_tree_spec_text(spec),
              "TreeSpec(list, None, [TreeSpec(namedtuple, <class 'mine.Point'>, [*,\n    *]),\n"
              "  TreeSpec(Boxes, None, [*])])");
    CHECK_STR(cfx_repr(cfx_tree_unflatten(spec, cfx_as_list(leaves))),
              "[Point(x=1, y=2), Boxes(3)]");
    CHECK(!cfx__tree_flatten_as(spec, cfx_list(cfx_tuple(1, 2), cfx_tuple(3)),
                                cfx_as_list(leaves)));
}

/* ---- programs -------------------------------------------------------------------------------- */

static cfx_value swap(cfx_module *self, cfx_args a) {
    (void)self;
    cfx_value sum = cfx_py("operator.add", cfx_at(a.v[0], 0), cfx_at(a.v[0], 1));
    return cfx_tree_of(&point, cfx_at(a.v[0], 1), sum);
}

static cfx_value ones_and_twos(void) {
    return cfx_tree_of(&point, cfx_ones(2), cfx_full(cfx_list(2), 2.0));
}

static const char wanted[] = "Point(x=tensor([2., 2.]), y=tensor([3., 3.]))";

TEST(named_tuples_are_traced) {
    register_types();
    cfx_module *m = cfx_module_new_n("Swap", swap, "p");
    CHECK_STR(cfx_repr(cfx_forward_value(m, ones_and_twos())), wanted);
    cfx_module *gm = cfx_symbolic_trace(m);
    CHECK_STR(cfx_module_code(gm), "\n\n\ndef forward(self, p):\n"
                                   "    getitem = p[0]\n"
                                   "    getitem_1 = p[1]\n"
                                   "    add = getitem + getitem_1;  getitem = getitem_1 = None\n"
                                   "    getitem_2 = p[1];  p = None\n"
                                   "    point = mine_Point(getitem_2, add);  getitem_2 = add = "
                                   "None\n"
                                   "    return point\n    ");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, ones_and_twos())), wanted);
    cfx_module *read = cfx_module_parse(cfx_module_code(gm), "code");
    CHECK_STR(cfx_repr(cfx_forward_value(read, ones_and_twos())), wanted);
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "p", cfx_tree_of(&point, cfx_ellipsis(), cfx_ellipsis()));
    cfx_module *flat =
        cfx_graph_module(m, cfx_tracer_trace(&(cfx_tracer){.concrete_args = d}, m), "Swap");
    CHECK_STR(cfx_repr(cfx_forward_value(flat, ones_and_twos())), wanted);
    CHECK_OK();
    cfx_forward_value(flat, cfx_tuple(cfx_ones(2), cfx_ones(2)));
    CHECK_ERROR("Trying to flatten argument 'p' with tree spec: \n"
                "TreeSpec(namedtuple, <class 'mine.Point'>, [*,\n  *])");
}

TEST(named_tuples_are_exported_and_saved) {
    register_types();
    cfx_module *m = cfx_module_new_n("Swap", swap, "p");
    cfx_program *p = cfx_export(m, cfx_tuple(ones_and_twos()), CFX_NONE, CFX_NONE);
    CHECK_STR(cfx_repr(cfx_program_run(p, ones_and_twos())), wanted);
    const char *path = test_path("tree.pt2");
    CHECK(cfx_save(p, path));
    cfx_program *q = cfx_open(path);
    CHECK_OK();
    CHECK_STR(cfx_repr(cfx_program_run(q, ones_and_twos())), wanted);
    CHECK_STR(cfx_tree_spec_text(q->out_spec),
              "TreeSpec(namedtuple, <class 'mine.Point'>, [*,\n  *])");
    CHECK_OK();
    CHECK_INT(test_folder_clear(), 1);
}

static cfx_value minus(cfx_module *self, cfx_args a) {
    (void)self;
    const cfx_dict *d = cfx_as_dict(a.v[0]);
    return cfx_py("operator.sub", cfx_dict_get(d, "a"), cfx_dict_get(d, "b"));
}

static cfx_value pair(const char *first, double x, const char *second, double y) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, first, cfx_tensor_value(cfx_full(cfx_list(2), x)));
    cfx_dict_set(d, second, cfx_tensor_value(cfx_full(cfx_list(2), y)));
    return cfx_dict_value(d);
}

TEST(dicts_are_taken_apart_by_their_keys) {
    cfx_module *m = cfx_module_new_n("Minus", minus, "d");
    cfx_program *p =
        cfx_export(m, cfx_tuple(pair("a", 1, "b", 2)), CFX_NONE, CFX_NONE);
    CHECK_STR(cfx_repr(cfx_program_run(p, pair("b", 1, "a", 5))), "tensor([4., 4.])");
    cfx_dict *fixed = cfx_dict_new(), *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_ellipsis());
    cfx_dict_set(d, "b", cfx_ellipsis());
    cfx_dict_set(fixed, "d", cfx_dict_value(d));
    cfx_module *gm =
        cfx_graph_module(m, cfx_tracer_trace(&(cfx_tracer){.concrete_args = fixed}, m), "M");
    CHECK_STR(cfx_repr(cfx_forward_value(gm, pair("b", 1, "a", 5))), "tensor([4., 4.])");
    CHECK_OK();
}
