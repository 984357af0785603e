/* Hooks: order, replacement, what they see, and what they may not return. */
#include "test.h"

#include "nn.h"

static cfx_tensor *number(double f) { return cfx_tensor_from_value(cfx_list(f)); }
static double first(const cfx_tensor *t) { return t ? cfx_tensor_get(t, 0) : -1; }

static cfx_tensor *double_it(cfx_module *self, cfx_tensor *x) { return (void)self, cfx_mul(x, 2); }

static cfx_module *doubler(void) { return cfx_module_new("Double", double_it, "x"); }

typedef struct say {
    cfx__text *log;
    const char *word;
    double add; /* what the hook adds to what it may replace; 0: it replaces nothing */
} say;

static cfx_value tell(cfx_event *e) {
    say *s = e->user;
    cfx__text_printf(s->log, "%s ", s->word);
    if (!s->add)
        return CFX_NONE;
    cfx_value v = !cfx_is_none(e->grad_in)    ? cfx_at(e->grad_in, 0)
                  : !cfx_is_none(e->grad_out) ? cfx_at(e->grad_out, 0)
                  : !cfx_is_none(e->out)      ? e->out
                                              : e->args.v[0];
    return cfx_tensor_value(cfx_add(v, s->add));
}

TEST(hooks_run_in_pytorchs_order) {
    cfx_module *m = cfx_module_new("Outer", double_it, "x");
    cfx__text log = {0};
    say s[] = {{&log, "own-pre", 0}, {&log, "own-pre-first", 0}, {&log, "global-pre", 0},
               {&log, "own", 0},     {&log, "own-first", 0},     {&log, "global", 0}};
    cfx_pre_hook(m, "", tell, &s[0]);
    cfx_pre_hook(m, "", tell, &s[1], .prepend = true);
    cfx_hook_handle *g1 = cfx_global_hook(CFX_FORWARD_PRE, tell, &s[2]);
    cfx_hook(m, "", tell, &s[3]);
    cfx_hook(m, "", tell, &s[4], .prepend = true);
    cfx_hook_handle *g2 = cfx_global_hook(CFX_FORWARD, tell, &s[5]);
    cfx_forward(m, number(1));
    CHECK_STR(log.data, "global-pre own-pre-first own-pre global own-first own ");
    cfx_hook_remove(g1);
    cfx_hook_remove(g2);
    log.len = 0;
    cfx_forward(doubler(), number(1));
    CHECK_INT(log.len, 0);
    cfx__text_release(&log);
    CHECK_OK();
}

TEST(each_hook_sees_what_the_one_before_made) {
    cfx_module *m = doubler();
    cfx__text log = {0};
    say s[] = {{&log, "a", 1}, {&log, "b", 10}, {&log, "c", 100}};
    cfx_pre_hook(m, "", tell, &s[0]);
    cfx_hook(m, "", tell, &s[1]);
    cfx_hook(m, "", tell, &s[2]);
    CHECK_NEAR(first(cfx_forward(m, number(3))), 118, 0);
    cfx__text_release(&log);
}

static cfx_value scaled(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_mul(a.v[0], a.v[1]));
}

static cfx_value see_kwargs(cfx_event *e) {
    *(int64_t *)e->user = e->args.kw ? e->args.kw->len : -1;
    return CFX_NONE;
}

static cfx_value change_both(cfx_event *e) {
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "by", cfx_int(7));
    (void)e;
    return cfx_tuple(cfx_tuple(number(2)), kw);
}

static cfx_value give_three(cfx_event *e) { return (void)e, cfx_int(3); }

TEST(hooks_with_keywords) {
    cfx_module *m = cfx_module_new("Scale", scaled, "x, by=1");
    int64_t with = 0, without = 0;
    cfx_hook(m, "", see_kwargs, &without);
    cfx_hook(m, "", see_kwargs, &with, .with_kwargs = true);
    CHECK_NEAR(first(cfx_forward(m, number(3), CFX_KW(by, 5))), 15, 0);
    CHECK_INT(with, 1);
    CHECK_INT(without, -1);
    cfx_hook_handle *h = cfx_pre_hook(m, "", change_both, NULL, .with_kwargs = true);
    CHECK_NEAR(first(cfx_forward(m, number(3), CFX_KW(by, 5))), 14, 0);
    cfx_hook_remove(h);
    cfx_pre_hook(m, "", give_three, NULL, .with_kwargs = true);
    int line = __LINE__ - 1;
    cfx_forward(m, number(3));
    const cfx_error *e = cfx_error_last();
    CHECK(e && e->at.line == line);
    CHECK_ERROR("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                "3.");
}

static cfx_tensor *fail_it(cfx_module *self, cfx_tensor *x) {
    return (void)self, cfx_add(x, cfx_ones(2, 3));
}

static cfx_value always(cfx_event *e) {
    *(int *)e->user += cfx_is_none(e->out) ? 100 : 1;
    cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "this one is forgotten");
    return CFX_NONE;
}

