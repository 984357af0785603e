/* Paths through the library: see paths.h. */
#include "paths.h"

#include "../src/base/base.h"
#include "files.h"

#include <limits.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"
#define BERT "examples/data/distilbert"

static char stem[PATH_MAX]; /* of the files that are saved */

void paths_begin(void) { snprintf(stem, sizeof stem, "%s", test_path("saved")); }

/* The file of that ending; until the next call. */
static const char *saved_as(const char *ending) {
    static char name[sizeof stem + 16];
    snprintf(name, sizeof name, "%s.%s", stem, ending);
    return name;
}

static cfx_program *opened(const char *folder) {
    return cfx_open(cfx__text_format("%s/model.pt2", folder));
}

static const char *shown(cfx_program *p) {
    if (cfx_failed(p))
        return NULL;
    return cfx__text_format("%s\n%s\n%s\n%s", cfx_program_str(p), cfx_graph_str(p->module->graph),
                            cfx_module_code(p->module), cfx_graph_tabular(p->module->graph));
}

static const char *show(const char *folder) { return shown(opened(folder)); }

/* ---- running --------------------------------------------------------------------------------- */

static cfx_value inputs(const char *folder, cfx_program *p) {
    cfx_dict *d = cfx_safetensors_read(cfx__text_format("%s/inputs.safetensors", folder));
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; !cfx_failed(p) && d && i < d->len; i++)
        cfx_list_append(cfx_as_list(list), cfx_dict_get(d, cfx__text_format("in%d", (int)i)));
    return list;
}

static const char *run(const char *folder, const cfx_executor *x) {
    cfx_program *p = opened(folder);
    cfx_value in = inputs(folder, p);
    if (!cfx_ok())
        return NULL;
    cfx_args args = {(int)cfx_as_list(in)->len, cfx_as_list(in)->items, NULL};
    return cfx_str(cfx_program_run_with((cfx_site){0}, p, x, NULL, args));
}

static const char *plan(const char *folder) { return run(folder, &cfx_planner); }
static const char *interpret(const char *folder) { return run(folder, &cfx_interpreter); }

const char *paths_instead(const path *p) { return p->go == plan ? interpret(p->file) : NULL; }

/* ---- changes --------------------------------------------------------------------------------- */

static const char *decompose(const char *folder) {
    return cfx_program_str(cfx_decompose(opened(folder), CFX_NONE));
}

static const char *optimize(const char *folder) {
    return cfx_program_str(cfx_optimize(opened(folder)));
}

/* Every pass there is, each on the program as it was. */
static const char *every_pass(const char *folder) {
    cfx_program *p = opened(folder);
    cfx__text out = {0};
    for (int i = 0; cfx_pass_number(i) && cfx_ok(); i++)
        CFX_SCOPE {
            cfx_program *changed = cfx_program_copy(p);
            cfx_pass_apply(cfx_pass_number(i), changed, NULL);
            if (cfx_ok())
                cfx__text_puts(&out, cfx_program_str(changed));
        }
    return cfx__text_take(&out);
}

static const char *rewrite(const char *folder) {
    cfx_rules *r = cfx_rules_parse("a: relu(x) -> sigmoid(x)\n", "rules");
    return cfx_program_str(cfx_rewrite(opened(folder), r, NULL));
}

static const char *split(const char *folder) {
    cfx_module *m = cfx_program_module(opened(folder));
    return cfx_module_code(cfx_split_stages(m, 2, CFX_STAGE_BYTES, (cfx_split_options){0}));
}

static const char *extract(const char *folder) {
    return cfx_program_str(cfx_program_extract(opened(folder), NULL, "relu"));
}

/* What comparing two programs and counting what they take stand on. */
static const char *pair(const char *folder) {
    cfx_program *a = opened(folder), *b = cfx_optimize(a);
    const cfx_pairs *found = cfx_program_pair(a, b);
    cfx_cost *cost = cfx_program_cost(a, NULL);
    return !cfx_failed(found) && !cfx_failed(cost) ? cfx__text_format("%d pairs", found->n) : NULL;
}

/* ---- pictures and files ---------------------------------------------------------------------- */

static const char *draw(const char *folder, cfx_draw_form form) {
    return cfx_program_draw(opened(folder), (cfx_draw_options){.form = form});
}

