/* Fusing: Conv+BN(+ReLU), Linear+BN, Linear+ReLU, BN+ReLU become one module, as torch.ao's fuse_fx
 * makes them. */
#include "fx.h"

#include <cfx/layers.h>

/* ---- pairs ----------------------------------------------------------------------------------- */

static cfx_value forward_pair(cfx_module *self, cfx_args a) {
    cfx_value v = cfx_call_value_from(CFX_HERE, self, "0", a);
    for (int i = 1; i < cfx_module_count(self); i++)
        v = cfx_call_value_from(CFX_HERE, self, cfx_module_child_name(self, i),
                                (cfx_args){1, &v, NULL});
    return v;
}

cfx_module *cfx__quant_pair(const char *type, cfx_module *first, cfx_module *second) {
    cfx_module *m = cfx_module_new(type, forward_pair, "input");
    m->path = cfx__module_text(m, cfx__text_format("torch.ao.nn.intrinsic.modules.fused.%s", type));
    m->leaf = true;
    m->training = first->training;
    cfx_nn_add(m, "0", first);
    cfx_nn_add(m, "1", second);
    return m;
}

cfx_module *cfx__quant_inner(cfx_module *m) {
    bool pair = m->path && !strncmp(m->path, "torch.ao.nn.intrinsic.", 22) && cfx_module_count(m);
    return pair ? cfx_module_child(m, 0) : m;
}

/* ---- batch norm into the weights ------------------------------------------------------------- */

static cfx_tensor *or_full(cfx_module *m, const char *name, cfx_tensor *like, double number) {
    cfx_value v = cfx_module_attr(m, name);
    return v.tag == CFX_TAG_TENSOR ? cfx_detach(cfx_as_tensor(v)) : cfx_full_like(like, number);
}

