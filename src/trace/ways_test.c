/* Start at ways_check, then see the models of the tests at the end. */
#include "ways_test.h"

/* ---- what a module gives --------------------------------------------------------------------- */

static cfx_args args_of(cfx_value args) {
    const cfx_list *a = cfx_as_list(args);
    return (cfx_args){(int)a->len, a->items, NULL};
}

static bool is_float(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR && cfx_tensor_dtype(cfx_as_tensor(v)) == CFX_F32;
}

/* The arguments as tensors of their own, which take gradients. */
static cfx_value fresh(cfx_value args, bool grad) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < cfx_len(args); i++) {
        cfx_value v = cfx_at(args, i);
        cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_clone(v) : NULL;
        if (grad && is_float(v))
            t = cfx_requires_grad(t, true);
        cfx_list_append(cfx_as_list(out), t ? cfx_tensor_value(t) : v);
    }
    return out;
}

/* None and zeros are one: cond gives operands zeros where nothing flowed. */
static cfx_value gradient_of(const cfx_tensor *t) {
    cfx_tensor *g = t ? cfx_tensor_grad(t) : NULL;
    return g && cfx_is_true(cfx_any(g)) ? cfx_tensor_value(g) : cfx_none();
}

/* "inner.a.weight" and "true_graph_0.a.weight" are "a.weight". */
static const char *own_name(const char *path) {
    const char *name = path;
    for (const char *dot = path; (dot = strchr(dot, '.')); dot++)
        if (strchr(dot + 1, '.') || !strcmp(dot, ".weight_of_all"))
            name = dot + 1;
    return name;
}

/* The results of m on the arguments, whether gradients flow to them, the gradients of these, and
 * those of the parameters. */
static cfx_dict *outcome(cfx_module *m, cfx_value args, bool grad) {
    cfx_value leaves = cfx_list(), own = fresh(args, grad);
    cfx_dict *params = cfx_module_named_parameters(m), *out = cfx_dict_new();
    cfx_module_zero_grad(m);
    cfx_tree_flatten(cfx_forward_value_from(CFX_HERE, m, args_of(own)), cfx_as_list(leaves));
    cfx_tensor *loss = NULL;
    for (int64_t i = 0; i < cfx_len(leaves) && cfx_ok(); i++) {
        cfx_value v = cfx_at(leaves, i);
        bool flows = is_float(v) && cfx_tensor_requires_grad(cfx_as_tensor(v));
        cfx_dict_set(out, cfx__text_format("result %d", (int)i), v);
        if (grad)
            cfx_dict_set(out, cfx__text_format("flow %d", (int)i), cfx_bool(flows));
        if (grad && flows)
            loss = cfx_add(loss ? loss : cfx_zeros(1), cfx_sum(cfx_mul(v, (double)(i + 1))));
    }
    if (loss && cfx_ok())
        cfx_backward(loss);
    for (int64_t i = 0; grad && i < cfx_len(own) && cfx_ok(); i++)
        if (is_float(cfx_at(own, i)))
            cfx_dict_set(out, cfx__text_format("grad %d", (int)i),
                         gradient_of(cfx_as_tensor(cfx_at(own, i))));
    for (int64_t i = 0; grad && i < params->len && cfx_ok(); i++)
        cfx_dict_set(out, own_name(cfx_text(params->entries[i].key)),
                     gradient_of(cfx_as_tensor(params->entries[i].value)));
    return out;
}

static bool same(cfx_value a, cfx_value b) {
    if (a.tag != b.tag)
        return false;
    if (a.tag != CFX_TAG_TENSOR)
        return cfx_equal_values(a, b);
    const cfx_tensor *s = cfx_as_tensor(a), *t = cfx_as_tensor(b);
    return cfx_tensor_dtype(s) == cfx_tensor_dtype(t) &&
           cfx_tensor_numel(s) == cfx_tensor_numel(t) &&
           cfx_is_true(cfx_allclose(a, b, 1e-4, 1e-5, true));
}

