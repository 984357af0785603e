/* LoRA adapters merged into weights: W + scale * B A, by PEFT's names of tensors. */
#include "weights.h"

#include <cfx/ops.h>

#include <math.h>

#include "../value/json.h"

typedef struct merging {
    cfx_program *p;
    const char *path;
    const cfx_dict *file;
    cfx_value config; /* a dict, or None */
    double alpha;     /* NaN: what the config says */
    cfx_dict *report;
} merging;

static bool wrong(const merging *m, const char *fmt, ...) CFX_PRINTF(2, 3);
static bool wrong(const merging *m, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, cfx__text_format("'%s': ", m->path), fmt, ap);
    va_end(ap);
    return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A pair of matrices: how the first and the second are called, behind the module's path. */
static const struct {
    const char *down, *up;
    bool table; /* of an embedding: the product lies on its side */
} pairs[] = {{".lora_A.weight", ".lora_B.weight", false},
             {".lora_A.default.weight", ".lora_B.default.weight", false},
             {".lora_down.weight", ".lora_up.weight", false},
             {".lora_embedding_A", ".lora_embedding_B", true},
             {".lora_embedding_A.default", ".lora_embedding_B.default", true}};

/* The weight of the program that a module of the adapter is of, by the longest path that both end
 * in; NULL: none, or several. */
static const char *weight_of(const merging *m, const char *module) {
    for (const char *path = module; path; path = strchr(path, '.') ? strchr(path, '.') + 1 : NULL) {
        const char *found = NULL, *end = cfx__text_format("%s.weight", path);
        int n = 0;
        for (int64_t i = 0; i < m->p->state->len; i++) {
            const char *name = cfx_text(m->p->state->entries[i].key);
            const size_t len = strlen(name), k = strlen(end);
            if (cfx__weights_ends(name, end) && (len == k || name[len - k - 1] == '.')) {
                found = name;
                n++;
            }
        }
        if (n)
            return n == 1 ? found : NULL;
    }
    return NULL;
}

/* ---- the scale ------------------------------------------------------------------------------- */

static double number_of(cfx_value dict, const char *key, double otherwise) {
    cfx_value v = dict.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(dict), key) : cfx_none();
    return cfx_is_number(v) ? cfx_number(v) : otherwise;
}

static bool is_set(cfx_value dict, const char *key) {
    cfx_value v = dict.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(dict), key) : cfx_none();
    return v.tag == CFX_TAG_BOOL && cfx_integer(v);
}

