/* Graphs of unkind shapes: everything that goes over a program takes time in proportion to its
 * size. Each way to use a program, and each pass, goes over one graph and one eight times as large
 * and has to end there. CFX_GROWTH=N makes them that large, and asks for the time as well: eight
 * times the work is fine and so is some more, sixty-four times is not. A time alone is no verdict
 * on a machine that has other work, so without it none is given. Tables alone are not asked: they
 * pad each line to the widest, so that their text itself may grow so. */
#include <cfx/ops.h>

#include "base/base.h"
#include "files.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES = 8 };

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef struct family {
    const char *name;
    cfx_value (*make)(cfx_graph *g, cfx_node *x, int n); /* the outputs */
} family;

static cfx_node *call(cfx_graph *g, const char *name, cfx_value args) {
    return cfx_graph_call_function(g, name, args, CFX_NONE);
}

static cfx_node *plus(cfx_graph *g, cfx_node *x, double k) {
    return call(g, "torch.ops.aten.add.Tensor", cfx_tuple(x, k));
}

static cfx_node *relu(cfx_graph *g, cfx_node *x) {
    return call(g, "torch.ops.aten.relu.default", cfx_tuple(x));
}

static cfx_value joined(cfx_graph *g, cfx_value list) {
    return cfx_tuple(call(g, "torch.ops.aten.cat.default", cfx_tuple(list)));
}

static cfx_value wide_in(cfx_graph *g, cfx_node *x, int n) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), cfx_node_value(plus(g, x, i)));
    return joined(g, list);
}

static cfx_value equal_nodes(cfx_graph *g, cfx_node *x, int n) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), cfx_node_value(relu(g, x)));
    return joined(g, list);
}

static cfx_value no_ops(cfx_graph *g, cfx_node *x, int n) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list), cfx_node_value(call(g, "torch.ops.aten.mul.Tensor",
                                                               cfx_tuple(plus(g, x, i), 1))));
    return joined(g, list);
}

static cfx_value constants(cfx_graph *g, cfx_node *x, int n) {
    cfx_value list = cfx_list(x);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(list),
                        cfx_node_value(call(g, "torch.ops.aten.full.default",
                                            cfx_tuple(cfx_list(2), (double)i))));
    return joined(g, list);
}

static cfx_value wide_out(cfx_graph *g, cfx_node *x, int n) {
    cfx_node *one = relu(g, x), *sum = one;
    for (int i = 0; i < n; i++)
        sum = call(g, "torch.ops.aten.add.Tensor", cfx_tuple(sum, one));
    return cfx_tuple(sum);
}

static cfx_value deep(cfx_graph *g, cfx_node *x, int n) {
    for (int i = 0; i < n; i++)
        x = i % 2 ? relu(g, x) : plus(g, x, i);
    return cfx_tuple(x);
}

static cfx_value many_outputs(cfx_graph *g, cfx_node *x, int n) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_node_value(plus(g, x, i)));
    return out;
}

static cfx_value same_outputs(cfx_graph *g, cfx_node *x, int n) {
    cfx_value out = cfx_tuple_value(0, NULL);
    cfx_node *one = relu(g, x);
    for (int i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_node_value(i % 2 ? one : relu(g, x)));
    return out;
}

static cfx_value dead(cfx_graph *g, cfx_node *x, int n) {
    for (int i = 0; i < n; i++)
        plus(g, x, i);
    return cfx_tuple(relu(g, x));
}

static cfx_value views(cfx_graph *g, cfx_node *x, int n) {
    cfx_node *sum = x;
    for (int i = 0; i < n / 2; i++) {
        cfx_node *v = call(g, "torch.ops.aten.view.default", cfx_tuple(x, cfx_list(2)));
        sum = call(g, "torch.ops.aten.add.Tensor", cfx_tuple(sum, v));
    }
    return cfx_tuple(sum);
}

static cfx_value parts(cfx_graph *g, cfx_node *x, int n) {
    cfx_value copies = cfx_list_value(0, NULL), out = cfx_tuple_value(0, NULL);
    for (int i = 0; i < n / 2; i++)
        cfx_list_append(cfx_as_list(copies), cfx_node_value(x));
    cfx_node *all = call(g, "torch.ops.aten.stack.default", cfx_tuple(copies));
    cfx_node *rows = call(g, "torch.ops.aten.unbind.int", cfx_tuple(all));
    for (int i = 0; i < n / 2; i++)
        cfx_list_append(cfx_as_list(out),
                        cfx_node_value(call(g, "operator.getitem", cfx_tuple(rows, i))));
    return out;
}