cfx_module *cfx__quant_folded(cfx_module *m, cfx_module *norm) {
    cfx_module *out = cfx_module_copy(m);
    cfx_tensor *mean = cfx_as_tensor(cfx_module_attr(norm, "running_mean"));
    cfx_tensor *var = cfx_as_tensor(cfx_module_attr(norm, "running_var"));
    cfx_tensor *weight = cfx_detach(cfx_as_tensor(cfx_module_attr(m, "weight")));
    cfx_tensor *bias = or_full(m, "bias", mean, 0);
    cfx_tensor *gamma = or_full(norm, "weight", mean, 1), *beta = or_full(norm, "bias", mean, 0);
    cfx_tensor *inverse = cfx_rsqrt(cfx_add(var, cfx_module_attr(norm, "eps")));
    int64_t shape[CFX_MAX_DIMS], n = cfx_tensor_ndim(weight);
    bool transposed = !strncmp(m->type, "ConvTranspose", 13);
    for (int64_t d = 0; d < n; d++)
        shape[d] = d == (transposed ? 1 : 0) ? -1 : 1;
    cfx_tensor *factor = cfx_reshape(cfx_mul(gamma, inverse), cfx_ints_value(n, shape));
    weight = cfx_mul(weight, factor);
    bias = cfx_add(cfx_mul(cfx_mul(cfx_sub(bias, mean), inverse), gamma), beta);
    if (!cfx_ok())
        return NULL;
    cfx_nn_parameter(out, "weight", weight);
    cfx_nn_parameter(out, "bias", bias);
    return out;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* first, maybe followed by norm, maybe by a relu: what the whole becomes where a relu ends it; and,
 * while it is trained, where the norm is there, without a relu and with one. */
static const struct fusion {
    const char *first, *norm, *pair, *normed, *normed_pair;
} fusions[] = {
    {"Linear", "BatchNorm1d", "LinearReLU", "LinearBn1d", NULL},
    {"Conv1d", "BatchNorm1d", "ConvReLU1d", "ConvBn1d", "ConvBnReLU1d"},
    {"Conv2d", "BatchNorm2d", "ConvReLU2d", "ConvBn2d", "ConvBnReLU2d"},
    {"Conv3d", "BatchNorm3d", "ConvReLU3d", "ConvBn3d", "ConvBnReLU3d"},
    {"ConvTranspose1d", "BatchNorm1d", NULL, NULL, NULL},
    {"ConvTranspose2d", "BatchNorm2d", NULL, NULL, NULL},
    {"ConvTranspose3d", "BatchNorm3d", NULL, NULL, NULL},
    {"BatchNorm2d", NULL, "BNReLU2d", NULL, NULL},
    {"BatchNorm3d", NULL, "BNReLU3d", NULL, NULL},
};

static bool is_one_of(const char *type, const struct fusion *row) {
    const char *const names[] = {row->first, row->pair, row->normed, row->normed_pair};
    for (int i = 0; i < COUNT(names); i++)
        if (names[i] && !strcmp(names[i], type))
            return true;
    return false;
}

const char *cfx__quant_plain_class(const char *type) {
    for (int i = 0; i < COUNT(fusions); i++)
        if (is_one_of(type, &fusions[i]))
            return fusions[i].first;
    return type;
}

const char *cfx__quant_pair_of(const char *type) {
    for (int i = 0; i < COUNT(fusions); i++)
        if (!strcmp(fusions[i].first, type))
            return fusions[i].pair;
    return NULL;
}

/* The nodes of a match, and the modules that they call: as they are before any is fused. */
typedef struct match {
    const struct fusion *row;
    cfx_node *first, *norm, *relu;
    cfx_module *layer, *normal, *last;
} match;

/* The node before n, where n has one argument and nothing else uses that. */
static cfx_node *only_input(const cfx_node *n) {
    cfx_node *before = cfx__quant_count(n) == 1 ? cfx__quant_arg(n, 0) : NULL;
    return before && before->num_users == 1 && before->op == CFX_CALL_MODULE ? before : NULL;
}

static bool is_class(cfx_module *gm, const cfx_node *n, const char *type) {
    return n && type && !strcmp(cfx__quant_class(gm, n), type);
}

/* Whether a pattern of that row ends at n. */
static bool ends_at(cfx_module *gm, cfx_node *n, const struct fusion *row, match *m) {
    int relu = cfx__quant_relu(gm, n);
    bool takes = relu == CFX__RELU_MODULE || relu == CFX__RELU_FUNCTIONAL;
    *m = (match){.row = row};
    cfx_node *at = n;
    if (takes) {
        m->relu = n;
        at = only_input(n);
        if (!at || !row->pair)
            return false;
    }
    if (is_class(gm, at, row->norm)) {
        m->norm = at;
        at = only_input(at);
    }
    m->first = at;
    if (!is_class(gm, at, row->first))
        return false;
    if (m->norm && m->relu && !strcmp(row->first, "Linear"))
        return false; /* PyTorch has no Linear+BN+ReLU: the norm stays with the layer before it */
    return m->norm || m->relu;
}

static void find_modules(cfx_module *gm, match *m) {
    m->layer = cfx_module_find(gm, m->first->target.name);
    m->normal = m->norm ? cfx_module_find(gm, m->norm->target.name) : NULL;
    m->last = !m->relu                         ? NULL
              : m->relu->op == CFX_CALL_MODULE ? cfx_module_find(gm, m->relu->target.name)
                                               : cfx_nn_relu();
}

/* While it is trained the norm stays a module of its own inside the whole. */
static cfx_module *whole(const match *m, bool training) {
    cfx_module *first = m->layer, *norm = m->normal, *relu = m->last;
    if (relu)
        relu->training = first->training;
    if (norm && training) {
        const char *type = relu ? m->row->normed_pair : m->row->normed;
        cfx_module *all = cfx__quant_pair(type, first, norm);
        if (relu)
            cfx_nn_add(all, "2", relu);
        return all;
    }
    if (norm)
        first = cfx__quant_folded(first, norm);
    return first && relu ? cfx__quant_pair(m->row->pair, first, relu) : first;
}

static void apply(cfx_module *gm, const match *m, bool training) {
    cfx_module *first = whole(m, training);
    if (!first)
        return;
    cfx__scope_own(cfx_keep(m->layer)); /* another match may have it too */
    cfx__quant_swap(gm, m->first->target.name, first);
    cfx_node *last = m->relu ? m->relu : m->norm;
    cfx_node_move_before(m->first, last);
    cfx_node_replace(last, m->first);
    cfx_graph_erase(last);
    if (m->relu && m->norm)
        cfx_graph_erase(m->norm);
}

/* Whether a pattern found before has n in it. */
static bool is_part(const match *all, size_t len, const cfx_node *n) {
    for (size_t i = 0; i < len; i++)
        if (all[i].first == n || all[i].norm == n || all[i].relu == n)
            return true;
    return false;
}

static bool can_fuse(cfx_site at, const match *m, bool training) {
    if (!training || !m->normal || m->row->normed)
        return true;
    cfx_fail(CFX_RUNTIME_ERROR, at, "Fusing %s+BatchNorm not yet supported in QAT.",
             strstr(m->row->first, "Transpose") ? "ConvTranspose" : m->row->first);
    return false;
}

bool cfx__quant_fuse(cfx_site at, cfx_module *gm, bool training) {
    if (training != gm->training) {
        cfx_fail(CFX_VALUE_ERROR, at, "%s",
                 training ? "prepare_qat_fx only works for models in train mode"
                          : "fuse_fx and prepare_fx only work for models in eval mode");
        return false;
    }
    VEC(match) all = {0};
    for (cfx_node *n = cfx_graph_last(gm->graph); n; n = cfx_node_before(n)) {
        match m;
        for (int i = 0; i < COUNT(fusions); i++)
            if (ends_at(gm, n, &fusions[i], &m) && !is_part(all.data, all.len, n)) {
                find_modules(gm, &m);
                VEC_PUSH(all, m);
                break;
            }
    }
    for (size_t i = 0; i < all.len && cfx_ok(); i++)
        if (can_fuse(at, &all.data[i], training))
            apply(gm, &all.data[i], training);
    VEC_FREE(all);
    return cfx_ok();
}

/* ---- without a graph ------------------------------------------------------------------------- */

static bool is_layer(const cfx_module *m, const char *type) {
    return type && m->path && !strncmp(m->path, "torch.nn.", 9) && !strcmp(m->type, type);
}

/* Whether the modules are a pattern of that row. */
static bool is_row(const struct fusion *row, int n, cfx_module *const *modules, match *m) {
    int i = 1;
    *m = (match){.row = row, .layer = modules[0]};
    if (!is_layer(modules[0], row->first))
        return false;
    if (i < n && is_layer(modules[i], row->norm))
        m->normal = modules[i++];
    if (i < n && row->pair && is_layer(modules[i], "ReLU"))
        m->last = modules[i++];
    bool both = m->normal && m->last;
    return n > 1 && i == n && (!both || row->normed_pair); /* no Linear+BN+ReLU, as above */
}

cfx_module *cfx_fuse_modules_from(cfx_site at, int n, cfx_module *const *modules, bool training) {
    size_t mark = cfx_scope_open();
    match m;
    int row = 0;
    while (row < COUNT(fusions) && (n < 1 || !is_row(&fusions[row], n, modules, &m)))
        row++;
    if (row == COUNT(fusions))
        return cfx_scope_return(mark, NULL);
    cfx_module *made = can_fuse(at, &m, training) ? whole(&m, training) : NULL;
    return cfx_scope_return(mark, made ? made : &cfx__module_bad);
}

cfx_module *cfx__quant_traced(cfx_module *model) {
    cfx_module *copy = cfx_module_copy(model);
    cfx_module *gm = cfx_failed(copy) || copy->graph ? copy : cfx_symbolic_trace(copy);
    return cfx_ok() ? gm : &cfx__module_bad;
}

cfx_module *cfx_fuse_fx_from(cfx_site at, cfx_module *model) {
    size_t mark = cfx_scope_open();
    cfx_module *gm = cfx__quant_traced(model);
    if (cfx_failed(gm) || !cfx__quant_fuse(at, gm, false))
        return cfx_scope_return(mark, &cfx__module_bad);
    return cfx_scope_return(mark, cfx_graph_module(gm, cfx_graph_copy(gm->graph), NULL));
}
