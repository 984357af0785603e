/* All layers, one walk: what PyTorch prints, draws and computes is in tests/data/layers.txt, and
 * the program that wrote it is beside it. */
#include "test.h"

#include "nn.h"

#include <ctype.h>
#include <math.h>

/* ---- a little Python: numbers, words, tuples, and calls of layers and of torch's functions --- */

static cfx_value eval(const char **p);

static void skip(const char **p) { *p += strspn(*p, ", "); }

static cfx_value eval_list(const char **p, char end) {
    cfx_value list = cfx_list_value(0, NULL);
    for (skip(p); **p && **p != end; skip(p))
        cfx_list_append(cfx_as_list(list), eval(p));
    *p += **p == end;
    if (end == ')')
        list.tag = CFX_TAG_TUPLE;
    return list;
}

/* NAME(args): a layer where the name starts like one, else a function of torch's. */
static cfx_value eval_call(const char *name, const char **p) {
    cfx_value args[12];
    cfx_module *children[12];
    int n = 0;
    for (skip(p); **p && **p != ')'; skip(p)) {
        size_t len = strspn(*p, "abcdefghijklmnopqrstuvwxyz_");
        if (len && (*p)[len] == '=') {
            const char *key = cfx__string_new(*p, len)->text;
            *p += len + 1;
            args[n++] = cfx_keyword_value(key, eval(p));
        } else {
            args[n++] = eval(p);
        }
    }
    *p += **p == ')';
    cfx_args a = {n, args, NULL};
    if (!strcmp(name, "Sequential")) {
        for (int i = 0; i < n; i++)
            children[i] = cfx_as_module(args[i]);
        return cfx_module_value(cfx_nn_sequential_of(n, children));
    }
    if (isupper((unsigned char)*name))
        return cfx_module_value(cfx_nn_make_from(CFX_HERE, name, a, CFX_NN_NONE));
    if (!strcmp(name, "tensor"))
        return cfx_tensor_value(cfx_tensor_from_value(args[0]));
    cfx_value v = cfx_py_from(CFX_HERE, cfx__text_format("torch.%s", name), a);
    if (!strncmp(*p, ".log_softmax(2)", 15)) {
        *p += 15;
        v = cfx_py("torch.log_softmax", v, 2);
    }
    return v;
}

static cfx_value eval(const char **p) {
    size_t len = strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (isalpha((unsigned char)**p) && (*p)[len] == '(') {
        const char *name = cfx__string_new(*p, len)->text;
        *p += len + 1;
        return eval_call(name, p);
    }
    if (**p == '(' || **p == '[') {
        char end = *(*p)++ == '(' ? ')' : ']';
        return eval_list(p, end);
    }
    cfx_value v = cfx_none();
    CHECK(cfx__value_literal(p, &v));
    return v;
}

/* ---- numbers of a tensor, as the file has them ----------------------------------------------- */

static void check_numbers(const char *what, const cfx_tensor *t, const char *line, double rtol) {
    const char *shape = cfx__shape_text(t->ndim, t->shape);
    if (strncmp(line, shape, strlen(shape))) {
        test_fail(CFX_HERE, "%s: %s, want %s", what, shape, line);
        return;
    }
    line += strlen(shape);
    double want[3] = {0}, sum = 0, abs = 0, first = 0;
    int n = sscanf(line, "%lf %lf %lf", &want[0], &want[1], &want[2]);
    bool any = false;
    for (int64_t i = 0; i < t->numel; i++) {
        double v = cfx_tensor_get(t, i);
        if (v - v != 0)
            continue;
        first = any ? first : v;
        any = true;
        sum += v;
        abs += v < 0 ? -v : v;
    }
    double near = rtol * (abs + 1e-3);
    if (!(sum - want[0] <= near && want[0] - sum <= near && abs - want[1] <= near &&
          want[1] - abs <= near))
        test_fail(CFX_HERE, "%s: sum %.9g of %.9g, want%s", what, sum, abs, line);
    if (n == 3 && !(first - want[2] <= near && want[2] - first <= near))
        test_fail(CFX_HERE, "%s: first %.9g, want %.9g", what, first, want[2]);
}

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct layer_case {
    const char *layer;
    cfx__text repr;
    cfx__text state, inputs, outputs; /* lines */
} layer_case;