/* Whatever the module has the other has as well. */
static void compare(const ways_model *m, const char *way, int k, cfx_dict *got, cfx_dict *want) {
    if (!cfx_ok()) {
        test_fail(CFX_HERE, "%s, %s, input %d: %s", m->name, way, k, cfx_error_last()->message);
        cfx_error_clear();
        return;
    }
    for (int64_t i = 0; i < want->len; i++) {
        cfx_value a = cfx_dict_get(got, cfx_text(want->entries[i].key));
        if (same(a, want->entries[i].value))
            continue;
        test_fail(CFX_HERE, "%s, %s, input %d: %s is %s, not %s", m->name, way, k,
                  cfx_text(want->entries[i].key), cfx_str(a), cfx_str(want->entries[i].value));
        return;
    }
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* A layer in a layer of a module. */
static cfx_value as_layer(cfx_module *self, cfx_args a) {
    return cfx_forward_value_from(CFX_HERE, cfx_module_find(self, "inner"), a);
}

static cfx_module *layered(int64_t nargs, cfx_module *inner) {
    cfx_module *m = cfx_module_new("Layer", as_layer, nargs > 1 ? "x, n" : "x");
    cfx_nn_add(m, "inner", inner);
    return m;
}

enum { MOST = 32 };

typedef struct {
    int n;
    struct {
        const char *name;
        cfx_module *made;
        bool sized; /* the first dimension of the first argument may be any */
        bool core;  /* it is decomposed */
    } at[MOST];
} way_list;

static void add(way_list *w, const char *name, cfx_module *made, bool sized) {
    w->at[w->n].name = name;
    w->at[w->n].made = made;
    w->at[w->n++].sized = sized;
}

static void add_program(way_list *w, const char *name, cfx_program *p, bool sized) {
    add(w, name, cfx_program_module(p), sized);
}

static cfx_program *reopened(cfx_program *p, const char *file) {
    const char *path = test_path(file);
    cfx_save(p, path);
    return cfx_open(path);
}

static cfx_program *exported(cfx_module *m, cfx_value args) {
    return cfx_export(m, args, CFX_NONE, CFX_NONE);
}

static cfx_program *sized(cfx_module *m, cfx_value args) {
    return cfx_export(m, args, CFX_NONE, batch_of("x"));
}

/* p, decomposed. */
static void add_core(way_list *w, const char *name, cfx_program *p, bool any_size) {
    add_program(w, name, cfx_decompose(p, CFX_NONE), any_size);
    w->at[w->n - 1].core = true;
}

static void add_exported(way_list *w, cfx_module *self, cfx_value args, bool mixed) {
    cfx_program *p = exported(self, args), *q = exported(cfx_program_module(p), args);
    add_program(w, "exported", p, false);
    add_program(w, "exported again", q, false);
    add_core(w, "decomposed", p, false);
    add_core(w, "exported again, decomposed", q, false);
    add_program(w, "saved", reopened(p, "ways.fx"), false);
    cfx_module *opened = cfx_program_module(reopened(q, mixed ? "ways.fx" : "ways.pt2"));
    add_program(w, "saved, opened, exported", exported(opened, args), false);
    cfx_module_set_attr(opened, "validate_inputs", cfx_bool(false)); /* which has sizes fixed */
    cfx_program *s = sized(opened, args);
    add_program(w, "exported at sizes that vary", s, true);
    add_core(w, "decomposed at sizes that vary", s, true);
    add_program(w, "exported again at sizes that vary", sized(cfx_program_module(s), args), true);
}

static void add_layers(way_list *w, cfx_module *self, cfx_value args) {
    cfx_module *inner = cfx_program_module(exported(self, args));
    cfx_module *twice = layered(cfx_len(args), layered(cfx_len(args), inner));
    add(w, "a layer", twice, false);
    cfx_program *p = exported(twice, args);
    add_program(w, "a layer, exported", p, false);
    add_core(w, "a layer, decomposed", p, false);
    cfx_module *traced = cfx_symbolic_trace(twice);
    add(w, "a layer, traced", traced, false);
    add_program(w, "a layer, traced, exported", exported(traced, args), false);
}

static void add_traced(way_list *w, cfx_module *self, cfx_value args) {
    cfx_module *t = cfx_symbolic_trace(self), *again = cfx_symbolic_trace(t);
    add(w, "traced", t, true);
    add(w, "traced again", again, true);
    add_program(w, "traced, exported", exported(t, args), false);
    add_program(w, "traced again, exported at sizes that vary", sized(again, args), true);
}

/* The arguments with the first of them twice as long. */
static cfx_value longer(cfx_value args) {
    cfx_value out = cfx_tuple(cfx_cat(cfx_list(cfx_at(args, 0), cfx_mul(cfx_at(args, 0), 0.5))));
    for (int64_t i = 1; i < cfx_len(args); i++)
        cfx_list_append(cfx_as_list(out), cfx_at(args, i));
    return out;
}

static void check_inputs(const ways_model *m, const way_list *w, bool other_size) {
    cfx_manual_seed(0);
    cfx_module *self = m->make();
    for (int k = 0; k < m->ninputs; k++) {
        cfx_value args = other_size ? longer(m->input(k)) : m->input(k);
        cfx_dict *want = outcome(self, args, !m->plain), *values = outcome(self, args, false);
        for (int i = 0; i < w->n && CHECK_OK(); i++) {
            bool grad = !m->plain && !(m->modes && w->at[i].core);
            if (!other_size || w->at[i].sized)
                compare(m, w->at[i].name, k, outcome(w->at[i].made, args, grad),
                        grad ? want : values);
        }
    }
}

void ways_check(const ways_model *m) {
    way_list w = {0};
    cfx_manual_seed(0);
    cfx_module *self = m->make();
    cfx_value args = m->input(0);
    add_exported(&w, self, args, m->mixed);
    add_layers(&w, self, args);
    if (!m->opaque)
        add_traced(&w, self, args);
    if (!CHECK_OK()) {
        test_fail(CFX_HERE, "%s", m->name);
        return;
    }
    check_inputs(m, &w, false);
    check_inputs(m, &w, true);
    test_unlink("ways.fx"), test_unlink("ways.safetensors"), test_unlink("ways.pt2");
    test_folder_done();
}

/* ---- control flow ---------------------------------------------------------------------------- */

/* Two rows of numbers, above zero, below, and around it. */
static cfx_tensor *numbers(int k) {
    cfx_manual_seed(3);
    cfx_tensor *x = cfx_rand(3, 4);
    return k == 0 ? x : k == 1 ? cfx_neg(x) : k == 2 ? cfx_sub(x, 0.5) : cfx_sub(0.4, x);
}

static cfx_value one(int k) { return cfx_tuple(numbers(k)); }

static cfx_module *with_layers(const char *type, cfx_forward_fn *forward, const char *signature) {
    cfx_module *m = cfx_module_new(type, forward, signature);
    cfx_nn_add(m, "a", cfx_nn_linear(4, 4));
    cfx_nn_add(m, "b", cfx_nn_linear(4, 4));
    cfx_nn_parameter(m, "weight_of_all", cfx_rand(4));
    cfx_module_requires_grad(m, true);
    return m;
}

static cfx_value with_a(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_relu(cfx_call(self, "a", a.v[0])));
}

