/* Attention and recurrent layers by the kernels of src/compile/kernels, which read their
 * operands with any strides. Nodes that these kernels do not support are decomposed (ready.c). */
#include <cfx/ops.h>
#include <math.h>

#include "calls.h"
#include "pack.h"

/* ---- what is taken --------------------------------------------------------------------------- */

/* Argument i of a node, or by its name; None where it is not given. */
static cfx_value arg_of(const cfx_node *n, int64_t i, const char *name) {
    if (i < cfx_len(n->args))
        return cfx_at(n->args, i);
    return n->kwargs.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(n->kwargs), name) : cfx_none();
}

static bool is_zero(cfx_value v) {
    return v.tag == CFX_TAG_NONE || (cfx_is_number(v) && cfx_number(v) == 0);
}

/* Whether an argument is noted as a tensor of a dtype, of so many dims at most. */
static bool is_noted(cfx_value v, cfx_dtype d, int ndim) {
    const cfx_result r = v.tag == CFX_TAG_NODE ? cfx_node_result(cfx_as_node(v)) : (cfx_result){0};
    return r.kind == CFX_RESULT_TENSOR && r.dtype == d && r.ndim <= ndim && r.ndim >= 2;
}

bool cfx__c_takes_attention(const cfx_program *p, const cfx_node *n) {
    (void)p;
    const bool flash = n->target.op != &cfx_op_scaled_dot_product_attention;
    const cfx_value mask = flash ? arg_of(n, 100, "attn_mask") : arg_of(n, 3, "attn_mask");
    const cfx_value query = arg_of(n, 0, "query");
    const cfx_dtype d = is_noted(query, CFX_BF16, 4)  ? CFX_BF16
                        : is_noted(query, CFX_F16, 4) ? CFX_F16
                                                      : CFX_F32;
    for (int i = 0; i < 3; i++)
        if (!is_noted(arg_of(n, i, i == 0 ? "query" : i == 1 ? "key" : "value"), d, 4))
            return false;
    return is_zero(arg_of(n, flash ? 3 : 4, "dropout_p")) &&
           (mask.tag == CFX_TAG_NONE || is_noted(mask, d, 4) || is_noted(mask, CFX_BOOL, 4));
}

/* Whether a node is a weight of the program's, which is packed. */
static bool is_weight(const cfx_program *p, cfx_value v) {
    const cfx_node *n = v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
    const cfx_input_spec *s = n && n->op == CFX_PLACEHOLDER ? cfx_program_input(p, n) : NULL;
    const cfx_result r = n ? cfx_node_result(n) : (cfx_result){0};
    return s && s->kind != CFX_IN_USER && r.kind == CFX_RESULT_TENSOR && r.dtype == CFX_F32;
}