/* Nodes of modules within modules, each with a child of its own. */
static cfx_value modules(cfx_graph *g, cfx_node *x, int n) {
    enum { DEPTH = 40 };
    cfx_value stacks[DEPTH];
    cfx__text path = {0};
    for (int i = 0; i < DEPTH; i++) {
        cfx_dict *stack = cfx_dict_new(), *outer = i ? cfx_as_dict(stacks[i - 1]) : NULL;
        for (int64_t k = 0; outer && k < outer->len; k++)
            cfx_dict_put(stack, outer->entries[k].key, outer->entries[k].value);
        cfx__text_printf(&path, "%sm", i ? "." : "");
        cfx_dict_set(stack, path.data, cfx_tuple(path.data, "M"));
        stacks[i] = cfx_dict_value(stack);
    }
    cfx__text_release(&path);
    for (int i = 0; i < n; i++) {
        x = relu(g, x);
        cfx_node_set_meta(x, "nn_module_stack", stacks[i % DEPTH]);
    }
    return cfx_tuple(x);
}

/* Products with a weight each, which is a parameter. */
static cfx_value layers(cfx_graph *g, cfx_node *x, int n) {
    for (int i = 0; i < n / 3; i++) {
        cfx_node *w = NULL;
        CFX_INSERT_BEFORE(g, cfx_graph_find(g, "x"))
            w = cfx_graph_placeholder(g, "p_w", NULL, false, CFX_NONE);
        cfx_node_set_meta(w, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 2,
                                                                    (int64_t[]){2, 2}, NULL)));
        x = plus(g, call(g, "torch.ops.aten.linear.default", cfx_tuple(x, w)), i);
    }
    return cfx_tuple(x);
}

static const family families[] = {
    {"wide in", wide_in},   {"equal nodes", equal_nodes}, {"no-ops", no_ops},
    {"constants", constants}, {"wide out", wide_out},     {"deep", deep},
    {"many outputs", many_outputs}, {"same outputs", same_outputs}, {"dead", dead},
    {"views", views},       {"parts", parts}, {"modules", modules}, {"layers", layers}};

static cfx_program *program_of(const family *f, int n) {
    int64_t shape[] = {2};
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_placeholder(g, "x", NULL, false, CFX_NONE);
    cfx_node_set_meta(x, "val", cfx_tensor_value(cfx_tensor_fake(CFX_F32, 1, shape, NULL)));
    cfx_value out = f->make(g, x, n);
    cfx_graph_output(g, out);
    cfx_program *p = cfx_program_new(cfx_graph_module(NULL, g, "Unkind"));
    cfx_each_node(g, w) if (w->op == CFX_PLACEHOLDER && w != x) {
        cfx_dict_set(p->state, w->name,
                     cfx_tensor_value(cfx_tensor_from_value(cfx_list(cfx_list(0.0, 1.0),
                                                                     cfx_list(1.0, 0.0)))));
        cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_PARAMETER, .name = w->name,
                                                  .target = w->name});
    }
    cfx_program_add_input(p, (cfx_input_spec){.kind = CFX_IN_USER, .name = x->name});
    for (int64_t i = 0; i < cfx_as_list(out)->len; i++)
        cfx_program_add_output(p, (cfx_output_spec){
                                      .kind = CFX_OUT_USER,
                                      .name = cfx_as_node(cfx_as_list(out)->items[i])->name});
    cfx_program_infer(p);
    return p;
}

/* ---- ways to use one ------------------------------------------------------------------------- */

typedef struct way {
    const char *name;
    void (*go)(cfx_program *p);
} way;

static cfx_tensor *input(void) { return cfx_ones(cfx_list(2)); }

static void show(cfx_program *p) { cfx_graph_str(p->module->graph); }
static void code(cfx_program *p) { cfx_module_parse(cfx_module_code(p->module), "t"); }
static void tabular(cfx_program *p) { cfx_graph_tabular(p->module->graph); }
static void readable(cfx_program *p) {
    cfx_module_readable(p->module, (cfx_readable_options){0});
}
static void text(cfx_program *p) { cfx_program_parse(cfx_program_fx(p), "t"); }
static void cost(cfx_program *p) { cfx_program_cost(p, NULL); }
static void dot(cfx_program *p) { cfx_program_draw(p, (cfx_draw_options){.form = CFX_DOT}); }
static void svg(cfx_program *p) { cfx_program_draw(p, (cfx_draw_options){.form = CFX_SVG}); }
static void html(cfx_program *p) { cfx_program_draw(p, (cfx_draw_options){.form = CFX_HTML}); }
static void check(cfx_program *p) { cfx_program_check(p); }
static void copy(cfx_program *p) { cfx_program_copy(p); }
static void interpret(cfx_program *p) {
    cfx_program_run_with((cfx_site){0}, p, &cfx_interpreter, NULL, CFX_ARGS(input()));
}
static void plan(cfx_program *p) {
    cfx_program_run_with((cfx_site){0}, p, &cfx_planner, NULL, CFX_ARGS(input()));
    cfx_program_plan(p, input());
}
static void decompose(cfx_program *p) { cfx_decompose(p, CFX_NONE); }
static void functionalize(cfx_program *p) { cfx_program_functionalize(p); }
static void optimize(cfx_program *p) { cfx_optimize(p); }
static void save(cfx_program *p) {
    cfx_save(p, test_path("m.pt2"));
    cfx_open(test_path("m.pt2"));
    test_unlink("m.pt2");
}
static void stages(cfx_program *p) {
    cfx_split_stages(cfx_program_module(p), 3, CFX_STAGE_BYTES, (cfx_split_options){0});
}
static void extract(cfx_program *p) {
    cfx_node *middle = NULL;
    int64_t k = cfx_graph_len(p->module->graph) / 2;
    cfx_each_node(p->module->graph, n) if (k-- == 0) middle = n;
    cfx_program_extract(p, NULL, middle->name);
}
static void rules(cfx_program *p) {
    cfx_rewrite(p, cfx_rules_parse("a: relu(x) -> sigmoid(x)\nb: x + 1 -> x\nc: x * 1 -> x\n", "t"),
                NULL);
}
static void onnx(cfx_program *p) {
    cfx_save(p, test_path("m.onnx"));
    test_unlink("m.onnx");
}
static void c(cfx_program *p) { cfx_compile_text(p, NULL); }
static void quantize(cfx_program *p) {
    cfx_quantize(p, CFX_NONE, (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT,
                                                     .skip = CFX_NONE});
}
static void dynamic(cfx_program *p) {
    cfx_dict *sizes = cfx_dict_new();
    cfx_dict_set(sizes, "in0.0", cfx_string_value("s"));
    cfx_make_dynamic(p, sizes);
}
static void train(cfx_program *p) {
    cfx_module *m = cfx_program_module(p);
    cfx_value v = cfx_forward_value(m, cfx_requires_grad(input(), true));
    if (v.tag == CFX_TAG_TENSOR)
        cfx_backward(cfx_sum(v));
}

