/* Tensors that are named on the command line: "F", "NAME=F", and raw numbers, "F:f32[3,4]".
 * Several such texts are one, a line each. */
#include "look.h"

#include <string.h>
#include <unistd.h>

#include "../feed/feed.h"
#include "../tensor/tensor.h"

static cfx_image_options picture; /* how pictures become tensors */
static bool pictures;             /* that was said */

bool cli_image(cli_words *w) {
    const char *text = NULL;
    if (!cli_value(w, "--image", &text))
        return false;
    if (text && !cfx_image_options_parse(text, &picture)) {
        cli_trouble();
        w->wrong = true;
    }
    pictures |= text != NULL;
    return true;
}

bool cli_image_was_said(void) { return pictures; }

bool cli_image_is_coloured(void) { return pictures && picture.channels != CFX_IMAGE_GREY; }

bool cli_tensors(cli_words *w, const char *name, const char **spec) {
    const char *text = NULL;
    if (!cli_value(w, name, &text))
        return false;
    *spec = *spec && text ? cfx__text_format("%s\n%s", *spec, text) : text ? text : *spec;
    return true;
}

/* ---- raw numbers ----------------------------------------------------------------------------- */

typedef struct raw {
    cfx_dtype dtype;
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
} raw;

/* "3, 4]" to its end. */
static bool read_shape(const char *p, raw *r) {
    while (*p != ']') {
        char *end;
        long long n = strtoll(p, &end, 10);
        if (end == p || n < 0 || r->ndim == CFX_MAX_DIMS || (*end != ',' && *end != ']'))
            return false;
        r->shape[r->ndim++] = n;
        p = *end == ',' ? end + 1 : end;
    }
    return !p[1];
}

/* Where a text ends in ":DTYPE[SHAPE]", where that begins; NULL where it does not, with an error
 * where the dtype or the shape is none. */
static const char *find_raw(const char *text, raw *r) {
    const char *colon = strrchr(text, ':'), *bracket = colon ? strchr(colon, '[') : NULL;
    if (!bracket)
        return NULL;
    const char *dtype = cfx__text_format("%.*s", (int)(bracket - colon - 1), colon + 1);
    *r = (raw){0};
    if (cfx_dtype_parse(dtype, &r->dtype) && read_shape(bracket + 1, r))
        return colon;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "'%s' is no dtype and shape of plain numbers, such as 'f32[3,4]'", colon + 1);
    return NULL;
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

/* Whether "F:f32" names a file that is there, and a dtype, but no shape. */
static bool lacks_shape(const char *text) {
    const char *colon = strrchr(text, ':');
    cfx_dtype d;
    return colon && cfx_dtype_parse(colon + 1, &d) &&
           is_there(cfx__text_format("%.*s", (int)(colon - text), text));
}

static cfx_value read_raw(const char *path, const raw *r) {
    int64_t bytes = cfx_dtype_size(r->dtype);
    bool absurd = false;
    for (int i = 0; i < r->ndim; i++)
        absurd |= __builtin_mul_overflow(bytes, r->shape[i], &bytes);
    cfx__file_mapping *m = cfx__file_map(path);
    cfx_tensor *t = NULL;
    if (m && (absurd || (uint64_t)bytes != m->size))
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has %zu bytes, which is not the size of %s%s",
                 path, m->size, cfx_dtype_brief(r->dtype), cfx__shape_text(r->ndim, r->shape));
    else if (m)
        t = cfx_tensor_new(r->dtype, r->ndim, r->shape, m->size ? m->data : NULL);
    for (int64_t i = 0; t && cfx_ok() && r->dtype == CFX_BOOL && i < t->numel; i++)
        t->data[i] = t->data[i] != 0; /* any byte but 0 counts as true */
    if (m)
        cfx_drop(m);
    return t && cfx_ok() ? cfx_tensor_value(t) : cfx_bad();
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The file that "NAME=F" names, behind its name; NULL: there is no name. */
static const char *after_name(const char *text) {
    const char *equals = strchr(text, '=');
    return !equals || equals == text || is_there(text) ? NULL : equals + 1;
}