static const char *draw_svg(const char *folder) { return draw(folder, CFX_SVG); }
static const char *draw_dot(const char *folder) { return draw(folder, CFX_DOT); }
static const char *draw_html(const char *folder) { return draw(folder, CFX_HTML); }

static const char *save_as(const char *folder, const char *ending) {
    const char *file = saved_as(ending);
    cfx_program *p = opened(folder);
    bool ok = cfx_save(p, file);
    const char *text = ok ? shown(cfx_open(file)) : NULL;
    unlink(file);
    if (!strcmp(ending, "fx"))
        unlink(saved_as("safetensors"));
    return text;
}

static const char *save_pt2(const char *folder) { return save_as(folder, "pt2"); }
static const char *save_fx(const char *folder) { return save_as(folder, "fx"); }
static const char *save_onnx(const char *folder) { return save_as(folder, "onnx"); }

static const char *save_pt(const char *none) {
    (void)none;
    const char *file = saved_as("pt");
    bool ok = cfx_torch_save(file, cfx_list(cfx_ones(3, 4), "word", cfx_tuple(1, 2.5)));
    const char *text = ok ? cfx_str(cfx_torch_load(file)) : NULL;
    unlink(file);
    return text;
}

/* ---- modules --------------------------------------------------------------------------------- */

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    return cfx_call(self, "fc2", cfx_relu(cfx_call(self, "fc1", x)));
}

static cfx_module *mlp_of(int64_t width) {
    cfx_manual_seed(7);
    cfx_module *m = cfx_module_new("MLP", forward, "x");
    cfx_nn_add(m, "fc1", cfx_nn_linear(width, 80));
    cfx_nn_add(m, "fc2", cfx_nn_linear(80, 2));
    return m;
}

static const char *trace(const char *none) {
    (void)none;
    cfx_module *gm = cfx_symbolic_trace(mlp_of(4));
    return cfx__text_format("%s%s", cfx_module_code(gm), cfx_str(cfx_forward(gm, cfx_ones(3, 4))));
}

static const char *export_mlp(const char *none) {
    (void)none;
    cfx_program *p = cfx_export(mlp_of(4), cfx_tuple(cfx_ones(3, 4)), CFX_NONE, CFX_NONE);
    return cfx_program_str(p);
}

static const char *train(const char *none) {
    (void)none;
    cfx_module *m = mlp_of(4);
    cfx_optim *o = cfx_sgd(m, .lr = 0.1, .momentum = 0.9);
    cfx_tensor *loss = NULL;
    for (int i = 0; i < 2; i++) {
        cfx_optim_zero_grad(o);
        loss = cfx_mean(cfx_pow(cfx_forward(m, cfx_ones(30, 4)), 2));
        cfx_backward(loss);
        cfx_optim_step(o);
    }
    return cfx_str(loss);
}

/* Layers that compute step by step, called and exported. */
static const char *recurrent(const char *kind) {
    cfx_manual_seed(7);
    cfx_module *m = !strcmp(kind, "LSTM")
                        ? cfx_nn_lstm(4, 5, .num_layers = 2, .dropout = 0.5, .bidirectional = true)
                    : !strcmp(kind, "GRU") ? cfx_nn_gru(4, 5, .num_layers = 2, .batch_first = true)
                                           : cfx_nn_rnn(4, 5, .num_layers = 2);
    cfx_tensor *x = cfx_ones(3, 2, 4);
    cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD); /* one kernel, not its parts */
    cfx_value out = cfx_forward_value(m, x);
    cfx_set_grad_mode(before);
    cfx_value recorded = cfx_forward_value(m, x);
    cfx_module_train(m, false);
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_value planned = cfx_program_run_with((cfx_site){0}, p, &cfx_planner, NULL, CFX_ARGS(x));
    return cfx__text_format("%s\n%s\n%s\n%s", cfx_str(out), cfx_str(recorded), cfx_str(planned),
                            cfx_program_str(cfx_decompose(p, CFX_NONE)));
}

/* Operators whose arguments have to fit each other, so that random ones seldom do (see
 * fuzz_ops_test.c): products, windows, indices, factorizations, losses. */
