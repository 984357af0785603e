/* Which observers: PyTorch's qconfigs by name, and mappings from nodes to them. */
#include "fx.h"

#include <regex.h>

/* ---- presets --------------------------------------------------------------------------------- */

#define MIN_MAX .kind = CFX_MIN_MAX_OBSERVER
#define HISTOGRAM .kind = CFX_HISTOGRAM_OBSERVER
#define CHANNELS .kind = CFX_PER_CHANNEL_MIN_MAX_OBSERVER
#define MOVING .kind = CFX_MOVING_AVERAGE_MIN_MAX_OBSERVER
#define MOVING_CHANNELS .kind = CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER
#define SIGNED .dtype = CFX_QI8, .qscheme = CFX_PER_TENSOR_SYMMETRIC
#define SIGNED_CHANNELS .dtype = CFX_QI8, .qscheme = CFX_PER_CHANNEL_SYMMETRIC
#define WEIGHT                                                                                     \
    { MIN_MAX, SIGNED }
#define WEIGHT_CHANNELS                                                                            \
    { CHANNELS, SIGNED_CHANNELS }
#define DYNAMIC                                                                                    \
    { .kind = CFX_PLACEHOLDER_OBSERVER, .dtype = CFX_QU8, .quant_max = 255, .dynamic = true }
#define FLOAT                                                                                      \
    { .kind = CFX_PLACEHOLDER_OBSERVER, .dtype = CFX_F32 }
#define HALF(...)                                                                                  \
    { .kind = CFX_PLACEHOLDER_OBSERVER, .dtype = CFX_F16, __VA_ARGS__ }
