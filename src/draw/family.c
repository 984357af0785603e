/* What a box is coloured by: the kind of its node, and the family of its operator or layer. */
#include "draw.h"

#include "../nn/layer.h"
#include "../value/default.h"

/* Families of operators follow those that only graphs have. */
static cfx__draw_family of_op(cfx_op *op) {
    return (cfx__draw_family)(CFX__FAMILY_CONTROL + (int)cfx__op_info_of(op)->family);
}

/* Layers of torch.nn by the file of torch.nn.modules that they are in. */
static cfx__draw_family of_module(const cfx_module *m) {
    static const struct {
        const char *file;
        cfx__draw_family family;
    } files[] = {{"linear.", CFX__FAMILY_LINEAR},      {"conv.", CFX__FAMILY_CONV},
                 {"activation.", CFX__FAMILY_ACTIVATION}, {"batchnorm.", CFX__FAMILY_NORM},
                 {"instancenorm.", CFX__FAMILY_NORM},  {"normalization.", CFX__FAMILY_NORM},
                 {"pooling.", CFX__FAMILY_POOL},       {"upsampling.", CFX__FAMILY_POOL},
                 {"pixelshuffle.", CFX__FAMILY_POOL},  {"rnn.", CFX__FAMILY_RECURRENT},
                 {"sparse.", CFX__FAMILY_INDEX},       {"loss.", CFX__FAMILY_REDUCE},
                 {"distance.", CFX__FAMILY_LINEAR},    {"dropout.", CFX__FAMILY_RANDOM},
                 {"padding.", CFX__FAMILY_VIEW},       {"flatten.", CFX__FAMILY_VIEW},
                 {"fold.", CFX__FAMILY_VIEW},          {"channelshuffle.", CFX__FAMILY_VIEW}};
    const char *path = m ? cfx__layer_path(m->type) : NULL;
    if (path && !strcmp(path, "activation.MultiheadAttention"))
        return CFX__FAMILY_ATTENTION;
    for (int i = 0; path && i < COUNT(files); i++)
        if (!strncmp(path, files[i].file, strlen(files[i].file)))
            return files[i].family;
    return CFX__FAMILY_MODULE;
}

static cfx__draw_family of_call(const cfx_target *t) {
    if (!strncmp(t->name, "torch.ops.higher_order.", 23))
        return CFX__FAMILY_CONTROL;
    return t->op ? of_op(t->op) : CFX__FAMILY_OTHER;
}

static cfx__draw_family find(const cfx__draw_sheet *sheet, const cfx_node *n) {
    switch (n->op) {
    case CFX_PLACEHOLDER:
        return CFX__FAMILY_INPUT;
    case CFX_OUTPUT:
        return CFX__FAMILY_OUTPUT;
    case CFX_GET_ATTR:
        return CFX__FAMILY_PARAMETER;
    case CFX_CALL_MODULE:
        return of_module(sheet->module ? cfx_module_find(sheet->module, n->target.name) : NULL);
    default:
        return of_call(&n->target);
    }
}

cfx__draw_family cfx__draw_family_of(cfx__draw_sheet *sheet, const cfx_node *n) {
    uint8_t *known = &sheet->family[cfx__node_of(n)->row->id];
    if (!*known)
        *known = (uint8_t)(find(sheet, n) + 1);
    return (cfx__draw_family)(*known - 1);
}

const char *cfx__draw_family_name(cfx__draw_family f) {
    static const char *const names[] = {
#define FAMILY_NAME(name, text) text,
        CFX__FAMILIES(FAMILY_NAME)
#undef FAMILY_NAME
    };
    return names[f];
}

const cfx__draw_tones_row cfx__draw_tones[CFX__FAMILY_COUNT] = {
    [CFX__FAMILY_INPUT] = {{"#dbeafe", "#3b82f6"}, {"#172f57", "#60a5fa"}},
    [CFX__FAMILY_OUTPUT] = {{"#c7d2fe", "#4f46e5"}, {"#2a2a6b", "#818cf8"}},
    [CFX__FAMILY_PARAMETER] = {{"#e5e7eb", "#6b7280"}, {"#2b313b", "#9ca3af"}},
    [CFX__FAMILY_MODULE] = {{"#f1f5f9", "#64748b"}, {"#1f2937", "#94a3b8"}},
    [CFX__FAMILY_CONTROL] = {{"#fae8ff", "#c026d3"}, {"#42154a", "#e879f9"}},
    [CFX__FAMILY_LINEAR] = {{"#d1fae5", "#059669"}, {"#0b3d2e", "#34d399"}},
    [CFX__FAMILY_CONV] = {{"#bbf7d0", "#16a34a"}, {"#12401f", "#4ade80"}},
    [CFX__FAMILY_ATTENTION] = {{"#ccfbf1", "#0d9488"}, {"#0c3b38", "#2dd4bf"}},
    [CFX__FAMILY_NORM] = {{"#fef3c7", "#d97706"}, {"#45300a", "#fbbf24"}},
    [CFX__FAMILY_ACTIVATION] = {{"#ffe4e6", "#e11d48"}, {"#4a1220", "#fb7185"}},
    [CFX__FAMILY_POOL] = {{"#ecfccb", "#65a30d"}, {"#2b3d0b", "#a3e635"}},
    [CFX__FAMILY_RECURRENT] = {{"#cffafe", "#0891b2"}, {"#0c3a45", "#22d3ee"}},
    [CFX__FAMILY_INDEX] = {{"#e0e7ff", "#6366f1"}, {"#26285c", "#a5b4fc"}},
    [CFX__FAMILY_REDUCE] = {{"#ffedd5", "#ea580c"}, {"#48230b", "#fb923c"}},
    [CFX__FAMILY_MATH] = {{"#fefce8", "#a16207"}, {"#36300f", "#facc15"}},
    [CFX__FAMILY_COMPARE] = {{"#f5f0e6", "#92724a"}, {"#352c1e", "#d6b98c"}},
    [CFX__FAMILY_VIEW] = {{"#ffffff", "#7b879b"}, {"#161d29", "#64748b"}},
    [CFX__FAMILY_CREATE] = {{"#f3e8ff", "#9333ea"}, {"#331a52", "#c084fc"}},
    [CFX__FAMILY_RANDOM] = {{"#fce7f3", "#db2777"}, {"#471430", "#f472b6"}},
    [CFX__FAMILY_CHECK] = {{"#fafafa", "#a3a3a3"}, {"#1c1c1c", "#737373"}},
    [CFX__FAMILY_OTHER] = {{"#f5f5f4", "#78716c"}, {"#292524", "#a8a29e"}},
};

bool cfx__draw_is_default(const cfx__schema *schema, const char *name, cfx_value v) {
    for (int i = 0; schema && i < schema->nargs; i++)
        if (!strcmp(schema->args[i].name, name))
            return cfx__schema_is_default(&schema->args[i], v);
    return false;
}