static const char *next_line(const char **p, cfx__text *line) {
    size_t n = strcspn(*p, "\n");
    line->len = 0;
    cfx__text_add(line, *p, n);
    *p += n + ((*p)[n] == '\n');
    return line->data;
}

static void check_state(const layer_case *c, const cfx_module *m) {
    cfx_dict *state = cfx_module_state_dict(m);
    cfx__text line = {0};
    int64_t i = 0;
    for (const char *p = c->state.data; p && *p; i++) {
        const char *text = next_line(&p, &line);
        size_t n = strcspn(text, " ");
        if (i >= state->len || strncmp(cfx_text(state->entries[i].key), text, n)) {
            test_fail(CFX_HERE, "%s: state %lld, want %s", c->layer, (long long)i, text);
            break;
        }
        check_numbers(cfx__text_format("%s %.*s", c->layer, (int)n, text),
                      cfx_as_tensor(state->entries[i].value), text + n + 1, 1e-7);
    }
    CHECK_INT(state->len, i);
    cfx__text_release(&line);
}

/* A module made of the same expression takes the state, and computes the same. */
static void check_round_trip(const layer_case *c, const cfx_module *m) {
    const char *p = c->layer;
    cfx_module *other = cfx_as_module(eval(&p));
    CHECK(cfx_module_load_state_dict(other, cfx_module_state_dict(m), true));
    CHECK_STR(cfx_module_str(other), cfx_module_str(m));
    cfx_module *copy = cfx_module_copy(m);
    CHECK_STR(cfx_module_str(copy), cfx_module_str(m));
    CHECK_INT(cfx_module_state_dict(copy)->len, cfx_module_state_dict(m)->len);
}