static const char *operators(const char *none) {
    (void)none;
    cfx_manual_seed(7);
    cfx_tensor *m = cfx_randn(cfx_list(4, 4)), *b = cfx_randn(cfx_list(2, 4, 4));
    cfx_tensor *v = cfx_randn(cfx_list(4)), *image = cfx_randn(cfx_list(2, 4, 6, 6));
    cfx_tensor *spd = cfx_add(cfx_mm(m, cfx_t(m)), cfx_mul(cfx_eye(4), 4));
    cfx_tensor *i = cfx_tensor_from_value(cfx_list(2, 0, 1));
    cfx_tensor *target = cfx_tensor_from_value(cfx_list(1, 3, 0, 2));
    cfx_tensor *rois = cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0, 0.0, 4.0, 4.0)));
    cfx_tensor *boxes =
        cfx_tensor_from_value(cfx_list(cfx_list(0.0, 0.0, 2.0, 2.0), cfx_list(0.0, 0.0, 2.0, 1.9)));
    cfx_value first = cfx_list(
        cfx_addmm(m, m, m), cfx_baddbmm(b, b, b), cfx_addbmm(m, b, b), cfx_addmv(v, m, v),
        cfx_dot(v, v), cfx_linear(b, m, v), cfx_einsum("bij,bjk->bik", cfx_list(b, b)),
        cfx_conv2d(image, cfx_randn(cfx_list(4, 2, 3, 3)), NULL, 1, 1, 1, 2),
        cfx_conv_transpose2d(image, cfx_randn(cfx_list(4, 2, 3, 3))),
        cfx_conv1d(b, cfx_randn(cfx_list(4, 4, 2))), cfx_max_pool2d(image, 2),
        cfx_avg_pool2d(image, 3, 2, 1), cfx_adaptive_avg_pool2d(image, cfx_list(3, 5)),
        cfx_layer_norm(image, cfx_list(6)), cfx_group_norm(image, 2),
        cfx_batch_norm(image, NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false),
        cfx_scaled_dot_product_attention(b, b, b), cfx_embedding(m, i), cfx_index_select(m, 0, i),
        cfx_index_add(m, 0, i, cfx_ones(3, 4)),
        cfx_scatter_add(m, 0, cfx_zeros_like(m, CFX_KW(dtype, cfx_dtype_value(CFX_I64))), m));
    cfx_value second =
        cfx_list(cfx_grid_sampler(image, cfx_zeros(2, 3, 3, 2), 0, 0, false),
                 cfx_upsample_bicubic2d(image, cfx_list(9, 9), false),
                 cfx_im2col(image, cfx_list(2, 2), cfx_list(1, 1), cfx_list(0, 0), cfx_list(1, 1)),
                 cfx_reflection_pad2d(image, cfx_list(1, 1, 1, 1)), cfx_nll_loss(m, target),
                 cfx_cross_entropy_loss(m, target), cfx_multi_margin_loss(m, target),
                 cfx_repeat_interleave(m, 2), cfx_linalg_inv(spd), cfx_linalg_solve(spd, v),
                 cfx_linalg_cholesky(spd), cfx_linalg_eigh(spd), cfx_linalg_svd(m),
                 cfx_linalg_qr(m), cfx_fft_fft(m), cfx_fft_rfft(m), cfx_roll(m, 1), cfx_cdist(m, m),
                 cfx_sort(m), cfx_torchvision_roi_align(image, rois, 1.0, 2, 2, 1, false),
                 cfx_torchvision_nms(boxes, cfx_ones(2), 0.5));
    return cfx__text_format("%s\n%s", cfx_str(first), cfx_str(second));
}

/* ---- quantized ------------------------------------------------------------------------------- */

/* Quantizes, runs by the plan, saves and opens again. */
static const char *quantize(cfx_quantize_options o) {
    cfx_module *m = mlp_of(64); /* which seeds */
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    cfx_program *p = cfx_export(m, cfx_tuple(x), CFX_NONE, CFX_NONE);
    cfx_value batches = o.scheme == CFX_QUANTIZE_STATIC ? cfx_list(cfx_tuple(x)) : CFX_NONE;
    const cfx_quantized *q = cfx_quantize(p, batches, o);
    if (cfx_failed(q))
        return NULL;
    cfx_value out =
        cfx_program_run_with((cfx_site){0}, q->program, &cfx_planner, NULL, CFX_ARGS(x));
    const char *file = saved_as("pt2");
    const char *text = cfx_save(q->program, file) ? shown(cfx_open(file)) : NULL;
    unlink(file);
    return text ? cfx__text_format("%s\n%s", cfx_str(out), text) : NULL;
}