static cfx_value fail_hook(cfx_event *e) {
    cfx_fail(CFX_VALUE_ERROR, CFX_HERE, "the hook fails");
    return (void)e, CFX_NONE;
}

TEST(some_hooks_are_always_called) {
    cfx_module *m = cfx_module_new("Fails", fail_it, "x");
    int calls = 0, never = 0;
    cfx_hook(m, "", always, &calls, .always_call = true);
    cfx_hook(m, "", always, &never);
    cfx_forward(m, cfx_ones(2, 4));
    CHECK_ERROR("The size of tensor a (4) must match the size of tensor b (3)");
    CHECK_INT(calls, 100);
    CHECK_INT(never, 0);
    m = doubler();
    calls = 0;
    cfx_hook(m, "", fail_hook, NULL);
    cfx_hook(m, "", always, &calls, .always_call = true);
    CHECK(cfx__obj_is_bad(cfx_forward(m, number(1))));
    CHECK_ERROR("the hook fails");
    CHECK_INT(calls, 1);
}

static cfx_value add_hook(cfx_event *e) {
    say *s = e->user;
    cfx__text_printf(s->log, "%s ", s->word);
    cfx_hook(e->module, "", tell, s);
    return CFX_NONE;
}

TEST(what_is_added_meanwhile_counts_from_the_next_call_on) {
    cfx_module *m = doubler();
    cfx__text log = {0};
    say s = {&log, "x", 0};
    cfx_hook(m, "", add_hook, &s);
    cfx_forward(m, number(1));
    CHECK_STR(log.data, "x ");
    cfx_forward(m, number(1));
    CHECK_STR(log.data, "x x x ");
    cfx__text_release(&log);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

static cfx_tensor *two_layers(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "b", cfx_call(self, "a", x));
}

static cfx_module *chain(void) {
    cfx_module *m = cfx_module_new("Chain", two_layers, "x");
    cfx_nn_add(m, "a", doubler());
    cfx_nn_add(m, "b", doubler());
    return m;
}

TEST(backward_hooks_run_from_the_inside_out) {
    cfx_module *m = chain();
    cfx__text log = {0};
    say s[] = {{&log, "a", 0}, {&log, "b", 0}, {&log, "m", 0}, {&log, "g", 0}, {&log, "b-pre", 0}};
    cfx_backward_hook(m, "a", tell, &s[0]);
    cfx_backward_hook(m, "b", tell, &s[1]);
    cfx_backward_hook(m, "", tell, &s[2]);
    cfx_backward_pre_hook(m, "b", tell, &s[4]);
    cfx_tensor *x = cfx_requires_grad(number(3), true);
    cfx_backward(cfx_forward(m, x));
    CHECK_STR(log.data, "b-pre b a m ");
    CHECK_NEAR(first(cfx_tensor_grad(x)), 4, 0);
    cfx_hook_handle *h = cfx_global_hook(CFX_BACKWARD, tell, &s[3]);
    log.len = 0;
    cfx_backward(cfx_forward(m, x));
    CHECK_STR(log.data, "b-pre g b g a g m ");
    cfx_hook_remove(h);
    cfx__text_release(&log);
    CHECK_OK();
}

TEST(backward_hooks_replace_gradients) {
    cfx_module *m = chain();
    cfx__text log = {0};
    say in = {&log, "in", 10}, out = {&log, "out", 100};
    cfx_backward_hook(m, "b", tell, &in);
    cfx_tensor *x = cfx_requires_grad(number(3), true);
    cfx_backward(cfx_forward(m, x));
    CHECK_NEAR(first(cfx_tensor_grad(x)), (2 + 10) * 2, 0);
    cfx_backward_pre_hook(m, "b", tell, &out);
    cfx_tensor_set_grad(x, NULL);
    cfx_backward(cfx_forward(m, x));
    CHECK_NEAR(first(cfx_tensor_grad(x)), ((1 + 100) * 2 + 10) * 2, 0);
    cfx__text_release(&log);
    CHECK_OK();
}