static void list_tensors(cfx_value v, cfx_list *out) {
    if (v.tag == CFX_TAG_TENSOR)
        cfx_list_append(out, v);
    else if (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            list_tensors(cfx_as_list(v)->items[i], out);
}

static cfx_value faked(cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_tensor_value(cfx_tensor_fake(cfx_as_tensor(v)->dtype, cfx_as_tensor(v)->ndim,
                                                cfx_as_tensor(v)->shape, NULL));
    if (v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value items[4];
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        items[i] = faked(cfx_as_list(v)->items[i]);
    return cfx_tuple_value(cfx_as_list(v)->len, items);
}

static void check_fake(const layer_case *c, cfx_module *m, int n, const cfx_value *args,
                       const cfx_list *real) {
    cfx_value fakes[8], list = cfx_list_value(0, NULL);
    for (int i = 0; i < n; i++)
        fakes[i] = faked(args[i]);
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    list_tensors(cfx_forward_value_from(CFX_HERE, m, (cfx_args){n, fakes, NULL}),
                 cfx_as_list(list));
    cfx_set_grad_mode(mode);
    CHECK_INT(cfx_as_list(list)->len, real->len);
    for (int64_t i = 0; i < cfx_as_list(list)->len && i < real->len; i++) {
        const cfx_tensor *f = cfx_as_tensor(cfx_as_list(list)->items[i]),
                         *r = cfx_as_tensor(real->items[i]);
        if (!cfx__tensor_same_shape(f, r) || f->dtype != r->dtype || !cfx_tensor_is_fake(f))
            test_fail(CFX_HERE, "%s: fake %s, real %s", c->layer,
                      cfx__shape_text(f->ndim, f->shape), cfx__shape_text(r->ndim, r->shape));
    }
}

static cfx_value call_layer(cfx_module *self, cfx_args a) {
    return cfx_forward_value_from(CFX_HERE, cfx_module_find(self, "layer"), a);
}

/* In a traced program it is one call_module, which computes the same. */
static void check_traced(const layer_case *c, cfx_module *m, int n) {
    static const char *const signatures[] = {"",        "a",          "a, b",
                                             "a, b, c", "a, b, c, d", "a, b, c, d, e"};
    if (n >= COUNT(signatures) || !m->leaf)
        return;
    cfx_module *root = cfx_module_new("Root", call_layer, signatures[n]);
    cfx_nn_add(root, "layer", m);
    cfx_module *gm = cfx_symbolic_trace(root);
    cfx_node *call = gm ? cfx_graph_find(gm->graph, "layer") : NULL;
    if (!call || call->op != CFX_CALL_MODULE)
        test_fail(CFX_HERE, "%s is not traced as one call_module", c->layer);
}

static void check_case(const layer_case *c) {
    size_t mark = cfx_scope_open();
    const char *p = c->layer;
    cfx_manual_seed(0);
    cfx_module *m = cfx_as_module(eval(&p));
    if (!cfx_ok()) {
        test_fail(CFX_HERE, "%s: %s", c->layer, cfx_error_last()->message);
        cfx_error_clear();
        cfx_scope_close(mark);
        return;
    }
    CHECK_STR(cfx_module_str(m), c->repr.data);
    check_state(c, m);
    check_round_trip(c, m);
    cfx_value args[8], out = cfx_list_value(0, NULL);
    cfx__text line = {0};
    int n = 0;
    cfx_manual_seed(1);
    for (const char *q = c->inputs.data; q && *q;) {
        const char *text = next_line(&q, &line);
        args[n++] = eval(&text);
    }
    cfx_manual_seed(2);
    list_tensors(cfx_forward_value_from(CFX_HERE, m, (cfx_args){n, args, NULL}), cfx_as_list(out));
    int64_t i = 0;
    for (const char *q = c->outputs.data; q && *q; i++) {
        const char *text = next_line(&q, &line);
        if (i < cfx_as_list(out)->len)
            check_numbers(c->layer, cfx_as_tensor(cfx_as_list(out)->items[i]), text, 2e-6);
    }
    CHECK_INT(cfx_as_list(out)->len, i);
    check_fake(c, m, n, args, cfx_as_list(out));
    check_traced(c, m, n);
    if (!cfx_ok()) {
        test_fail(CFX_HERE, "%s: %s", c->layer, cfx_error_last()->message);
        cfx_error_clear();
    }
    cfx__text_release(&line);
    cfx_scope_close(mark);
}

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    cfx__text t = {0};
    char block[4096];
    for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
        cfx__text_add(&t, block, n);
    if (f)
        fclose(f);
    return t.data;
}

TEST(layers_are_pytorchs) {
    char *all = read_all(CFX_TEST_DATA "/layers.txt");
    layer_case c = {0};
    cfx__text line = {0}, layer = {0};
    int cases = 0;
    if (!CHECK(all != NULL))
        return;
    for (const char *p = all; *p;) {
        const char *text = next_line(&p, &line);
        if (*text == '=') {
            layer.len = c.repr.len = c.state.len = c.inputs.len = c.outputs.len = 0;
            cfx__text_puts(&layer, text + 2);
            c.layer = layer.data;
            cfx__text *lines[] = {&c.state, &c.inputs, &c.outputs};
            for (int i = 0; i < COUNT(lines); i++)
                cfx__text_puts(lines[i], "");
        } else if (*text == '|') {
            cfx__text_printf(&c.repr, "%s%s", c.repr.len ? "\n" : "", text + 2);
        } else if (*text != '#') {
            cfx__text *to = *text == 'p' ? &c.state : *text == 'i' ? &c.inputs : &c.outputs;
            cfx__text_printf(to, "%s\n", text + 2);
        }
        if (c.layer && (*p == '=' || !*p)) {
            check_case(&c);
            cases++;
        }
    }
    CHECK(cases > 180);
    cfx__text *texts[] = {&c.repr, &c.state, &c.inputs, &c.outputs, &line, &layer};
    for (int i = 0; i < COUNT(texts); i++)
        cfx__text_release(texts[i]);
    free(all);
}

/* ---- options in C -------------------------------------------------------------------------------
 */

#define SHOWS(layer, text) CHECK_STR(cfx_module_str(layer), text)

TEST(options_are_fields_of_a_struct) {
    SHOWS(cfx_nn_linear(3, 2, .no_bias = true),
          "Linear(in_features=3, out_features=2, bias=False)");
    SHOWS(cfx_nn_conv2d(3, 4, cfx_tuple(3, 5), .strides = {2, 1}, .padding = 1),
          "Conv2d(3, 4, kernel_size=(3, 5), stride=(2, 1), padding=(1, 1))");
    SHOWS(cfx_nn_conv1d(2, 4, 3, .padding = CFX_SAME, .groups = 2, .padding_mode = "circular"),
          "Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=same, groups=2, "
          "padding_mode=circular)");
    SHOWS(cfx_nn_batch_norm2d(3, .momentum = (double)NAN, .no_affine = true),
          "BatchNorm2d(3, eps=1e-05, momentum=None, affine=False, track_running_stats=True)");
    SHOWS(cfx_nn_dropout(), "Dropout(p=0.5, inplace=False)");
    SHOWS(cfx_nn_dropout(.p = CFX_ZERO), "Dropout(p=0.0, inplace=False)");
    SHOWS(cfx_nn_embedding(5, 2, .padding_idx = CFX_ZERO), "Embedding(5, 2, padding_idx=0)");
    SHOWS(cfx_nn_flatten(.start_dim = CFX_ZERO), "Flatten(start_dim=0, end_dim=-1)");
    SHOWS(cfx_nn_lstm(2, 3, .num_layers = 2, .batch_first = true),
          "LSTM(2, 3, num_layers=2, batch_first=True)");
    SHOWS(cfx_nn_layer_norm(cfx_list(3, 4), .eps = 0.5),
          "LayerNorm((3, 4), eps=0.5, elementwise_affine=True)");
    SHOWS(cfx_nn_max_pool2d(2, .stride = 1, .ceil_mode = true),
          "MaxPool2d(kernel_size=2, stride=1, padding=0, dilation=1, ceil_mode=True)");
    SHOWS(cfx_nn_upsample(.sizes = {4, 5}, .mode = "bilinear"),
          "Upsample(size=(4, 5), mode='bilinear')");
    SHOWS(cfx_nn_relu(), "ReLU()");
    SHOWS(cfx_nn_relu(.inplace = true), "ReLU(inplace=True)");
    SHOWS(cfx_nn_softmax(0), "Softmax(dim=0)");
    SHOWS(cfx_nn_constant_pad1d(cfx_tuple(1, 2), 3.5), "ConstantPad1d(padding=(1, 2), value=3.5)");
    SHOWS(cfx_nn_mse_loss(.reduction = "sum"), "MSELoss()");
    SHOWS(cfx_nn_make("GroupNorm", 2, 4, CFX_KW(affine, false)),
          "GroupNorm(2, 4, eps=1e-05, affine=False)");
    CHECK(cfx_nn_count() > 120);
    CHECK_STR(cfx_nn_layer_at(0).name, "Identity");
    CHECK(!cfx_nn_layer_at(cfx_nn_count()).name && !cfx_nn_layer_at(-1).name);
    for (int i = 0; i < cfx_nn_count(); i++) {
        cfx_nn_layer layer = cfx_nn_layer_at(i);
        if (!strcmp(layer.name, "ELU")) {
            CHECK_STR(layer.path, "activation.ELU");
            CHECK_STR(layer.options, "alpha=1.0, inplace=False");
            CHECK_STR(layer.inputs, "input");
            CHECK_STR(layer.call, "torch.nn.functional.elu(input, alpha, inplace)");
            CHECK(layer.leaf);
        }
    }
    CHECK_OK();
}

/* gcc counts a macro's call over two lines from its last one, clang parts of it from the first. */
#define REFUSES(layer, text)                                                                       \
    do {                                                                                           \
        CHECK(cfx_failed(layer));                                                                  \
        const cfx_error *e_ = cfx_error_last();                                                    \
        CHECK(e_ && (e_->at.line == __LINE__ || e_->at.line == __LINE__ - 1));                     \
        CHECK_ERROR(text);                                                                         \
    } while (0)

TEST(layers_refuse_in_pytorchs_words_at_the_callers_line) {
    REFUSES(cfx_nn_linear(3, 2, .alpha = 2),
            "Linear.__init__() got an unexpected keyword argument 'alpha'");
    REFUSES(cfx_nn_make("Linear", 3),
            "Linear.__init__() missing 1 required positional argument: 'out_features'");
    REFUSES(cfx_nn_linear(-1, 2),
            "Trying to create tensor with negative dimension -1: [2, -1]");
    REFUSES(cfx_nn_make("Nope", 3), "module 'torch.nn' has no attribute 'Nope'");
    REFUSES(cfx_nn_conv2d(3, 4, 3, .groups = 2), "in_channels must be divisible by groups");
    REFUSES(cfx_nn_conv2d(3, 4, 3, .padding = CFX_SAME, .stride = 2),
            "padding='same' is not supported for strided convolutions");
    REFUSES(cfx_nn_dropout(.p = 1.5), "dropout probability has to be between 0 and 1, but got 1.5");
    REFUSES(cfx_nn_group_norm(4, 6), "num_channels (6) must be divisible by num_groups (4)");
    REFUSES(cfx_nn_multihead_attention(7, 2), "embed_dim must be divisible by num_heads");
    REFUSES(cfx_forward(cfx_nn_linear(3, 2), cfx_ones(2, 4)), "mat1 and mat2 shapes");
    REFUSES(cfx_forward(cfx_nn_batch_norm2d(3), cfx_ones(2, 3)),
            "expected 4D input (got 2D input)");
}

TEST(containers_print_as_in_pytorch) {
    SHOWS(cfx_nn_parameter_list(2, (cfx_tensor *[]){cfx_zeros(2, 3), cfx_zeros(4)}),
          "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n"
          "    (1): Parameter containing: [torch.float32 of size 4]\n)");
    cfx_module *list = cfx_nn_module_list(0, NULL);
    CHECK_STR(cfx_module_str(list), "ModuleList()");
    cfx_nn_append(list, cfx_nn_relu());
    cfx_nn_append(list, cfx_nn_relu());
    CHECK_STR(cfx_module_str(list), "ModuleList(\n  (0-1): 2 x ReLU()\n)");
    cfx_forward(list, cfx_ones(1));
    CHECK_ERROR("Module [ModuleList] is missing the required \"forward\" function");
}

TEST(a_transformer_is_its_encoder_and_decoder) {
    cfx_module *t = cfx_nn_transformer(.d_model = 8, .nhead = 2, .num_encoder_layers = 1,
                                       .num_decoder_layers = 2, .dim_feedforward = 16,
                                       .batch_first = true);
    cfx_module_train(t, false);
    cfx_tensor *src = cfx_randn(2, 5, 8), *tgt = cfx_randn(2, 3, 8);
    cfx_value y = cfx_forward_value(t, src, tgt);
    cfx_value memory = cfx_forward_value(cfx_module_find(t, "encoder"), src);
    cfx_value want = cfx_forward_value(cfx_module_find(t, "decoder"), tgt, memory);
    CHECK(cfx_integer(cfx_allclose(y, want)));
    CHECK(cfx_module_find(t, "decoder.layers.1.multihead_attn"));
    CHECK_INT(cfx_module_state_dict(t)->len, 12 + 2 + 2 * 18 + 2);
    CHECK_OK();
}

TEST(a_bare_layer_is_given_its_parts) {
    cfx_module *made = cfx_nn_linear(2, 1), *m = cfx_nn_bare("Linear");
    for (int64_t i = 0; i < made->attrs->len; i++)
        cfx_module_set_attr(m, cfx_text(made->attrs->entries[i].key),
                            made->attrs->entries[i].value);
    cfx_nn_parameter(m, "weight", cfx_ones(1, 2));
    cfx_nn_parameter(m, "bias", NULL);
    CHECK_STR(cfx_module_str(m), "Linear(in_features=2, out_features=1, bias=False)");
    CHECK_NEAR(cfx_tensor_get(cfx_forward(m, cfx_ones(2)), 0), 2, 0);
    CHECK(m->leaf && !strcmp(m->path, "torch.nn.modules.linear.Linear"));
    CHECK(cfx_failed(cfx_nn_bare("Nothing")));
    CHECK_ERROR("module 'torch.nn' has no attribute 'Nothing'");
}
