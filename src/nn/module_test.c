#include "test.h"

#include "nn.h"

static cfx_tensor *number(double f) {
    return cfx_tensor_from_value(cfx_list(f));
}

static double first(const cfx_tensor *t) { return t ? cfx_tensor_get(t, 0) : -1; }

static cfx_tensor *shift(cfx_module *self, cfx_tensor *x) {
    return cfx_add(x, cfx_attr(self, "by"));
}

static cfx_module *shifter(double by) {
    cfx_module *m = cfx_module_new("Shift", shift, "x");
    cfx_nn_parameter(m, "by", number(by));
    return m;
}

static cfx_tensor *twice(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "b", cfx_call(self, "a", x));
}

static cfx_module *twice_new(void) {
    cfx_module *m = cfx_module_new("Twice", twice, "x");
    cfx_nn_add(m, "a", shifter(1));
    cfx_nn_add(m, "b", shifter(10));
    return m;
}

TEST(a_module_calls_its_children) {
    cfx_module *m = twice_new();
    CHECK_NEAR(first(cfx_forward(m, number(0.5))), 11.5, 0);
    CHECK_STR(m->name, "");
    CHECK_STR(cfx_module_find(m, "b")->name, "b");
    CHECK(cfx_module_find(m, "") == m);
    CHECK(!cfx_module_find(m, "c"));
    CHECK_INT(cfx_module_count(m), 2);
    CHECK_STR(cfx_module_child_name(m, 1), "b");
    CHECK(!cfx_module_child(m, 2));
    CHECK_OK();
}

TEST(only_the_result_of_a_call_gets_out) {
    cfx_module *m = twice_new();
    cfx_tensor *x = number(1);
    size_t before = cfx_scope_open();
    cfx_forward(m, x);
    CHECK_INT(cfx_scope_open() - before, 1);
}

TEST(calls_that_do_not_fit_say_so) {
    cfx_module *m = twice_new();
    cfx_forward(m, number(1), number(2));
    CHECK_ERROR("Twice.forward() takes 2 positional arguments but 3 were given");
    cfx_forward(m, CFX_KW(y, 1));
    CHECK_ERROR("Twice.forward() got an unexpected keyword argument 'y'");
    cfx_forward(m, 3);
    CHECK_ERROR("Twice.forward(): argument 'x' must be Tensor, not int");
    cfx_call(m, "nope", number(1));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->at.line > 0);
    CHECK_ERROR("'Twice' object has no attribute 'nope'");
    cfx_attr(m, "weight");
    CHECK_ERROR("'Twice' object has no attribute 'weight'");
    cfx_forward((cfx_module *)NULL, 1);
    CHECK_ERROR("'NoneType' object is not callable");
}

TEST(a_module_with_a_malformed_signature_is_bad) {
    cfx_module *m = cfx_module_new("Bad", shift, "x, ");
    CHECK_OK();
    m = cfx_module_new("Bad", shift, "x y");
    CHECK(cfx_failed(m));
    CHECK_ERROR("expected ','");
    CHECK(cfx_failed(cfx_forward(m, number(1))));
    CHECK_OK();
    CHECK(cfx_failed(cfx_module_new("Bad", shift, "x, y")));
    CHECK_ERROR("the forward of Bad takes 1 tensor, but its signature is \"x, y\"");
}

TEST(a_module_without_a_forward_holds_others) {
    cfx_module *m = cfx_module_new("Root", NULL, "");
    cfx_nn_add(m, "fc", cfx_nn_identity());
    CHECK_STR(cfx_module_str(m), "Root(\n  (fc): Identity()\n)");
    cfx_forward(m, number(1));
    CHECK_ERROR("Module [Root] is missing the required \"forward\" function");
}

static cfx_value count_args(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple_value(a.n, a.v);
}

TEST(a_general_forward_gets_one_value_for_each_name) {
    cfx_module *m = cfx_module_new("G", count_args, "x, *rest, scale=2, **more");
    CHECK_STR(cfx_repr(cfx_forward_value(m, 1)), "(1, (), 2, {})");
    CHECK_STR(cfx_repr(cfx_forward_value(m, 1, "a", 3, CFX_KW(scale, 4), CFX_KW(z, 5))),
              "(1, ('a', 3), 4, {'z': 5})");
    CHECK_OK();
}