#define NARROW .quant_min = -127, .quant_max = 127, .eps = 0x1p-12
#define FAKE_ACTIVATION(how) MOVING, .quant_max = 255, .fake = CFX_##how##FAKE_QUANTIZE
#define FAKE_WEIGHT(how)                                                                           \
    { MOVING, SIGNED, .quant_min = -128, .quant_max = 127, .fake = CFX_##how##FAKE_QUANTIZE }
#define FAKE_CHANNELS(how)                                                                         \
    {                                                                                              \
        MOVING_CHANNELS, SIGNED_CHANNELS, .quant_min = -128, .quant_max = 127,                     \
                                          .fake = CFX_##how##FAKE_QUANTIZE                         \
    }

/* Rows of embeddings: zero points are floats. */
#define ROWS .dtype = CFX_QU8, .qscheme = CFX_PER_CHANNEL_AFFINE_FLOAT_QPARAMS
#define FAKE_ROWS(most)                                                                            \
    {                                                                                              \
        MOVING_CHANNELS, ROWS, .quant_max = most, .averaging_constant = 1,                         \
            .fake = CFX_FAKE_QUANTIZE                                                              \
    }
#define NO_ACTIVATION                                                                              \
    { .kind = CFX_NOOP_OBSERVER, .dtype = CFX_F32 }

static const struct preset {
    const char *name;
    cfx_qconfig q;
} presets[] = {
    {"x86", {{HISTOGRAM, .reduce_range = true}, WEIGHT_CHANNELS}},
    {"fbgemm", {{HISTOGRAM, .reduce_range = true}, WEIGHT_CHANNELS}},
    {"onednn", {{HISTOGRAM}, WEIGHT_CHANNELS}},
    {"qnnpack", {{HISTOGRAM}, WEIGHT}},
    {"x86 qat", {{FAKE_ACTIVATION(FUSED_), .reduce_range = true}, FAKE_CHANNELS(FUSED_)}},
    {"fbgemm qat", {{FAKE_ACTIVATION(FUSED_), .reduce_range = true}, FAKE_CHANNELS(FUSED_)}},
    {"onednn qat", {{FAKE_ACTIVATION(FUSED_)}, FAKE_CHANNELS(FUSED_)}},
    {"qnnpack qat", {{FAKE_ACTIVATION(FUSED_)}, FAKE_WEIGHT(FUSED_)}},
    {"x86 qat v0", {{FAKE_ACTIVATION(), .reduce_range = true}, FAKE_CHANNELS()}},
    {"fbgemm qat v0", {{FAKE_ACTIVATION(), .reduce_range = true}, FAKE_CHANNELS()}},
    {"onednn qat v0", {{FAKE_ACTIVATION()}, FAKE_CHANNELS()}},
    {"qnnpack qat v0", {{FAKE_ACTIVATION()}, FAKE_WEIGHT()}},
    {"learnable", {{FAKE_ACTIVATION(LEARNABLE_)}, FAKE_WEIGHT(LEARNABLE_)}},
    {"default", {{MIN_MAX, .quant_max = 127}, WEIGHT}},
    {"per_channel", {{MIN_MAX, .quant_max = 127}, WEIGHT_CHANNELS}},
    {"dynamic", {DYNAMIC, WEIGHT}},
    {"per_channel_dynamic", {DYNAMIC, WEIGHT_CHANNELS}},
    {"float16_dynamic", {HALF(.dynamic = true), HALF()}},
    {"float16_static", {HALF(), HALF()}},
    {"float_qparams_weight_only", {FLOAT, {CHANNELS, ROWS}}},
    {"float_qparams_weight_only_4bit", {FLOAT, {CHANNELS, ROWS, .quant_max = 15}}},
    {"dynamic qat",
     {{FAKE_ACTIVATION(), .averaging_constant = 1, .dynamic = true}, FAKE_WEIGHT()}},
    {"embedding qat", {NO_ACTIVATION, FAKE_ROWS(255)}},
    {"embedding qat 4bit", {NO_ACTIVATION, FAKE_ROWS(15)}},
    {"symmetric_qnnpack",
     {{HISTOGRAM, .dtype = CFX_QI8, .eps = 0x1p-12}, {MIN_MAX, SIGNED, NARROW}}},
    {"per_channel_symmetric_qnnpack",
     {{HISTOGRAM, .dtype = CFX_QI8, .eps = 0x1p-12}, {CHANNELS, SIGNED_CHANNELS, NARROW}}},
    {"quint8_weight", {{HISTOGRAM}, {MIN_MAX}}},
    {"reuse_input", {{.kind = CFX_REUSE_INPUT_OBSERVER}, {.kind = CFX_NOOP_OBSERVER}}},
};

bool cfx_qconfig_find_from(cfx_site at, const char *name, cfx_qconfig *out) {
    cfx__text all = {0};
    for (int i = 0; i < COUNT(presets); i++) {
        if (name && !strcmp(presets[i].name, name)) {
            *out = presets[i].q;
            cfx__text_release(&all);
            return true;
        }
        cfx__text_printf(&all, i ? ", %s" : "%s", presets[i].name);
    }
    cfx_fail(CFX_VALUE_ERROR, at, "there is no qconfig called '%s': %s", name ? name : "None",
             cfx__text_take(&all));
    return false;
}

/* ---- mappings -------------------------------------------------------------------------------- */

typedef struct rule {
    cfx_qconfig_by by;
    char *text;
    char *type; /* CFX_QCONFIG_ORDER: of calls inside the module at `text`, */
    int index;  /* this one */
    bool some; /* false: leave it in float */
    cfx_qconfig q;
    regex_t regex; /* CFX_QCONFIG_REGEX */
} rule;

struct cfx_qconfig_mapping {
    cfx_obj head;
    bool some;
    cfx_qconfig global;
    VEC(rule *) rules;
};

static void mapping_free(void *p) {
    cfx_qconfig_mapping *m = p;
    for (size_t i = 0; i < m->rules.len; i++) {
        if (m->rules.data[i]->by == CFX_QCONFIG_REGEX)
            regfree(&m->rules.data[i]->regex);
        cfx__free(m->rules.data[i]->text);
        cfx__free(m->rules.data[i]->type);
        cfx__free(m->rules.data[i]);
    }
    VEC_FREE(m->rules);
}

static const cfx__obj_type mapping_type = {.name = "qconfig mapping", .free = mapping_free};

cfx_qconfig_mapping *cfx_qconfig_mapping_new(void) {
    return cfx__scope_own(cfx__obj_make(&mapping_type, sizeof(cfx_qconfig_mapping)));
}

static rule *add_rule(cfx_qconfig_mapping *m, cfx_qconfig_by kind, const char *text,
                      const cfx_qconfig *q) {
    if (!m || !text)
        return NULL;
    rule *r = NULL;
    for (size_t i = 0; i < m->rules.len && !r; i++)
        if (m->rules.data[i]->by == kind && !strcmp(m->rules.data[i]->text, text))
            r = m->rules.data[i];
    if (!r) {
        r = cfx__alloc0(sizeof *r);
        r->by = kind;
        r->text = cfx__text_copy(text, strlen(text));
        VEC_PUSH(m->rules, r);
    }
    r->some = q != NULL;
    if (q)
        r->q = *q;
    return r;
}

void cfx_qconfig_mapping_global(cfx_qconfig_mapping *m, const cfx_qconfig *q) {
    if (!m)
        return;
    m->some = q != NULL;
    if (q)
        m->global = *q;
}

/* "torch.nn.Linear" and "torch.nn.modules.linear.Linear" are the class Linear. */
static const char *type_name(const char *type) {
    bool layer =
        type && !strncmp(type, "torch.nn.", 9) && strncmp(type, "torch.nn.functional.", 20);
    return layer ? strrchr(type, '.') + 1 : type ? cfx__quant_spelling(type) : type;
}

void cfx_qconfig_mapping_type(cfx_qconfig_mapping *m, const char *type, const cfx_qconfig *q) {
    add_rule(m, CFX_QCONFIG_TYPE, type_name(type), q);
}

void cfx_qconfig_mapping_name(cfx_qconfig_mapping *m, const char *path, const cfx_qconfig *q) {
    add_rule(m, CFX_QCONFIG_NAME, path, q);
}

void cfx_qconfig_mapping_regex_from(cfx_site at, cfx_qconfig_mapping *m, const char *regex,
                                    const cfx_qconfig *q) {
    regex_t compiled;
    int rc = regcomp(&compiled, regex ? regex : "", REG_EXTENDED);
    if (rc) {
        char why[128];
        regerror(rc, &compiled, why, sizeof why);
        cfx_fail(CFX_VALUE_ERROR, at, "the regular expression '%s' cannot be read: %s",
                 regex ? regex : "", why);
        return;
    }
    size_t before = m ? m->rules.len : 0;
    rule *r = add_rule(m, CFX_QCONFIG_REGEX, regex, q);
    if (r && m->rules.len > before)
        r->regex = compiled;
    else
        regfree(&compiled);
}

void cfx_qconfig_mapping_order(cfx_qconfig_mapping *m, const char *path, const char *type,
                               int index, const cfx_qconfig *q) {
    if (!m || !path || !type)
        return;
    rule *r = cfx__alloc0(sizeof *r);
    const char *name = type_name(type);
    *r = (rule){.by = CFX_QCONFIG_ORDER, .index = index, .some = q != NULL};
    r->text = cfx__text_copy(path, strlen(path));
    r->type = cfx__text_copy(name, strlen(name));
    if (q)
        r->q = *q;
    VEC_PUSH(m->rules, r);
}

static const cfx_qconfig *answer(const rule *r) { return r->some ? &r->q : NULL; }

int cfx_qconfig_mapping_count(const cfx_qconfig_mapping *m) {
    return m ? (int)m->rules.len + 1 : 0;
}

cfx_qconfig_rule cfx_qconfig_mapping_at(const cfx_qconfig_mapping *m, int i) {
    if (i < 1 || i >= cfx_qconfig_mapping_count(m))
        return (cfx_qconfig_rule){.by = CFX_QCONFIG_GLOBAL,
                                  .qconfig = m && m->some ? &m->global : NULL};
    const rule *r = m->rules.data[i - 1];
    return (cfx_qconfig_rule){r->by, r->text, r->type, r->index, answer(r)};
}

static const rule *find(const cfx_qconfig_mapping *m, cfx_qconfig_by kind, const char *text,
                        size_t len) {
    for (size_t i = 0; i < m->rules.len; i++) {
        const rule *r = m->rules.data[i];
        if (r->by == kind && !strncmp(r->text, text, len) && !r->text[len])
            return r;
    }
    return NULL;
}

const cfx_qconfig *cfx__qconfig_of_type(const cfx_qconfig_mapping *m, const char *type,
                                        bool *said) {
    const rule *r = find(m, CFX_QCONFIG_TYPE, type_name(type), strlen(type_name(type)));
    *said = r != NULL;
    return r ? answer(r) : NULL;
}

const cfx_qconfig *cfx__qconfig_of_call(const cfx_qconfig_mapping *m, const char *path,
                                        const char *type, int index, bool *said) {
    const rule *found = NULL;
    for (size_t i = 0; i < m->rules.len; i++) {
        const rule *r = m->rules.data[i];
        if (r->by == CFX_QCONFIG_ORDER && r->index == index && !strcmp(r->text, path) &&
            !strcmp(r->type, type_name(type)))
            found = r;
    }
    *said = found != NULL;
    return found ? answer(found) : NULL;
}

const cfx_qconfig *cfx__qconfig_or(const cfx_qconfig_mapping *m, const char *type, const char *path,
                                   const cfx_qconfig *other) {
    for (size_t len = strlen(path); len; len--)
        if (!path[len] || path[len] == '.') {
            const rule *r = find(m, CFX_QCONFIG_NAME, path, len);
            if (r)
                return answer(r);
        }
    for (size_t i = 0; i < m->rules.len; i++) {
        const rule *r = m->rules.data[i];
        regmatch_t at;
        if (r->by == CFX_QCONFIG_REGEX && !regexec(&r->regex, path, 1, &at, 0) && at.rm_so == 0)
            return answer(r);
    }
    bool said;
    const cfx_qconfig *q = cfx__qconfig_of_type(m, type, &said);
    return said ? q : other;
}

const cfx_qconfig *cfx__qconfig_of(const cfx_qconfig_mapping *m, const char *type,
                                   const char *path) {
    return cfx__qconfig_or(m, type, path, m->some ? &m->global : NULL);
}

static bool has_fake(const cfx_qconfig *q) { return q->activation.fake || q->weight.fake; }

bool cfx__qconfig_trains(const cfx_qconfig_mapping *m) {
    bool trains = m->some && has_fake(&m->global);
    for (size_t i = 0; i < m->rules.len; i++)
        trains |= m->rules.data[i]->some && has_fake(&m->rules.data[i]->q);
    return trains;
}

/* ---- the default mapping --------------------------------------------------------------------- */

static const char *const transposed[] = {"ConvTranspose1d",
                                         "ConvTranspose2d",
                                         "ConvTranspose3d",
                                         "torch.nn.functional.conv_transpose1d",
                                         "torch.nn.functional.conv_transpose2d",
                                         "torch.nn.functional.conv_transpose3d"};
static const char *const unit_range[] = {"Hardsigmoid", "torch.nn.functional.hardsigmoid",
                                         "hardsigmoid", "hardsigmoid_",
                                         "Sigmoid",     "torch.sigmoid",
                                         "sigmoid",     "sigmoid_",
                                         "Softmax"};
static const char *const signed_range[] = {"Tanh", "torch.tanh", "tanh", "tanh_"};

static void set_all(cfx_qconfig_mapping *m, const char *const *types, int n, const cfx_qconfig *q) {
    for (int i = 0; i < n; i++)
        add_rule(m, CFX_QCONFIG_TYPE, types[i], q);
}

cfx_qconfig_mapping *cfx_qconfig_mapping_default_from(cfx_site at, const char *backend) {
    static const char *const backends[] = {"x86", "fbgemm", "onednn", "qnnpack"};
    cfx_qconfig q, reuse, other, weight = {{0}, WEIGHT};
    const char *space = backend ? strchr(backend, ' ') : NULL;
    bool known = false, qat = space && (!strcmp(space, " qat") || !strcmp(space, " qat v0"));
    for (int i = 0; i < COUNT(backends) && backend; i++)
        known |= !strncmp(backend, backends[i], strlen(backends[i])) &&
                 (qat || !backend[strlen(backends[i])]);
    if (!known) {
        cfx_fail(CFX_ASSERTION_ERROR, at,
                 "backend: %s not supported. backend must be one of ['fbgemm', 'x86', 'qnnpack', "
                 "'onednn']",
                 backend ? backend : "None");
        return NULL;
    }
    if (!cfx_qconfig_find_from(at, backend, &q) ||
        !cfx_qconfig_find_from(at, "reuse_input", &reuse))
        return NULL;
    if (qat)
        weight.weight = (cfx_observer)FAKE_WEIGHT();
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    cfx_qconfig_mapping_global(m, &q);
    add_rule(m, CFX_QCONFIG_TYPE, "reshape", &reuse);
    other = q;
    if (!strncmp(backend, "x86", 3) || !strncmp(backend, "fbgemm", 6))
        other.weight = weight.weight;
    set_all(m, transposed, COUNT(transposed), &other);
    other = (cfx_qconfig){q.activation, FLOAT};
    add_rule(m, CFX_QCONFIG_TYPE, "torch.nn.functional.layer_norm", &other);
    add_rule(m, CFX_QCONFIG_TYPE, "LayerNorm", &other);
    cfx_qconfig_find_from(at, "quint8_weight", &other);
    add_rule(m, CFX_QCONFIG_TYPE, "PReLU", &other);
    other = (cfx_qconfig){{.kind = CFX_FIXED_QPARAMS_OBSERVER,
                           .scale = 1.0 / 256,
                           .quant_max = 255,
                           .fake = qat ? CFX_FAKE_QUANTIZE : CFX_NO_FAKE_QUANTIZE},
                          weight.weight};
    set_all(m, unit_range, COUNT(unit_range), &other);
    other.activation.scale = 2.0 / 256;
    other.activation.zero_point = 128;
    set_all(m, signed_range, COUNT(signed_range), &other);
    return m;
}