static const char *quantize_static(const char *none) {
    (void)none;
    return quantize((cfx_quantize_options){0});
}

static const char *quantize_dynamic(const char *none) {
    (void)none;
    return quantize((cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC});
}

static const char *quantize_int4(const char *none) {
    (void)none;
    return quantize((cfx_quantize_options){
        .scheme = CFX_QUANTIZE_WEIGHT, .bits = 4, .per = CFX_QUANTIZE_GROUP});
}

/* Modules, as torch.ao.quantization does it. */
static const char *quantize_modules(const char *none) {
    (void)none;
    cfx_module *m = mlp_of(64);
    cfx_tensor *x = cfx_randn(cfx_list(3, 64));
    cfx_module_train(m, false);
    cfx_module *prepared = cfx_prepare_fx(m, cfx_qconfig_mapping_default("x86"));
    cfx_forward(prepared, x);
    cfx_module *converted = cfx_convert_fx(prepared);
    return cfx__text_format("%s%s", cfx_module_code(converted), cfx_str(cfx_forward(converted, x)));
}

const path paths[] = {{"show", "show seed_mlp", show, ZOO "seed_mlp"},
                      {"show", "show dyn_conv", show, ZOO "dyn_conv"},
                      {"show", "show cond", show, ZOO "cond"},
                      {"run", "plan seed_mlp", plan, ZOO "seed_mlp"},
                      {"run", "plan dyn_conv", plan, ZOO "dyn_conv"},
                      {"run", "plan cond", plan, ZOO "cond"},
                      {"run", "plan while_loop", plan, ZOO "while_loop"},
                      {"run", "plan index_zoo", plan, ZOO "index_zoo"},
                      {"run", "plan distilbert", plan, BERT},
                      {"run", "interpret dyn_conv", interpret, ZOO "dyn_conv"},
                      {"run", "interpret cond", interpret, ZOO "cond"},
                      {"decompose", "decompose dyn_conv", decompose, ZOO "dyn_conv"},
                      {"decompose", "decompose index_zoo", decompose, ZOO "index_zoo"},
                      {"decompose", "decompose cond", decompose, ZOO "cond"},
                      {"decompose", "decompose while_loop", decompose, ZOO "while_loop"},
                      {"decompose", "decompose distilbert", decompose, BERT},
                      {"draw", "draw .svg", draw_svg, ZOO "dyn_conv"},
                      {"draw", "draw .dot", draw_dot, ZOO "dyn_conv"},
                      {"draw", "draw .html", draw_html, ZOO "dyn_conv"},
                      {"change", "optimize", optimize, ZOO "dyn_conv"},
                      {"change", "every pass", every_pass, ZOO "cond"},
                      {"change", "rewrite", rewrite, ZOO "seed_mlp"},
                      {"change", "split", split, ZOO "seed_mlp"},
                      {"change", "extract", extract, ZOO "seed_mlp"},
                      {"change", "pair", pair, ZOO "dyn_conv"},
                      {"save", "save .pt2", save_pt2, ZOO "seed_mlp"},
                      {"save", "save .fx", save_fx, ZOO "seed_mlp"},
                      {"save", "save .onnx", save_onnx, ZOO "seed_mlp"},
                      {"save", "save cond as .onnx", save_onnx, ZOO "cond"},
                      {"save", "save .pt", save_pt, NULL},
                      {"save", "save cond as .pt2", save_pt2, ZOO "cond"},
                      {"trace", "trace", trace, NULL},
                      {"trace", "export", export_mlp, NULL},
                      {"train", "train", train, NULL},
                      {"recur", "LSTM", recurrent, "LSTM"},
                      {"recur", "GRU", recurrent, "GRU"},
                      {"recur", "RNN", recurrent, "RNN"},
                      {"ops", "operators", operators, NULL},
                      {"quantize static", "quantize static", quantize_static, NULL},
                      {"quantize dynamic", "quantize dynamic", quantize_dynamic, NULL},
                      {"quantize int4", "quantize int4", quantize_int4, NULL},
                      {"quantize modules", "quantize modules", quantize_modules, NULL},
                      {0}};
