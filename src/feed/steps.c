/* The steps of a tokenizer: read from the file, with what several of them need. */
#define _GNU_SOURCE /* memmem */
#include "tokenizer.h"

enum { MOST_STEPS = 64 };

const char *cfx__steps_text(const cfx__json *j, const char *key) {
    const cfx__json *v = cfx__json_get(j, key);
    return cfx__json_is(v, CFX__JSON_TEXT) ? v->text : NULL;
}

bool cfx__steps_flag(const cfx__json *j, const char *key, bool otherwise) {
    const cfx__json *v = cfx__json_get(j, key);
    return cfx__json_is(v, CFX__JSON_BOOL) ? v->b : otherwise;
}

bool cfx__steps_pattern(cfx__step *s, const cfx__json *j, const char *what) {
    const cfx__json *p = cfx__json_get(j, "pattern"), *regex = cfx__json_get(p, "Regex");
    s->string = cfx__steps_text(p, "String");
    if (cfx__json_is(regex, CFX__JSON_TEXT))
        return (s->regex = cfx__regex_new(regex->text, regex->len, what));
    if (!s->string)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': a %s has no pattern", what, s->type->name);
    return s->string;
}

/* The next match of a step's pattern; an empty text matches nothing. */
static bool find(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                 size_t from, size_t *begin, size_t *end) {
    if (s->regex)
        return cfx__regex_find(s->regex, &e->unicode, text, len, from, begin, end);
    const size_t n = strlen(s->string);
    const char *at = n && from < len ? memmem(text + from, len - from, s->string, n) : NULL;
    *begin = at ? (size_t)(at - text) : len;
    *end = *begin + n;
    return at;
}

bool cfx__steps_replace(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                        cfx__text *to) {
    size_t from = 0, begin, end;
    while (from < len && find(s, e, text, len, from, &begin, &end)) {
        if (end == begin) { /* of nothing: one character on */
            uint32_t c;
            end = begin + (begin < len ? cfx__utf8_get(text + begin, len - begin, &c) : 1);
            end = end > len ? len : end;
            cfx__text_add(to, text + from, end - from);
            from = end == from ? len : end;
            continue;
        }
        cfx__text_add(to, text + from, begin - from);
        cfx__text_puts(to, s->content);
        from = end;
    }
    cfx__text_add(to, text + from, len - from);
    return cfx_ok();
}

static bool read_one(cfx__steps *s, const cfx__json *j, const char *kind,
                     const cfx__step_type *types, const char *what) {
    const char *name = cfx__steps_text(j, "type");
    cfx__step step = {0};
    for (; name && types->name; types++)
        if (!strcmp(types->name, name))
            step.type = types;
    if (!step.type || s->len == MOST_STEPS) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has a %s '%s', which cannot be used here",
                 what, kind, name ? name : "without a type");
        return false;
    }
    const bool fine = !step.type->read || step.type->read(&step, j, what);
    VEC_PUSH(*s, step);
    return fine;
}

/* "Sequence": {"normalizers": [...]}, or "pretokenizers", "decoders". */
bool cfx__steps_read(cfx__steps *s, const cfx__json *j, const char *kind,
                     const cfx__step_type *types, const char *what) {
    const char *name = cfx__steps_text(j, "type");
    if (!j || cfx__json_is(j, CFX__JSON_NULL))
        return true;
    if (!name || strcmp(name, "Sequence"))
        return read_one(s, j, kind, types, what);
    const cfx__json *list = cfx__json_get(j, types == cfx__normalizers     ? "normalizers"
                                             : types == cfx__pretokenizers ? "pretokenizers"
                                                                           : "decoders");
    if (!cfx__json_is(list, CFX__JSON_ARRAY)) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': a Sequence of no %ss", what, kind);
        return false;
    }
    cfx__json_each(list, v) if (!cfx__steps_read(s, v, kind, types, what)) return false;
    return true;
}

void cfx__steps_free(cfx__steps *s) {
    for (size_t i = 0; i < s->len; i++)
        cfx__regex_free(s->data[i].regex);
    VEC_FREE(*s);
}

/* ---- bytes as signs -------------------------------------------------------------------------- */

/* Bytes that print stand for themselves; the others, in order, for what follows U+0100. */
static bool prints(uint32_t b) {
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

/* How many bytes below b do not print. */
static uint32_t hidden_below(uint32_t b) {
    return b <= 32 ? b : b <= 127 ? 33 : b <= 0xa1 ? b - 127 + 33 : b <= 0xad ? 67 : 68;
}

void cfx__byte_signs(cfx__text *to, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const uint32_t b = (uint8_t)bytes[i];
        cfx__utf8_put(to, prints(b) ? b : 0x100 + hidden_below(b));
    }
}

int cfx__byte_of_sign(uint32_t sign) {
    if (sign < 0x100)
        return prints(sign) ? (int)sign : -1;
    const uint32_t k = sign - 0x100;
    return k < 33 ? (int)k : k < 67 ? (int)(k - 33 + 127) : k == 67 ? 0xad : -1;
}
