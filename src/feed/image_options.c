/* "size=224,mean=0.485,0.456,0.406": how a picture becomes an input, as a text. */
#include "feed.h"

#include <math.h>

typedef struct reader {
    cfx_image_options *o;
    const char *key; /* the last one that was named */
    size_t key_len;
    int count; /* numbers that it has so far */
} reader;

static bool wrong(const char *fmt, ...) CFX_PRINTF(1, 2);
static bool wrong(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_VALUE_ERROR, (cfx_site){0}, "image options: ", fmt, ap);
    va_end(ap);
    return false;
}

static bool is(const char *text, size_t len, const char *word) {
    return strlen(word) == len && !memcmp(text, word, len);
}

/* "224" or "224x320", height and width; `both`: one number stands for both. */
static bool read_size(const char *text, size_t len, int64_t size[2], bool both) {
    char word[32], *end;
    if (len >= sizeof word)
        return false;
    memcpy(word, text, len);
    word[len] = 0;
    const long long h = strtoll(word, &end, 10);
    long long w = both ? h : 0;
    if (end == word || h < 1 || h > 1 << 20)
        return false;
    if (*end == 'x') {
        char *second = end + 1;
        w = strtoll(second, &end, 10);
        if (end == second || w < 1 || w > 1 << 20)
            return false;
    }
    size[0] = h;
    size[1] = w;
    return !*end;
}

/* One of the numbers of mean or std. */
static bool read_part(reader *r, const char *text, size_t len, double to[3], bool positive) {
    char word[64], *end;
    if (len >= sizeof word || r->count == 3)
        return wrong("%.*s is one number, or one for each of three channels",
                     (int)r->key_len, r->key);
    memcpy(word, text, len);
    word[len] = 0;
    const double d = cfx__number_read(word, &end);
    if (end == word || *end || !isfinite(d) || (positive && d <= 0))
        return wrong("%.*s wants numbers%s, not '%s'", (int)r->key_len, r->key,
                     positive ? " above 0" : "", word);
    to[r->count++] = d;
    for (int i = r->count; r->count == 1 && i < 3; i++)
        to[i] = d; /* one for all, unless more follow */
    return true;
}

/* Which of the words it is; -1, with an error. */
static int one_of(const reader *r, const char *text, size_t len, int n, const char *const *words) {
    cfx__text all = {0};
    for (int i = 0; i < n; i++) {
        if (is(text, len, words[i])) {
            cfx__text_release(&all);
            return i;
        }
        cfx__text_printf(&all, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", words[i]);
    }
    wrong("%.*s is %s, not '%.*s'", (int)r->key_len, r->key, all.data, (int)len, text);
    cfx__text_release(&all);
    return -1;
}

static bool read_layout(const reader *r, const char *text, size_t len) {
    static const char *const words[] = {"nchw", "nhwc", "chw", "hwc"};
    const int i = one_of(r, text, len, 4, words);
    r->o->last = i == 1 || i == 3;
    r->o->plain = i >= 2;
    return i >= 0;
}

static bool read_value(reader *r, const char *text, size_t len) {
    static const char *const colours[] = {"rgb", "bgr", "grey"}, *const dtypes[] = {"f32", "u8"};
    cfx_image_options *o = r->o;
    const char *key = r->key;
    const size_t k = r->key_len;
    int i;
    if (is(key, k, "size"))
        return (!r->count++ && read_size(text, len, o->size, true)) ||
               wrong("size is 224 or 224x320 (height x width), not '%.*s'", (int)len, text);
    if (is(key, k, "resize") && is(text, len, "none"))
        return o->keep = true;
    if (is(key, k, "resize"))
        return (!r->count++ && read_size(text, len, o->resize, false)) ||
               wrong("resize is 256 (the shorter side), 256x256 or none, not '%.*s'", (int)len,
                     text);
    if (is(key, k, "mean"))
        return read_part(r, text, len, o->mean, false);
    if (is(key, k, "std"))
        return read_part(r, text, len, o->std, true);
    if (is(key, k, "layout"))
        return read_layout(r, text, len);
    if (is(key, k, "channels")) {
        i = one_of(r, text, len, 3, colours);
        o->channels = (cfx_image_channels)(i < 0 ? 0 : i);
        return i >= 0;
    }
    if (is(key, k, "dtype")) {
        i = one_of(r, text, len, 2, dtypes);
        o->bytes = i == 1;
        return i >= 0;
    }
    return wrong("there is no '%.*s'; there are size, resize, mean, std, channels, layout and "
                 "dtype",
                 (int)k, key);
}

/* Whether a key has all of its numbers: pictures have one channel or three. */
static bool is_whole(const reader *r) {
    const bool parts = r->key && (is(r->key, r->key_len, "mean") || is(r->key, r->key_len, "std"));
    return !parts || r->count != 2 ||
           wrong("%.*s is one number, or one for each of three channels", (int)r->key_len, r->key);
}

bool cfx_image_options_parse(const char *text, cfx_image_options *options) {
    if (!cfx_ok())
        return false;
    if (!text || !options)
        return wrong("NULL is none");
    *options = (cfx_image_options){.size = {0}};
    reader r = {.o = options};
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, ",");
        const char *equals = memchr(text, '=', (size_t)(end - text));
        if (equals && !is_whole(&r))
            return false;
        if (equals) {
            r = (reader){options, text, (size_t)(equals - text), 0};
            text = equals + 1;
        }
        if (!r.key)
            return wrong("'%.*s' is not KEY=VALUE", (int)(end - text), text);
        if (!read_value(&r, text, (size_t)(end - text)))
            return false;
    }
    if (!is_whole(&r))
        return false;
    for (int i = 0; i < 3 && options->bytes; i++)
        if (options->mean[i] != 0 || options->std[i] != 0)
            return wrong("dtype=u8 goes without mean and std");
    return true;
}