static const way ways[] = {
    {"graph text", show}, {"code", code}, {"tabular", tabular}, {"readable", readable},
    {"fx text", text}, {"cost", cost}, {"dot", dot}, {"svg", svg}, {"html", html},
    {"check", check}, {"copy", copy}, {"run", interpret}, {"plan", plan},
    {"decompose", decompose}, {"functionalize", functionalize}, {"optimize", optimize},
    {"save", save}, {"stages", stages}, {"extract", extract}, {"rules", rules}, {"train", train},
    {"onnx", onnx}, {"c", c}, {"quantize", quantize}, {"dynamic", dynamic}};

/* ---- time ------------------------------------------------------------------------------------ */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other threads may only wait */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One graph, and one that is TIMES as large. */
typedef struct sizes {
    const char *name;
    cfx_program *small, *large;
} sizes;

static sizes sizes_of(const family *f) {
    const char *given = getenv("CFX_GROWTH");
    int n = given ? atoi(given) : 120;
    return (sizes){f->name, program_of(f, n), program_of(f, TIMES * n)};
}

/* The time of a way, or of a pass. */
static double time_of(cfx_program *p, const way *w, const cfx_pass *pass) {
    size_t mark = cfx_scope_open();
    p = cfx_program_copy(p); /* which nothing is known of yet */
    double start = seconds();
    if (w)
        w->go(p);
    else
        cfx_pass_apply(pass, p, NULL);
    double took = seconds() - start;
    cfx_error_clear(); /* that it cannot be done is an answer */
    cfx_scope_close(mark);
    return took;
}

static void grows(const sizes *s, const way *w, const cfx_pass *pass) {
    double large = time_of(s->large, w, pass), most = 5 * TIMES;
    if (!getenv("CFX_GROWTH") || large < 0.03) /* whatever it is of the small one */
        return;
    double small = time_of(s->small, w, pass), again = time_of(s->small, w, pass);
    small = again < small ? again : small;
    if (w && w->go == tabular)
        most = 5 * TIMES * TIMES;
    if (!CHECK(large < 0.03 + most * small))
        printf("  %s of %s: %.1f ms, %.1f ms for %d times as much\n", w ? w->name : pass->name,
               s->name, small * 1e3, large * 1e3, TIMES);
}

/* A graph that nobody has finished yet: whatever is done with it ends in a result or an error. */
TEST(programs_without_an_output) {
    for (int i = 0; i < COUNT(ways) || cfx_pass_number(i - COUNT(ways)); i++)
        CFX_SCOPE {
            cfx_program *p = program_of(&families[0], 3);
            cfx_graph_erase(cfx_graph_output_node(p->module->graph));
            CHECK_OK();
            time_of(p, i < COUNT(ways) ? &ways[i] : NULL,
                    i < COUNT(ways) ? NULL : cfx_pass_number(i - COUNT(ways)));
        }
}

TEST(ways_to_use_a_program_take_time_in_proportion) {
    for (int i = 0; i < COUNT(families); i++)
        CFX_SCOPE {
            sizes s = sizes_of(&families[i]);
            for (int j = 0; j < COUNT(ways); j++)
                grows(&s, &ways[j], NULL);
        }
    CHECK_OK();
}

TEST(passes_take_time_in_proportion) {
    for (int i = 0; i < COUNT(families); i++)
        CFX_SCOPE {
            sizes s = sizes_of(&families[i]);
            for (int k = 0; cfx_pass_number(k); k++)
                grows(&s, NULL, cfx_pass_number(k));
        }
    CHECK_OK();
}