static cfx_dict *read_picture(const char *path) {
    cfx_dict *one = cfx_dict_new();
    if (!pictures) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "'%s' is an image: say how it becomes a tensor, such as --image "
                 "size=224,mean=0.485,0.456,0.406,std=0.229,0.224,0.225", path);
        return NULL;
    }
    cfx_dict_set(one, "0", cfx_tensor_value(cfx_image_prepare(cfx_image_read(path), &picture)));
    if (cfx_ok() && cfx__image_orientation(path) != 1)
        cli_say("cfx: '%s' is turned or mirrored when it is shown (Exif orientation %d); it is "
                "taken as it is stored\n", path, cfx__image_orientation(path));
    return cfx_ok() ? one : NULL;
}

static cfx_dict *read_one(const char *text) {
    raw r;
    const char *colon = is_there(text) ? NULL : find_raw(text, &r);
    if (!colon && !is_there(text) && lacks_shape(text))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "'%s' says no shape of plain numbers: write '%s[3,4]', or '%s[]' for one number",
                 text, text, text);
    if (!cfx_ok())
        return NULL;
    if (!colon && cfx_image_is_in(text))
        return read_picture(text);
    if (!colon)
        return cfx_tensors_read(text);
    cfx_dict *one = cfx_dict_new();
    cfx_dict_set(one, "0", read_raw(cfx__text_format("%.*s", (int)(colon - text), text), &r));
    return cfx_ok() ? one : NULL;
}

/* The end of a file's name, as ".npy"; "" where it has none. */
static const char *end_of(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot : "";
}

bool cli_tensors_savable(const char *path) {
    static const char *const others[] = {".npz", ".pt",  ".pth", ".bin", ".pkl",  ".pb",  ".pt2",
                                         ".onnx", ".fx", ".json", ".csv", ".txt", ".png", ".jpg"};
    for (int i = 0; path && i < COUNT(others); i++)
        if (!strcmp(end_of(path), others[i])) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "cannot write '%s': tensors are written as .safetensors, or one as .npy",
                     path);
            return false;
        }
    return true;
}

bool cli_tensors_save(const char *path, const cfx_dict *tensors) {
    if (strcmp(end_of(path), ".npy"))
        return cfx_safetensors_write(path, tensors, NULL);
    if (tensors->len == 1)
        return cfx_npy_write(path, cfx_as_tensor(tensors->entries[0].value));
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "cannot write '%s': a .npy holds one tensor, and these are %lld; use .safetensors",
             path, (long long)tensors->len);
    return false;
}

/* "0" to the end of digits. */
static bool is_number(const char *name) {
    return *name && strspn(name, "0123456789") == strlen(name);
}

/* Adds what a text names; tensors without a name are numbered on. */
static bool add(cfx_dict *all, const char *text, const char *prefix, int64_t *unnamed) {
    const char *path = after_name(text);
    cfx_dict *one = read_one(path ? path : text);
    if (one && path && one->len != 1)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has %lld tensors, but '%.*s' is one input",
                                  path,
                 (long long)one->len, (int)(path - 1 - text), text);
    for (int64_t i = 0; one && cfx_ok() && i < one->len; i++) {
        const char *name = cfx_text(one->entries[i].key);
        if (path)
            name = cfx__text_format("%.*s", (int)(path - 1 - text), text);
        else if (name && is_number(name))
            name = cfx__text_format("%s%lld", prefix, (long long)(*unnamed)++);
        if (!cfx_is_none(cfx_dict_get(all, name)))
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is given twice", name);
        cfx_dict_set(all, name, one->entries[i].value);
    }
    return cfx_ok();
}

cfx_dict *cli_read_tensors(const char *spec, const char *prefix) {
    cfx_dict *all = cfx_dict_new();
    int64_t unnamed = 0;
    for (const char *end; spec && cfx_ok(); spec = *end ? end + 1 : NULL) {
        end = strchr(spec, '\n') ? strchr(spec, '\n') : spec + strlen(spec);
        if (!add(all, cfx__text_format("%.*s", (int)(end - spec), spec), prefix, &unnamed))
            break;
    }
    return cfx_ok() ? all : NULL;
}

cfx_value cli_find_tensor(const cfx_dict *file, const char *name, const char *prefix, int64_t i) {
    cfx_value v = name ? cfx_dict_get(file, name) : cfx_none();
    if (cfx_is_none(v))
        v = cfx_dict_get(file, cfx__text_format("%s%lld", prefix, (long long)i));
    return cfx_is_none(v) ? cfx_dict_get(file, cfx__text_format("arr_%lld", (long long)i)) : v;
}