TEST(names_are_found_by_dotted_path) {
    cfx_module *m = twice_new(), *root = cfx_module_new_n("Root", NULL, "");
    cfx_nn_add(root, "inner", m);
    cfx_nn_buffer(m, "mask", NULL, true);
    CHECK_NEAR(first(cfx_as_tensor(cfx_module_attr(root, "inner.a.by"))), 1, 0);
    CHECK(cfx_module_has(root, "inner.mask"));
    CHECK(cfx_is_none(cfx_module_attr(root, "inner.mask")));
    CHECK(!cfx_module_has(root, "inner.c.by"));
    CHECK_INT(cfx_module_attr(root, "inner.a").tag, CFX_TAG_MODULE);
    cfx_module_set_attr(root, "inner.a.by", cfx_tensor_value(number(7)));
    CHECK_NEAR(first(cfx_attr(root, "inner.a.by")), 7, 0);
    cfx_module_set_attr(root, "new.deep.k", cfx_int(3));
    CHECK_INT(cfx_integer(cfx_attr_value(root, "new.deep.k")), 3);
    cfx_module_set_attr(root, "inner.a.by", cfx_int(3));
    CHECK_ERROR("cannot assign 'int' object to parameter 'by' (torch.Tensor or None required)");
    CHECK(cfx_module_remove(root, "inner.a"));
    CHECK(!cfx_module_remove(root, "inner.a"));
    CHECK(!cfx_module_find(root, "inner.a"));
    CHECK(cfx_module_find(root, "inner.b") != NULL);
    CHECK(cfx_module_remove(root, "new.deep.k"));
    CHECK(!cfx_module_has(root, "new.deep.k"));
    CHECK_OK();
}

TEST(names_follow_pytorch_s_rules) {
    cfx_module *m = twice_new();
    cfx_nn_add(m, "a.b", shifter(1));
    CHECK_ERROR("module name can't contain \".\", got: a.b");
    cfx_nn_add(m, "", shifter(1));
    CHECK_ERROR("module name can't be empty string \"\"");
    cfx_nn_parameter(m, "a", number(1));
    CHECK_ERROR("attribute 'a' already exists");
    cfx_module *leaf = cfx_module_find(m, "a");
    cfx_nn_add(leaf, "by", shifter(1));
    CHECK_ERROR("attribute 'by' already exists");
    cfx_nn_add(leaf, "loop", m);
    CHECK_ERROR("Twice cannot be a child of itself, as 'loop'");
    cfx_nn_add(m, "m", m);
    CHECK_ERROR("Twice cannot be a child of itself, as 'm'");
    cfx_module *other = shifter(5);
    CHECK(cfx_nn_add(m, "a", other) == other);
    CHECK(cfx_module_child(m, 0) == other);
    CHECK_NEAR(first(cfx_forward(m, number(0))), 15, 0);
}

static const char *extra(const cfx_module *m) {
    return cfx__text_format("by=%g", first(cfx_as_tensor(m->parameters->entries[0].value)));
}

static cfx_module *shown(double by) {
    cfx_module *m = shifter(by);
    m->extra_repr = extra;
    return m;
}

static const char *two_lines(const cfx_module *m) { return (void)m, "a=1\nb=2"; }

TEST(a_module_prints_as_in_pytorch) {
    CHECK_STR(cfx_module_str(cfx_module_new_n("Identity", NULL, "")), "Identity()");
    CHECK_STR(cfx_module_str(shown(3)), "Shift(by=3)");
    cfx_module *list = cfx_module_new_n("ModuleList", NULL, "");
    for (int i = 0; i < 5; i++)
        cfx_nn_add(list, cfx__text_format("%d", i), shown(i < 3 ? 1 : 2 + i));
    cfx_module *m = cfx_module_new_n("Net", NULL, "");
    cfx_nn_add(m, "layers", list);
    cfx_nn_add(m, "head", shown(9));
    m->extra_repr = two_lines;
    CHECK_STR(cfx_module_str(m), "Net(\n"
                                 "  a=1\n"
                                 "  b=2\n"
                                 "  (layers): ModuleList(\n"
                                 "    (0-2): 3 x Shift(by=1)\n"
                                 "    (3): Shift(by=5)\n"
                                 "    (4): Shift(by=6)\n"
                                 "  )\n"
                                 "  (head): Shift(by=9)\n"
                                 ")");
    CHECK_STR(cfx_repr(shown(2)), "Shift(by=2)");
}

static void collect(const char *path, cfx_module *m, void *user) {
    cfx__text_printf(user, "%s:%s ", path, m->type);
}

