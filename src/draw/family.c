/* What a box is coloured by: the kind of its node and the family of its operator. Families are told
 * by patterns over operator names and module types, then by what the operator says of itself. */
#include "draw.h"

#include <ctype.h>

/* The first pattern that fits decides. Module types are compared in lower case. */
static const struct {
    uint8_t family;
    const char *patterns; /* each ended by a blank */
} table[] = {
    {CFX__FAMILY_CHECK, "_assert* sym_constrain* "},
    {CFX__FAMILY_RANDOM, "*dropout* rand* *_rand* normal* bernoulli* multinomial poisson "},
    {CFX__FAMILY_ATTENTION, "*attention* "},
    {CFX__FAMILY_RECURRENT, "lstm* gru* rnn* "},
    {CFX__FAMILY_POOL, "*pool* upsample* interpolate grid_sample* affine_grid* pixel_* "},
    {CFX__FAMILY_CONV, "conv* *_conv* *_convolution* convolution* deform_conv* "},
    {CFX__FAMILY_REDUCE,
     "sum mean nansum nanmean prod amax amin max min argmax argmin any all var var_mean std "
     "std_mean logsumexp cum* *cum* sort argsort topk norm linalg_norm linalg_*_norm median mode "
     "kthvalue aminmax unique* nonzero count_nonzero *_loss* cross_entropy* histc bincount "},
    {CFX__FAMILY_NORM, "*norm* "},
    {CFX__FAMILY_LINEAR,
     "linear *_linear bilinear addmm* mm bmm matmul baddbmm addbmm addmv mv dot vdot einsum outer "
     "inner kron tensordot linalg_* cdist _trilinear "},
    {CFX__FAMILY_ACTIVATION,
     "*relu* gelu silu swish mish elu selu celu glu *softmax* softmin softplus softsign hardtanh "
     "hardswish hardsigmoid *sigmoid *tanh threshold *shrink "},
    {CFX__FAMILY_INDEX,
     "*embedding* *index* gather scatter* *_scatter* take* masked_* where searchsorted bucketize "
     "one_hot "},
    {CFX__FAMILY_COMPARE,
     "eq ne lt le gt ge equal logical_* bitwise_* __and__ __or__ __xor__ __invert__ isnan isinf "
     "isfinite and_ or_ not_ xor is_* in1d isin allclose isclose "},
    {CFX__FAMILY_CREATE,
     "arange zeros* ones* full* empty* new_* scalar_tensor eye linspace* logspace* tensor "
     "*_like meshgrid "},
    {CFX__FAMILY_VIEW,
     "*view* *reshape* permute* *transpose* t expand* *squeeze* slice* select* split* *_split* "
     "chunk* unbind* cat stack concat* *flatten* contiguous clone detach* to _to_copy alias* "
     "movedim moveaxis roll flip* repeat* tile narrow* size sym_size* getitem getattr *pad* copy* "
     "lift_fresh* type_as float half double long int bool item unfold* fold identity numel "},
    {CFX__FAMILY_MATH, "floor* round* ceil* sym_* truediv iadd isub imul "},
};

static bool fits(const char *patterns, const char *name) {
    char one[64];
    for (const char *at = patterns; *at;) {
        size_t n = strcspn(at, " ");
        if (n < sizeof one) {
            memcpy(one, at, n);
            one[n] = 0;
            if (cfx__text_glob(one, name))
                return true;
        }
        at += n + (at[n] == ' ');
    }
    return false;
}

static cfx__draw_family by_name(const char *name) {
    for (int i = 0; i < COUNT(table); i++)
        if (fits(table[i].patterns, name))
            return (cfx__draw_family)table[i].family;
    return CFX__FAMILY_OTHER;
}

static cfx__draw_family of_module(const cfx_module *m) {
    char name[64] = "";
    for (size_t i = 0; m && m->type[i] && i + 1 < sizeof name; i++)
        name[i] = (char)tolower((unsigned char)m->type[i]), name[i + 1] = 0;
    cfx__draw_family f = by_name(name);
    return f == CFX__FAMILY_OTHER ? CFX__FAMILY_MODULE : f;
}

static cfx__draw_family of_call(const cfx_target *t) {
    if (cfx__higher_order(t->name))
        return CFX__FAMILY_CONTROL;
    char name[64];
    const char *text = t->op ? cfx__op_info_of(t->op)->schema->name : cfx__draw_last_part(t->name);
    size_t n = strlen(text);
    if (n >= sizeof name)
        return CFX__FAMILY_OTHER;
    memcpy(name, text, n + 1);
    if (n > 1 && name[n - 1] == '_' && name[n - 2] != '_') /* in place: the same family */
        name[n - 1] = 0;
    cfx__draw_family f = by_name(name);
    const cfx_fn *fn = f == CFX__FAMILY_OTHER ? cfx_fn_find(name) : NULL;
    if (!fn)
        return f;
    const cfx_op *op = fn->ops[0];
    return op->view                      ? CFX__FAMILY_VIEW
           : op->effects & CFX_RANDOM    ? CFX__FAMILY_RANDOM
           : op->effects & CFX_SIDE      ? CFX__FAMILY_CHECK
           : op->effects & CFX_POINTWISE ? CFX__FAMILY_MATH
                                         : CFX__FAMILY_OTHER;
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
    [CFX__FAMILY_VIEW] = {{"#ffffff", "#94a3b8"}, {"#161d29", "#64748b"}},
    [CFX__FAMILY_CREATE] = {{"#f3e8ff", "#9333ea"}, {"#331a52", "#c084fc"}},
    [CFX__FAMILY_RANDOM] = {{"#fce7f3", "#db2777"}, {"#471430", "#f472b6"}},
    [CFX__FAMILY_CHECK] = {{"#fafafa", "#a3a3a3"}, {"#1c1c1c", "#737373"}},
    [CFX__FAMILY_OTHER] = {{"#f5f5f4", "#78716c"}, {"#292524", "#a8a29e"}},
};