static cfx_value with_b(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_sin(cfx_call(self, "b", a.v[0])));
}

static cfx_value times_weight(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_mul(a.v[0], cfx_attr(self, "weight_of_all")));
}

static cfx_value choose(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), with_a, with_b, a.v[0]);
}

static cfx_module *choosing(void) { return with_layers("Choose", choose, "x"); }

static cfx_value inner(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_lt(cfx_mean(a.v[0]), 0.1), times_weight, with_b, a.v[0]);
}

static cfx_value choose_twice(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_amax(a.v[0]), 0.2), with_a, inner, a.v[0]);
    return cfx_tuple(cfx_cond(self, cfx_gt(cfx_amin(a.v[0]), -0.3), inner, times_weight, y),
                     cfx_mul(y, 2));
}

static cfx_module *choosing_twice(void) { return with_layers("Twice", choose_twice, "x"); }

static cfx_value below(cfx_module *self, cfx_args a) {
    (void)self;
    return cfx_tensor_value(cfx_lt(a.v[0], 3));
}

static cfx_value next(cfx_module *self, cfx_args a) {
    return cfx_tuple(cfx_add(a.v[0], 1), cfx_tanh(cfx_call(self, "a", a.v[1])));
}

static cfx_value next_chosen(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[1]), 0), with_a, with_b, a.v[1]);
    return cfx_tuple(cfx_add(a.v[0], 1), y);
}

static cfx_value repeat(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, below, next, a.v[1], a.v[0]);
}

static cfx_value repeat_chosen(cfx_module *self, cfx_args a) {
    return cfx_while_loop(self, below, next_chosen, a.v[1], a.v[0]);
}

static cfx_value counted(int k) {
    return cfx_tuple(numbers(k), cfx_tensor_from_value(cfx_int(4 - 2 * k)));
}

static cfx_module *repeating(void) { return with_layers("Repeat", repeat, "x, n"); }

static cfx_module *repeating_chosen(void) { return with_layers("Chosen", repeat_chosen, "x, n"); }

static cfx_value of_row(cfx_module *self, cfx_args a) {
    return cfx_cond(self, cfx_gt(cfx_sum(a.v[0]), 0), with_a, times_weight, a.v[0]);
}

static cfx_value over_rows(cfx_module *self, cfx_args a) { return cfx_map(self, of_row, a.v[0]); }

static cfx_module *mapping(void) { return with_layers("Map", over_rows, "x"); }

static cfx_value carry_on(cfx_module *self, cfx_args a) {
    cfx_value y = cfx_cond(self, cfx_gt(cfx_sum(a.v[1]), 0), with_a, with_b, a.v[1]);
    cfx_tensor *h = cfx_tanh(cfx_add(y, a.v[0]));
    return cfx_tuple(h, cfx_mul(h, 2));
}

static cfx_value scan_rows(cfx_module *self, cfx_args a) {
    return cfx_scan(self, carry_on, cfx_attr(self, "weight_of_all"), a.v[0], .reverse = true);
}

static cfx_module *scanning(void) { return with_layers("Scan", scan_rows, "x"); }

static cfx_value combine(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_mul(cfx_add(a.v[0], a.v[1]), cfx_attr(self, "weight_of_all")));
}

static cfx_value combine_rows(cfx_module *self, cfx_args a) {
    return cfx_associative_scan(self, combine, a.v[0]);
}

static cfx_module *combining(void) { return with_layers("Combine", combine_rows, "x"); }

TEST(control_flow_is_the_same_whichever_way_a_module_goes) {
    static const ways_model models[] = {
        {"cond", choosing, one, 4, false, false, false, false},
        {"cond in cond", choosing_twice, one, 4, false, false, false, false},
        {"while_loop", repeating, counted, 4, false, true, false, false},
        {"cond in while_loop", repeating_chosen, counted, 4, false, true, false, false},
        {"cond in map", mapping, one, 4, false, false, false, false},
        {"cond in scan", scanning, one, 4, true, false, false, false},
        {"associative_scan", combining, one, 4, true, false, false, false},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        CFX_SCOPE ways_check(&models[i]);
}