TEST(state_is_listed_in_pytorch_s_order) {
    cfx_module *m = twice_new();
    cfx_nn_buffer(m, "steps", number(0), true);
    cfx_nn_buffer(m, "scratch", number(0), false);
    cfx_nn_parameter(m, "scale", number(2));
    cfx_nn_parameter(m, "nothing", NULL);
    cfx_nn_parameter(cfx_module_find(m, "b"), "tied", cfx_as_tensor(cfx_module_attr(m, "scale")));
    cfx__text names = {0};
    cfx_dict *state = cfx_module_state_dict(m);
    for (int64_t i = 0; i < state->len; i++)
        cfx__text_printf(&names, "%s ", cfx_text(state->entries[i].key));
    CHECK_STR(names.data, "scale steps a.by b.by b.tied ");
    CHECK_INT(cfx_module_named_parameters(m)->len, 3);
    CHECK_INT(cfx_module_named_buffers(m)->len, 2);
    names.len = 0;
    cfx_nn_add(m, "c", cfx_module_find(m, "a"));
    cfx_module_walk(m, collect, &names);
    CHECK_STR(names.data, ":Twice a:Shift b:Shift ");
    cfx__text_release(&names);
    cfx_module_train(m, false);
    CHECK(!cfx_module_find(m, "b")->training);
}

TEST(a_state_dict_is_loaded_whole_or_not_at_all) {
    cfx_module *m = twice_new();
    cfx_dict *state = cfx_dict_new();
    cfx_dict_set(state, "a.by", cfx_tensor_value(number(3)));
    CHECK(!cfx_module_load_state_dict(m, state, true));
    CHECK_ERROR("Error(s) in loading state_dict for Twice:\n\tMissing key(s) in state_dict: "
                "\"b.by\". ");
    CHECK(cfx_module_load_state_dict(m, state, false));
    CHECK_NEAR(first(cfx_forward(m, number(0))), 13, 0);
    cfx_dict_set(state, "a.by", cfx_tensor_value(cfx_tensor_from_value(cfx_list(1, 2))));
    cfx_dict_set(state, "b.by", cfx_tensor_value(number(4)));
    CHECK(!cfx_module_load_state_dict(m, state, true));
    CHECK_ERROR("size mismatch for a.by: copying a param with shape torch.Size([2]) from "
                "checkpoint, the shape in current model is torch.Size([1]).");
    CHECK_NEAR(first(cfx_forward(m, number(0))), 13, 0);
}

/* ---- hooks ---------------------------------------------------------------------------------- */

static cfx_value note(cfx_event *e) {
    cfx__text_printf(e->user, "%s->%g ", e->module->name, first(cfx_as_tensor(e->out)));
    return CFX_NONE;
}

static cfx_value double_result(cfx_event *e) {
    (void)e->user;
    return cfx_tensor_value(cfx_add(cfx_as_tensor(e->out), cfx_as_tensor(e->out)));
}

static cfx_value give_hundred(cfx_event *e) {
    CHECK_INT(e->args.n, 1);
    CHECK(cfx_is_none(e->out));
    return cfx_tensor_value(number(100));
}

TEST(hooks_see_and_replace) {
    cfx_module *m = twice_new();
    cfx__text seen = {0};
    cfx_hook_handle *after = cfx_hook(m, "a", note, &seen);
    cfx_hook(m, "b", double_result, NULL);
    cfx_hook(m, "b", note, &seen);
    CHECK_NEAR(first(cfx_forward(m, number(0))), 22, 0);
    CHECK_STR(seen.data, "a->1 b->22 ");
    CHECK_INT(cfx_hook_count(cfx_module_find(m, "b")), 2);
    cfx_hook_remove(after);
    cfx_hook_remove(after);
    cfx_hook_handle *before = cfx_pre_hook(m, "a", give_hundred, NULL);
    seen.len = 0;
    CHECK_NEAR(first(cfx_forward(m, number(0))), 222, 0);
    CHECK_STR(seen.data, "b->222 ");
    cfx_hook_remove(before);
    CHECK_NEAR(first(cfx_forward(m, number(0))), 22, 0);
    cfx__text_release(&seen);
    CHECK(!cfx_hook(m, "nope", note, NULL));
    CHECK_ERROR("Twice has no module 'nope' to hook");
}

TEST(a_handle_outlives_its_module) {
    cfx_hook_handle *h;
    CFX_SCOPE {
        h = cfx_keep(cfx_hook(twice_new(), "", note, NULL));
    }
    cfx_hook_remove(h);
    cfx_drop(h);
    CHECK_OK();
}