static cfx_value swap_sum(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tuple(cfx_mul(a.v[0], 2), cfx_mul(a.v[2], 5));
}

static cfx_value see_all(cfx_event *e) {
    cfx_module_set_attr(e->user, "in", e->grad_in);
    cfx_module_set_attr(e->user, "out", e->grad_out);
    return CFX_NONE;
}

TEST(backward_hooks_see_several_inputs_and_outputs) {
    cfx_module *m = cfx_module_new("Two", swap_sum, "x, k, y");
    cfx_module *seen = cfx_module_new_n("Seen", NULL, "");
    cfx_backward_hook(m, "", see_all, seen);
    cfx_tensor *x = cfx_requires_grad(number(3), true), *y = cfx_requires_grad(number(4), true);
    cfx_value r = cfx_forward_value(m, x, 7, y);
    cfx_backward(cfx_add(cfx_mul(cfx_tensor_at(r, 0), 10), cfx_tensor_at(r, 1)));
    CHECK_STR(cfx_repr(cfx_module_attr(seen, "in")), "(tensor([20.]), None, tensor([5.]))");
    CHECK_STR(cfx_repr(cfx_module_attr(seen, "out")), "(tensor([10.]), tensor([1.]))");
    CHECK_NEAR(first(cfx_tensor_grad(x)), 20, 0);
    CHECK_OK();
}

static cfx_tensor *times_weight(cfx_module *self, cfx_tensor *x) {
    return cfx_mul(x, cfx_attr(self, "w"));
}

TEST(backward_hooks_run_where_no_input_takes_a_gradient) {
    cfx_module *m = cfx_module_new("W", times_weight, "x");
    cfx_nn_parameter(m, "w", cfx_requires_grad(number(3), true));
    cfx_module *seen = cfx_module_new_n("Seen", NULL, "");
    cfx_hook_handle *h = cfx_backward_hook(m, "", see_all, seen);
    cfx_backward(cfx_forward(m, number(2)));
    CHECK_STR(cfx_repr(cfx_module_attr(seen, "in")), "(None,)");
    CHECK_STR(cfx_repr(cfx_module_attr(seen, "out")), "(tensor([1.]),)");
    CHECK_NEAR(first(cfx_tensor_grad(cfx_attr(m, "w"))), 2, 0);
    cfx_hook_remove(h);
    CHECK_OK();
}

static cfx_value too_many(cfx_event *e) {
    cfx_value g = cfx_at(cfx_is_none(e->grad_in) ? e->grad_out : e->grad_in, 0);
    return cfx_tuple(g, g);
}

static cfx_value wrong_size(cfx_event *e) { return (void)e, cfx_tuple(cfx_ones(5)); }
static cfx_value no_tensor(cfx_event *e) { return (void)e, cfx_tuple(3); }

TEST(backward_hooks_that_return_the_wrong_thing) {
    static const struct {
        cfx_hook_kind kind;
        cfx_hook_fn *fn;
        const char *says;
    } cases[] = {
        {CFX_BACKWARD, too_many,
         "Backward hook returned an invalid number of grad_input, got 2, but expected 1"},
        {CFX_BACKWARD_PRE, too_many,
         "Backward pre hook returned an invalid number of grad_output, got 2, but expected 1"},
        {CFX_BACKWARD, wrong_size, "hook 'hook' has changed the size of value"},
        {CFX_BACKWARD, no_tensor, "expected Variable, but hook returned 'int'"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        cfx_module *m = doubler();
        cfx_hook_from(CFX_HERE, cases[i].kind, m, "", cases[i].fn, NULL, (cfx_hook_options){0});
        CHECK(!cfx_backward(cfx_forward(m, cfx_requires_grad(number(3), true))));
        const cfx_error *e = cfx_error_last();
        CHECK(e && e->at.file && strstr(e->at.file, "hooks_test.c"));
        CHECK_ERROR(cases[i].says);
    }
}
