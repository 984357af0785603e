/* Suggestions for unknown operator names: the nearest names, or an operator that PyTorch has
 * only for another backend or another kind of tensor. */
#include "dispatch.h"

enum { MOST = 3 };

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The nearest so far, best first. */
typedef struct {
    int n;
    struct {
        const char *text;
        int far;
    } best[MOST];
} nearest;

static void consider(nearest *near, const char *text, int far) {
    int at = near->n < MOST ? near->n++ : MOST;
    for (; at > 0 && near->best[at - 1].far > far; at--)
        if (at < MOST)
            near->best[at] = near->best[at - 1];
    if (at < MOST) {
        near->best[at].text = text;
        near->best[at].far = far;
    }
}

static void consider_spellings(nearest *near, const char *name) {
    const char *last = last_part(name), *s;
    int most = (int)strlen(last) / 3 + 1;
    size_t module = (size_t)(last - name);
    for (int i = 0; (s = cfx_spelling_at(i)); i++) {
        bool same_module = !module || (!strncmp(s, name, module) && last_part(s) == s + module);
        int far = cfx__text_distance(last, last_part(s), most);
        if (far <= most && (same_module || !far))
            consider(near, s, far);
    }
}

/* Overloads, "aten.add.Tensor"; a name without one is held against "aten.add". */
static void consider_overloads(nearest *near, const char *name) {
    int most = (int)strlen(name) / 4;
    bool whole = strchr(name + strlen("aten."), '.') != NULL;
    for (int i = 0; i < cfx_op_count(); i++) {
        const char *full = cfx_op_name(cfx_op_at(i));
        const char *text =
            whole ? full : cfx__string_new(full, (size_t)(last_part(full) - full - 1))->text;
        int far = cfx__text_distance(name, text, most);
        if (far <= most)
            consider(near, full, far);
    }
}

/* Operators of PyTorch's that are not for dense tensors on a CPU, by the beginning of their names;
 * what they are for. */
static const char *elsewhere(const char *name) {
    static const struct {
        const char *start, *what;
    } rows[] = {
        {"cudnn_", "cuDNN"}, {"_cudnn_", "cuDNN"}, {"miopen_", "MIOpen"}, {"mps_", "Apple's GPUs"},
        {"_mps_", "Apple's GPUs"}, {"mkldnn_", "oneDNN's own tensors"},
        {"_mkldnn_", "oneDNN's own tensors"}, {"to_mkldnn", "oneDNN's own tensors"},
        {"sparse_", "sparse tensors"}, {"_sparse_", "sparse tensors"},
        {"to_sparse", "sparse tensors"}, {"_to_sparse", "sparse tensors"},
        {"_nested_", "nested tensors"}, {"nested_", "nested tensors"}, {"fbgemm_", "FBGEMM"},
        {"_cslt_", "cuSPARSELt"}, {"_triton_", "Triton"}, {"_flash_attention", "GPUs"},
        {"_efficient_attention", "GPUs"}, {"_scaled_dot_product_efficient", "GPUs"},
        {"_scaled_dot_product_flash_attention.", "GPUs"},
        {"_scaled_dot_product_flash_attention_backward", "GPUs"},
        {"_scaled_dot_product_cudnn", "cuDNN"}, {"_thnn_fused", "GPUs"},
        {"batch_norm_stats", "GPUs"}, {"batch_norm_elemt", "GPUs"},
        {"batch_norm_gather", "GPUs"}, {"_weight_int4pack", "weights packed in 4 bits"},
        {"quantized_lstm", "quantized layers of another form"},
        {"quantized_gru", "quantized layers of another form"},
    };
    name += !strncmp(name, "aten.", 5) ? 5 : !strncmp(name, "aten::", 6) ? 6 : 0;
    if (strstr(name, ".names") || strstr(name, "imname") || strstr(name, "_names"))
        return "named tensors";
    for (int i = 0; i < COUNT(rows); i++)
        if (!strncmp(name, rows[i].start, strlen(rows[i].start)))
            return rows[i].what;
    return NULL;
}

static const char *nearest_to(const char *name) {
    nearest near = {0};
    if (!strncmp(name, "aten.", strlen("aten.")))
        consider_overloads(&near, name);
    else
        consider_spellings(&near, name);
    cfx__text out = {0};
    for (int i = 0; i < near.n; i++)
        cfx__text_printf(&out, "%s%s", i ? ", " : "", near.best[i].text);
    return near.n ? cfx__text_take(&out) : NULL;
}

const char *cfx__dispatch_hint(const char *name) {
    static const char overloads[] = "torch.ops."; /* graphs say torch.ops.aten.relu.default */
    if (!strncmp(name, overloads, strlen(overloads)))
        name += strlen(overloads);
    const char *what = elsewhere(name);
    if (what)
        return cfx__text_format("; PyTorch has it for %s alone", what);
    const char *near = nearest_to(name);
    return near ? cfx__text_format("; the nearest: %s", near) : "";
}