static cfx_value unhook_self(cfx_event *e) {
    cfx_hook_remove(*(cfx_hook_handle **)e->user);
    return CFX_NONE;
}

TEST(a_hook_may_take_itself_off) {
    cfx_module *m = twice_new();
    cfx_hook_handle *h;
    cfx__text seen = {0};
    h = cfx_hook(m, "", unhook_self, &h);
    cfx_hook(m, "a", note, &seen);
    cfx_forward(m, number(0));
    cfx_forward(m, number(0));
    CHECK_INT(cfx_hook_count(m), 0);
    CHECK_STR(seen.data, "a->1 a->1 ");
    cfx__text_release(&seen);
}

/* ---- the layer ------------------------------------------------------------------------------ */

typedef struct spy {
    cfx__nn_layer layer;
    cfx__text seen;
} spy;

static cfx_value spy_call(cfx__nn_layer *self, cfx_site at, cfx_module *m, cfx__nn_way way,
                          cfx_args a) {
    (void)way;
    cfx__text_printf(&((spy *)self)->seen, "%s%s ", m->type, m->name);
    return cfx__module_call(at, m, a);
}

static cfx_value spy_attr(cfx__nn_layer *self, cfx_site at, cfx_module *m, const char *path) {
    cfx__text_printf(&((spy *)self)->seen, ".%s ", path);
    return cfx__module_read(at, m, path);
}

TEST(a_layer_sees_calls_and_reads) {
    cfx_module *m = twice_new();
    spy s = {{spy_call, spy_attr, NULL}, {0}};
    cfx__nn_push(&s.layer);
    CHECK_NEAR(first(cfx_forward(m, number(0))), 11, 0);
    cfx__nn_pop(&s.layer);
    cfx_forward(m, number(0));
    CHECK_STR(s.seen.data, "Twice Shifta .by Shiftb .by ");
    cfx__text_release(&s.seen);
}

/* ---- copies --------------------------------------------------------------------------------- */

static cfx_tensor *add_both_twice(cfx_module *self, cfx_tensor *x) {
    return cfx_add(cfx_call(self, "a", x), cfx_call(self, "b", x));
}

static cfx_value count_call(cfx_event *e) {
    ++*(int *)e->user;
    return CFX_NONE;
}

TEST(a_copy_shares_nothing_with_its_original) {
    int calls = 0;
    cfx_module *m = cfx_module_new("Both", add_both_twice, "x");
    cfx_module *linear = cfx_nn_linear(2, 2);
    cfx_nn_add(m, "a", linear);
    cfx_nn_add(m, "b", linear); /* one module, two names */
    cfx_nn_buffer(m, "passing", cfx_ones(1), false);
    cfx_module_set_attr(m, "kept", cfx_list(1, cfx_ones(1)));
    cfx_hook(m, "a", count_call, &calls);
    cfx_module *copy = cfx_module_copy(m);
    CHECK_OK();
    cfx_tensor *x = cfx_ones(1, 2);
    CHECK_STR(cfx_str(cfx_forward(copy, x)), cfx_str(cfx_forward(m, x)));
    CHECK_INT(calls, 4);
    CHECK_STR(cfx_module_str(copy), cfx_module_str(m));
    CHECK(cfx_module_find(copy, "a") == cfx_module_find(copy, "b"));
    CHECK(cfx_module_find(copy, "a") != linear);
    CHECK_INT(cfx_module_state_dict(copy)->len, cfx_module_state_dict(m)->len);
    cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_fill_(cfx_module_attr(m, "a.weight"), 0.0);
    cfx_set_grad_mode(CFX_GRAD_ON);
    CHECK(cfx_tensor_get(cfx_sum(cfx_abs(cfx_module_attr(copy, "a.weight"))), 0) > 0);
    CHECK(cfx_as_tensor(cfx_at(cfx_module_attr(copy, "kept"), 1)) !=
          cfx_as_tensor(cfx_at(cfx_module_attr(m, "kept"), 1)));
    CHECK(cfx_failed(cfx_module_copy(NULL)));
    CHECK_ERROR("the module is NULL");
}

/* ---- the whole tree ------------------------------------------------------------------------- */

static void count_modules(cfx_module *m, void *user) {
    cfx__text_printf(user, "%s ", m->type);
}