/* What alpha_pattern says of a module, by the end of its path. */
static double alpha_of(const merging *m, const char *module) {
    double alpha = isnan(m->alpha) ? number_of(m->config, "lora_alpha", NAN) : m->alpha;
    cfx_value patterns = m->config.tag == CFX_TAG_DICT
                             ? cfx_dict_get(cfx_as_dict(m->config), "alpha_pattern")
                             : cfx_none();
    for (int64_t i = 0; patterns.tag == CFX_TAG_DICT && i < cfx_as_dict(patterns)->len; i++) {
        const char *key = cfx_text(cfx_as_dict(patterns)->entries[i].key);
        const cfx_value v = cfx_as_dict(patterns)->entries[i].value;
        if (isnan(m->alpha) && key && cfx__weights_ends(module, key) && cfx_is_number(v))
            alpha = cfx_number(v);
    }
    const cfx_value own = cfx_dict_get(m->file, cfx__text_format("%s.alpha", module));
    if (isnan(m->alpha) && own.tag == CFX_TAG_TENSOR && cfx_as_tensor(own)->numel == 1)
        alpha = cfx_tensor_get(cfx_as_tensor(own), 0);
    return alpha;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* B A in the shape of the weight; bad, with an error, where it does not fit. */
static cfx_tensor *product(const merging *m, const char *name, const cfx_tensor *w, cfx_tensor *a,
                           cfx_tensor *b, bool table) {
    const bool fits = a->ndim >= 2 && b->ndim >= 2 && a->shape[0] == b->shape[1] &&
                      b->numel == b->shape[0] * b->shape[1];
    const int64_t r = fits ? a->shape[0] : 1;
    cfx_tensor *flat = cfx_reshape(cfx_to(a, CFX_F32), cfx_list(r, -1));
    cfx_tensor *rows = cfx_reshape(cfx_to(b, CFX_F32), cfx_list(-1, r));
    cfx_tensor *d = fits ? cfx_matmul(rows, flat) : &cfx__tensor_bad;
    const bool side = is_set(m->config, "fan_in_fan_out");
    if (fits && cfx_ok() && (table || side))
        d = cfx_t(d);
    if (!fits || (cfx_ok() && (d->numel != w->numel || d->shape[0] != w->shape[0]))) {
        wrong(m, "the matrices for %s, %s and %s, do not make its %s", name,
              cfx__shape_text(a->ndim, a->shape), cfx__shape_text(b->ndim, b->shape),
              cfx__shape_text(w->ndim, w->shape));
        return &cfx__tensor_bad;
    }
    cfx_value sizes = cfx_list_value(0, NULL);
    for (int i = 0; i < w->ndim; i++)
        cfx_list_append(cfx_as_list(sizes), cfx_int(w->shape[i]));
    return cfx_reshape(d, sizes);
}

static bool merge(merging *m, const char *module, cfx_tensor *a, cfx_tensor *b, bool table) {
    const char *name = weight_of(m, module);
    if (!name) {
        cfx__weights_note(m->report, "unused", module);
        return true;
    }
    const double alpha = alpha_of(m, module), r = (double)a->shape[0];
    if (isnan(alpha))
        return wrong(m, "nothing tells the scale: an adapter_config.json beside it, or an alpha");
    const double scale = alpha / (is_set(m->config, "use_rslora") ? sqrt(r) : r);
    const cfx_tensor *w = cfx_as_tensor(cfx_dict_get(m->p->state, name));
    if (!cfx__dtype_is_float(w->dtype))
        return wrong(m, "%s is %s: adapters go into floats, before a program is quantized", name,
                     cfx_dtype_name(w->dtype));
    cfx_tensor *d = product(m, name, w, a, b, table);
    if (!cfx_ok())
        return false;
    cfx_tensor *sum = cfx_add(cfx_to((cfx_tensor *)w, CFX_F32), cfx_mul(d, scale));
    cfx_dict_set(m->p->state, name,
                 cfx_tensor_value(cfx_to(sum, cfx_dtype_value(w->dtype))));
    cfx__weights_note(m->report, "merged", name);
    return cfx_ok();
}

/* One tensor of the file: the first of a pair, which is merged; the second, and scales, go with it;
 * a tensor of the model's own takes the place of the old one. */
static bool take(merging *m, const char *key, cfx_tensor *t) {
    if (strstr(key, "lora_magnitude_vector") || strstr(key, "lora_bias"))
        return wrong(m, "'%s' is of DoRA or has a bias, which cannot be merged here", key);
    for (int i = 0; i < COUNT(pairs); i++) {
        if (cfx__weights_ends(key, pairs[i].up))
            return true;
        if (!cfx__weights_ends(key, pairs[i].down))
            continue;
        const char *module =
            cfx__text_format("%.*s", (int)(strlen(key) - strlen(pairs[i].down)), key);
        cfx_value up = cfx_dict_get(m->file, cfx__text_format("%s%s", module, pairs[i].up));
        if (up.tag != CFX_TAG_TENSOR || t->ndim < 2)
            return wrong(m, "'%s' has no second matrix", key);
        return merge(m, module, t, cfx_as_tensor(up), pairs[i].table);
    }
    if (cfx__weights_ends(key, ".alpha"))
        return true;
    const bool weight = cfx__weights_ends(key, ".weight");
    const char *module = weight ? cfx__text_format("%.*s", (int)(strlen(key) - 7), key) : key;
    const char *name = weight ? weight_of(m, module) : NULL;
    const cfx_tensor *old = name ? cfx_as_tensor(cfx_dict_get(m->p->state, name)) : NULL;
    if (!old || !cfx__tensor_same_shape(old, t)) {
        cfx__weights_note(m->report, "unused", key);
        return true;
    }
    cfx_dict_set(m->p->state, name, cfx_tensor_value(cfx_to(t, cfx_dtype_value(old->dtype))));
    cfx__weights_note(m->report, "replaced", name);
    return cfx_ok();
}

/* adapter_config.json beside the file; None where there is none. */
static cfx_value read_config(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *beside = cfx__text_format("%.*sadapter_config.json",
                                          slash ? (int)(slash + 1 - path) : 0, path);
    cfx__file_mapping *f = cfx__file_map(beside);
    if (!f) {
        cfx__error_forgive();
        return cfx_none();
    }
    cfx_value v = cfx__json_parse(f->size ? f->data : "", f->size, beside);
    cfx_drop(f);
    return v;
}

bool cfx_program_merge_lora(cfx_program *p, const char *path, double alpha, cfx_dict *report) {
    if (!cfx_ok())
        return false;
    if (!p || cfx_failed(p) || !path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "an adapter goes from a file into a program");
        return false;
    }
    size_t mark = cfx_scope_open();
    merging m = {.p = cfx_program_copy(p), .path = path, .alpha = alpha,
                 .report = report ? report : cfx_dict_new()};
    m.config = read_config(path);
    m.file = cfx_ok() ? cfx_tensors_read(path) : NULL;
    for (int64_t i = 0; m.file && i < m.file->len && cfx_ok(); i++)
        if (m.file->entries[i].value.tag == CFX_TAG_TENSOR)
            take(&m, cfx_text(m.file->entries[i].key), cfx_as_tensor(m.file->entries[i].value));
    if (cfx_ok() && cfx_dict_get(m.report, "merged").tag != CFX_TAG_LIST)
        wrong(&m, "no tensor in it matches a weight of the program");
    const bool fine = cfx_ok() && cfx_program_load_state_dict(p, m.p->state, false);
    cfx_scope_close(mark);
    return fine;
}