bool cfx__c_takes_recurrent(const cfx_program *p, const cfx_node *n) {
    const cfx_value params = arg_of(n, 2, "params");
    bool fine = is_noted(arg_of(n, 0, "input"), CFX_F32, 3) &&
                (params.tag == CFX_TAG_LIST || params.tag == CFX_TAG_TUPLE) &&
                (is_zero(arg_of(n, 5, "dropout")) || is_zero(arg_of(n, 6, "train")));
    for (int64_t i = 0; fine && i < cfx_len(params); i++)
        fine = is_weight(p, cfx_at(params, i));
    return fine;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The tensor itself where the elements of its last dim are next to each other, else a copy. */
static const cfx__c_ref *in_rows(cfx__c_unit *u, const cfx__c_ref *r) {
    const int last = r->ndim - 1;
    if (last < 0 || r->shape[last] == 1 || r->stride[last] == 1)
        return r;
    return cfx__c_own(u, r, CFX_CONTIGUOUS, true);
}

/* The stride of dim `from_end`, counted from the end; 0 where it is broadcast, or not there. */
static int64_t stride_of(const cfx__c_ref *r, int from_end) {
    const int i = r->ndim - from_end;
    return i < 0 || r->shape[i] == 1 ? 0 : r->stride[i];
}

static int64_t size_of(const cfx__c_ref *r, int from_end) {
    return r->ndim < from_end ? 1 : r->shape[r->ndim - from_end];
}

static void put_list(cfx__c *c, const char *name, int n, const int64_t *v) {
    cfx__text t = {0};
    for (int i = 0; i < n; i++)
        cfx__text_printf(&t, "%s%lld", i ? ", " : "", (long long)v[i]);
    cfx__c_line(c, "    .%s = {%s},", name, cfx__text_take(&t));
}

static void put_strides(cfx__c *c, const char *name, const cfx__c_ref *r) {
    put_list(c, name, 3, (int64_t[]){stride_of(r, 4), stride_of(r, 3), stride_of(r, 2)});
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool put_operands(cfx__c_unit *u, const cfx_value *args, const cfx__c_ref **of) {
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        const cfx__c_ref *r = cfx__c_arg(u, args[i]);
        if (!r)
            return false;
        of[i] = in_rows(u, r);
        cfx__c_pointer(u->c, of[i], names[i], false);
    }
    return true;
}

/* The sizes of attention, its scale and whether it is causal, as fields of a shape. */
static void put_shape(cfx__c *c, const cfx__c_ref *const *of, int64_t batch, int64_t heads,
                      cfx_value causal, cfx_value scale) {
    const int64_t size = size_of(of[0], 1);
    cfx__c_line(c, "%sconst %s_attention_shape shape = {", c->nvary ? "" : "static ", c->name);
    cfx__c_line(c, "    .batch = %lld, .heads = %lld, .shared = %lld,", (long long)batch,
                (long long)heads, (long long)(heads == 1 ? 1 : heads / size_of(of[1], 3)));
    cfx__c_line(c, "    .rows = %lld, .keys = %lld, .size = %lld, .value = %lld,",
                (long long)size_of(of[0], 2), (long long)size_of(of[1], 2), (long long)size,
                (long long)size_of(of[2], 1));
    cfx__c_line(c, "    .causal = %d, .scale = %s,", !is_zero(causal),
                cfx__c_number(
                    CFX_F32, cfx_is_number(scale) ? cfx_number(scale) : 1 / sqrt((double)size), 0));
}

/* ---- attention of halves --------------------------------------------------------------------- */

/* Where element (row, col) of head `head` of image b lies. */
static const char *element_at(const cfx__c_ref *r, const char *head) {
    return cfx__text_format("b * %lld + %s * %lld + row * %lld + col * %lld",
                            (long long)stride_of(r, 4), head, (long long)stride_of(r, 3),
                            (long long)stride_of(r, 2), (long long)stride_of(r, 1));
}

/* Memory for the floats of one head, as a pointer of this name. */
static void put_floats(cfx__c_unit *u, const char *name, int64_t rows, int64_t cols) {
    const int64_t room = cfx__c_room_now(u, 4 * rows * cols);
    cfx__c_line(u->c, "float *%s = (float *)(%s);", name, cfx__c_room_text(room, 0));
}

/* One head after the other: its halves become floats, which the kernel takes. */
static void put_halves(cfx__c_unit *u, const cfx__plan_kernel *k, bool flash) {
    static const char *const names[] = {"query", "key", "value", "mask"};
    static const char *const floats[] = {"q", "k", "v", "m"};
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const cfx__c_refs *to = cfx__c_slot(u, u->slot);
    const cfx__c_ref *of[4], *out = to->refs;
    for (int i = 0; i < 4; i++) {
        of[i] = cfx__c_arg(u, i < 3 ? a[i] : a[flash ? 5 : 3]);
        if (!of[i] && i < 3) {
            cfx__c_refuse(u, "is attention of a value without memory");
            return;
        }
    }
    const int64_t heads = size_of(of[0], 3), rows = size_of(of[0], 2), keys = size_of(of[1], 2);
    const int64_t size = size_of(of[0], 1), value = size_of(of[2], 1);
    const bool bools = of[3] && of[3]->dtype == CFX_BOOL;
    const bool lse = to->n > 1 && to->refs[1].where != CFX__C_NOWHERE;
    const int64_t shape[4][2] = {{rows, size}, {keys, size}, {keys, value}, {rows, keys}};
    const int n = of[3] && !bools ? 4 : 3; /* that become floats */
    for (int i = 0; i < (of[3] ? 4 : 3); i++)
        cfx__c_pointer(c, of[i], names[i], false);
    cfx__c_pointer(c, out, "out", true);
    if (lse)
        cfx__c_pointer(c, &to->refs[1], "lse", true);
    for (int i = 0; i < n; i++)
        put_floats(u, floats[i], shape[i][0], shape[i][1]);
    put_floats(u, "y", rows, value);
    put_shape(c, of, 1, 1, a[flash ? 4 : 5], a[6]);
    put_list(c, "q", 3, (int64_t[]){0, 0, size});
    put_list(c, "k", 3, (int64_t[]){0, 0, size});
    put_list(c, "v", 3, (int64_t[]){0, 0, value});
    put_list(c, "out", 3, (int64_t[]){0, 0, value});
    if (of[3])
        put_list(
            c, "mask", 4,
            (int64_t[]){0, 0, bools ? stride_of(of[3], 2) : keys, bools ? stride_of(of[3], 1) : 1});
    cfx__c_line(c, "};");
    cfx__c_open(c, "for (int64_t b = 0; b < %lld; b++)", (long long)size_of(of[0], 4));
    cfx__c_open(c, "for (int64_t h = 0; h < %lld; h++)", (long long)heads);
    for (int i = 0; i < n; i++) {
        const int64_t shared = i == 1 || i == 2 ? heads / size_of(of[i], 3) : 1;
        const char *head = shared == 1 ? "h" : cfx__text_format("h / %lld", (long long)shared);
        cfx__c_open_elements(c, shape[i][0], shape[i][1]);
        cfx__c_line(c, "%s[row * %lld + col] = %s;", floats[i], (long long)shape[i][1],
                    cfx__c_load(c, names[i], element_at(of[i], head), of[i]->dtype));
        cfx__c_close_elements(c);
    }
    const char *seen =
        bools ? cfx__text_format("NULL, mask + b * %lld + h * %lld", (long long)stride_of(of[3], 4),
                                 (long long)stride_of(of[3], 3))
        : n == 4 ? "m, NULL"
                 : "NULL, NULL";
    const char *sums =
        lse ? cfx__text_format("lse + (b * %lld + h) * %lld", (long long)heads, (long long)rows)
            : "NULL";
    cfx__c_scratch(c, cfx__pack_attention_scratch(rows, keys, size, value));
    cfx__c_line(c, "%s(&shape, q, k, v, %s, y, %s, (float *)%s);", cfx__c_kernel(c, "attention"),
                seen, sums, cfx__c_scratch_at(c, 0));
    cfx__c_open_elements(c, rows, value);
    cfx__c_line(
        c, "out[%s] = %s;", element_at(out, "h"),
        cfx__c_store(c, cfx__text_format("y[row * %lld + col]", (long long)value), out->dtype));
    cfx__c_close_elements(c);
    cfx__c_close_elements(c);
}

/* ---- attention of floats --------------------------------------------------------------------- */

void cfx__c_call_attention(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const bool flash = k->op != &cfx_op_scaled_dot_product_attention;
    const cfx_value *a = k->step->bound;
    const cfx__c_refs *to = cfx__c_slot(u, u->slot);
    const cfx__c_ref *of[3], *out = to->refs, *mask = cfx__c_arg(u, a[flash ? 5 : 3]);
    if (cfx__dtype_is_half(out->dtype)) {
        put_halves(u, k, flash);
        return;
    }
    if (!put_operands(u, a, of) || out->stride[out->ndim - 1] != 1) {
        cfx__c_refuse(u, "is attention of a value without memory");
        return;
    }
    const cfx_value causal = a[flash ? 4 : 5], scale = a[6];
    const int64_t heads = size_of(of[0], 3), size = size_of(of[0], 1), keys = size_of(of[1], 2);
    const bool lse = to->n > 1 && to->refs[1].where != CFX__C_NOWHERE;
    const char *kind = mask && mask->dtype == CFX_BOOL ? "NULL, mask" : mask ? "mask, NULL" : NULL;
    if (mask)
        cfx__c_pointer(c, mask, "mask", false);
    cfx__c_pointer(c, out, "out", true);
    if (lse)
        cfx__c_pointer(c, &to->refs[1], "lse", true);
    put_shape(c, of, size_of(of[0], 4), heads, causal, scale);
    put_strides(c, "q", of[0]);
    put_strides(c, "k", of[1]);
    put_strides(c, "v", of[2]);
    put_strides(c, "out", out);
    if (mask)
        put_list(c, "mask", 4,
                 (int64_t[]){stride_of(mask, 4), stride_of(mask, 3), stride_of(mask, 2),
                             stride_of(mask, 1)});
    cfx__c_line(c, "};");
    cfx__c_line(c, "%s(&shape, query, key, value, %s, out, %s, (float *)%s);",
                cfx__c_kernel(c, "attention"), kind ? kind : "NULL, NULL", lse ? "lse" : "NULL",
                cfx__c_scratch_at(c, 0));
    cfx__c_scratch(c,
                   cfx__pack_attention_scratch(size_of(of[0], 2), keys, size, size_of(of[2], 1)));
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* A matrix [n, k] as panels, noted; the text for it. */
static const char *panels_of(cfx__c *c, cfx_value v, const char *name) {
    cfx_tensor *w = cfx__tensor_contiguous(cfx_as_tensor(v));
    const int64_t n = w->shape[0], k = w->shape[1];
    const cfx__packing how = {.kind = CFX__PACKING_PANELS, .row = 1, .col = k, .k = k, .n = n};
    const int number =
        cfx__c_weight_add(c, name, CFX_F32, cfx__packing_floats(&how), cfx__packed_floats(w, &how),
                          cfx__c_packed_note(CFX_F32, w));
    return cfx__text_format("c->w->%s", c->weights.data[number].name);
}

static const char *bias_of(cfx__c_unit *u, cfx_value v, const char *name) {
    const cfx__c_ref *r = cfx__c_constant(u->c, cfx_as_tensor(v), name);
    return r ? cfx__text_format("c->w->%s", r->name) : "NULL";
}

/* Declares "weights": those of each layer and direction. */
static bool put_recurrent_weights(cfx__c_unit *u, const cfx_list *params, int64_t all, bool biased,
                                  const char *stem) {
    const int64_t each = all ? params->len / all : 0;
    const bool projects = each == (biased ? 5 : 3);
    if (!each || params->len != all * each || (each != (biased ? 4 : 2) && !projects))
        return false;
    cfx__c_line(u->c, "const %s_recurrent_weights weights[] = {", u->c->name);
    for (int64_t i = 0; i < all; i++) {
        static const char *const words[] = {"input", "state", "input_bias", "state_bias"};
        const char *name[5];
        cfx_value w[5];
        for (int64_t j = 0; j < each; j++) {
            const cfx_value v = params->items[i * each + j];
            const char *word = projects && j == each - 1 ? "projected" : words[j];
            w[j] = cfx__c_known(u, v);
            if (w[j].tag != CFX_TAG_TENSOR || !cfx_as_tensor(w[j])->data)
                return false;
            name[j] = cfx__c_parameter_name(
                u, v, cfx__text_format("%s_%lld_%s", stem, (long long)i, word));
        }
        const char *text[5] = {"NULL", "NULL", "NULL", "NULL", "NULL"};
        for (int64_t j = 0; j < each; j++) /* one after the other: so they stand in the struct */
            text[projects && j == each - 1 ? 4 : j] = j >= 2 && !(projects && j == each - 1)
                                                          ? bias_of(u, w[j], name[j])
                                                          : panels_of(u->c, w[j], name[j]);
        cfx__c_line(u->c, "    {%s, %s,", text[0], text[1]);
        cfx__c_line(u->c, "     %s, %s, %s},", text[2], text[3], text[4]);
    }
    cfx__c_line(u->c, "};");
    return true;
}

/* lstm(input, [h, c], params, biases, layers, dropout, train, two directions, batch first), and the
 * others, whose state is h alone. */
void cfx__c_call_recurrent(cfx__c_unit *u, const cfx__plan_kernel *k) {
    cfx__c *c = u->c;
    const cfx_value *a = k->step->bound;
    const bool lstm = k->op == &cfx_op_lstm_input, gru = k->op == &cfx_op_gru_input;
    const cfx__c_refs *to = cfx__c_slot(u, u->slot);
    const cfx__c_ref *x = cfx__c_arg(u, a[0]);
    const cfx__c_ref *h = cfx__c_arg(u, lstm ? cfx_at(a[1], 0) : a[1]);
    const cfx__c_ref *cell = lstm ? cfx__c_arg(u, cfx_at(a[1], 1)) : NULL;
    const int64_t layers = cfx_integer(a[4]), directions = is_zero(a[7]) ? 1 : 2;
    const bool first = !is_zero(a[8]), biased = !is_zero(a[3]);
    const char *path = cfx__c_module_of(k->step->node);
    bool fine = x && h && (cell || !lstm) && to->n >= 2 && x->ndim == 3;
    for (int i = 0; fine && i < to->n; i++)
        fine = to->refs[i].where != CFX__C_NOWHERE &&
               (i == 0 ? to->refs[0].stride[2] == 1 : cfx__c_is_contiguous(&to->refs[i]));
    if (fine) {
        x = in_rows(u, x);
        cfx__c_copy(c, &to->refs[1], h);
        if (lstm)
            cfx__c_copy(c, &to->refs[2], cell);
    }
    if (!fine || !put_recurrent_weights(u, cfx_as_list(a[2]), layers * directions, biased,
                                        *path ? path : k->step->node->name)) {
        cfx__c_refuse(u, "%s has weights that are not known, or no place", cfx_op_name(k->op));
        return;
    }
    const cfx__c_ref *out = &to->refs[0];
    const int64_t given = to->refs[1].shape[2];
    const int64_t hidden = lstm ? to->refs[2].shape[2] : given;
    const cfx__pack_recurrent r = {.steps = x->shape[first],
                                   .batch = x->shape[!first],
                                   .size = x->shape[2],
                                   .hidden = hidden,
                                   .given = given,
                                   .gates = lstm  ? 4
                                            : gru ? 3
                                                  : 1,
                                   .layers = layers,
                                   .directions = directions};
    cfx__c_line(c, "const %s_recurrent_shape shape = {", c->name);
    cfx__c_line(c, "    .steps = %lld, .batch = %lld, .size = %lld, .hidden = %lld, .given = %lld,",
                (long long)r.steps, (long long)r.batch, (long long)r.size, (long long)hidden,
                (long long)given);
    cfx__c_line(c, "    .gates = %lld, .layers = %lld, .directions = %lld,", (long long)r.gates,
                (long long)layers, (long long)directions);
    put_list(c, "x", 2, (int64_t[]){x->stride[first], x->stride[!first]});
    put_list(c, "out", 2, (int64_t[]){out->stride[first], out->stride[!first]});
    cfx__c_line(c, "};");
    cfx__c_pointer(c, x, "x", false);
    cfx__c_pointer(c, out, "out", true);
    cfx__c_pointer(c, &to->refs[1], "h", true);
    if (lstm)
        cfx__c_pointer(c, &to->refs[2], "cell", true);
    const char *step = lstm                              ? "lstm_step"
                       : gru                             ? "gru_step"
                       : k->op == &cfx_op_rnn_tanh_input ? "rnn_tanh_step"
                                                         : "rnn_relu_step";
    cfx__c_line(c, "%s(&shape, weights, %s, x, h, %s, out, (float *)%s);",
                cfx__c_kernel(c, "recurrent"), cfx__c_kernel(c, step), lstm ? "cell" : "NULL",
                cfx__c_scratch_at(c, 0));
    cfx__c_scratch(c, cfx__pack_recurrent_scratch(&r));
}