TEST(a_module_is_changed_as_a_whole) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(2, 3), cfx_nn_batch_norm1d(3));
    cfx__text seen = {0};
    cfx_module_apply(m, count_modules, &seen);
    CHECK_STR(seen.data, "Linear BatchNorm1d Sequential ");
    cfx__text_release(&seen);
    CHECK_INT(cfx_module_numel(m), 2 * 3 + 3 + 3 + 3);
    cfx_tensor *w = cfx_attr(m, "0.weight");
    CHECK(cfx_tensor_requires_grad(w));
    cfx_tensor_set_grad(w, cfx_ones(3, 2));
    cfx_module_to(m, CFX_F64);
    CHECK(cfx_attr(m, "0.weight") == w);
    CHECK_INT(cfx_tensor_dtype(w), CFX_F64);
    CHECK_INT(cfx_tensor_dtype(cfx_tensor_grad(w)), CFX_F64);
    CHECK_INT(cfx_tensor_dtype(cfx_attr(m, "1.running_mean")), CFX_F64);
    CHECK_INT(cfx_tensor_dtype(cfx_attr(m, "1.num_batches_tracked")), CFX_I64);
    CHECK_INT(cfx_tensor_dtype(cfx_forward(m, cfx_to(cfx_ones(4, 2), cfx_f64))), CFX_F64);
    cfx_module_zero_grad(m);
    CHECK(!cfx_tensor_grad(w));
    cfx_module_requires_grad(m, false);
    CHECK(!cfx_tensor_requires_grad(w));
    CHECK_OK();
    cfx_module_to(m, CFX_I64);
    CHECK_ERROR("nn.Module.to only accepts floating point or complex dtypes, but got desired "
                "dtype=torch.int64");
}

TEST(names_have_prefixes_and_depth) {
    cfx_module *m = cfx_nn_sequential(cfx_nn_linear(2, 3), cfx_nn_relu());
    cfx_nn_parameter(m, "own", cfx_ones(1));
    cfx_dict *all = cfx_module_named(m, CFX_NAMED_PARAMETERS, "net.", true);
    CHECK_INT(all->len, 3);
    CHECK_STR(cfx_text(all->entries[1].key), "net.0.weight");
    CHECK_INT(cfx_module_named(m, CFX_NAMED_PARAMETERS, NULL, false)->len, 1);
    cfx_dict *modules = cfx_module_named_modules(m);
    CHECK_INT(modules->len, 3);
    CHECK_STR(cfx_text(modules->entries[2].key), "1");
    cfx_dict *state = cfx_module_state_dict(m);
    cfx_dict_remove(state, cfx_string_value("own"));
    cfx_dict_set(state, "more", cfx_tensor_value(cfx_ones(1)));
    CHECK_STR(cfx_repr(cfx_module_state_keys(m, state)), "(['own'], ['more'])");
    CHECK(cfx_module_load_state_dict(m, state, false));
    CHECK(!cfx_module_load_state_dict(m, state, true));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->at.line == __LINE__ - 2);
    CHECK_ERROR("Missing key(s) in state_dict: \"own\". \n\tUnexpected key(s) in state_dict: "
                "\"more\".");
}

TEST(results_of_calls_are_no_parameters) {
    cfx_module *m = cfx_module_new_n("M", NULL, "");
    cfx_tensor *w = cfx_requires_grad(cfx_ones(2), true);
    cfx_nn_parameter(m, "w", cfx_mul(w, 2));
    CHECK_ERROR("Cannot assign non-leaf Tensor to parameter 'w'.");
}

static void count_free(void *data) { ++*(int *)data; }

TEST(what_a_module_carries_is_freed_with_its_last_copy) {
    static const cfx_object_type counted = {.name = "Counted", .free = count_free};
    int first = 0, second = 0;
    cfx_module *m = NULL, *copy = NULL;
    CFX_SCOPE {
        m = cfx_keep(cfx_module_new("Carrier", NULL, "x"));
        cfx_module_keep_object(m, cfx_object_value(&counted, &first));
        cfx_module_keep_object(m, cfx_object_value(&counted, &second));
        copy = cfx_keep(cfx_module_copy(m));
    }
    CHECK_INT(first, 1);
    CHECK(m->user == &second && copy->user == &second);
    CHECK(cfx_object_data(cfx_module_object(copy), &counted) == &second);
    cfx_drop(m);
    CHECK_INT(second, 0);
    cfx_module_keep_object(copy, CFX_NONE);
    CHECK(second == 1 && !copy->user && cfx_is_none(cfx_module_object(copy)));
    cfx_module_keep_object(copy, cfx_int(1));
    CHECK_ERROR("expected an object of the caller's, got int");
    cfx_drop(copy);
}
