/* Normalizers: a text becomes one that the model knows. */
#include "tokenizer.h"

/* ---- what all of them do with characters ----------------------------------------------------- */

#define EACH_CHARACTER(text, len, c)                                                               \
    for (size_t at_ = 0, n_ = 0; at_ < (len); at_ += n_)                                           \
        for (uint32_t c = 0, once_ = !!(n_ = cfx__utf8_get((text) + at_, (len)-at_, &c)) ||        \
                         !(n_ = (len)-at_); once_; once_ = 0)

/* ---- BERT ------------------------------------------------------------------------------------ */

static bool read_bert(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->clean = cfx__steps_flag(j, "clean_text", true);
    s->chinese = cfx__steps_flag(j, "handle_chinese_chars", true);
    s->lower = cfx__steps_flag(j, "lowercase", true);
    s->strip_accents = cfx__steps_flag(j, "strip_accents", s->lower);
    return true;
}

static bool is_control(const cfx__unicode *u, uint32_t c) {
    const uint32_t others = 1u << CFX__CC | 1u << CFX__CF | 1u << CFX__CS | 1u << CFX__CO;
    return c != '\t' && c != '\n' && c != '\r' && (cfx__unicode_was(u, c) & others);
}

static bool is_chinese(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void put_lower(const cfx__unicode *u, uint32_t c, cfx__text *to) {
    if (c == 0x130) /* the one letter whose small form is two characters */
        cfx__text_puts(to, "i\xcc\x87");
    else
        cfx__utf8_put(to, cfx__unicode_lower(u, c));
}

/* Controls are dropped, all blanks are one kind, Chinese characters stand alone. */
static void put_clean(const cfx__step *s, const cfx__unicode *u, const char *text, size_t len,
                      cfx__text *to) {
    EACH_CHARACTER(text, len, c) {
        if (s->clean && (!c || c == 0xfffd || is_control(u, c)))
            continue;
        if (s->clean && cfx__unicode_space(c))
            c = ' ';
        if (s->chinese && is_chinese(c))
            cfx__text_putc(to, ' ');
        cfx__utf8_put(to, c);
        if (s->chinese && is_chinese(c))
            cfx__text_putc(to, ' ');
    }
}

static bool bert(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                 cfx__text *to) {
    const cfx__unicode *u = &e->unicode;
    cfx__text clean = {0}, plain = {0};
    put_clean(s, u, text, len, &clean);
    if (s->strip_accents) {
        cfx__text apart = {0};
        if (clean.len)
            cfx__unicode_normal(u, "NFD", clean.data, clean.len, &apart);
        EACH_CHARACTER(apart.data, apart.len, c)
            if (!(cfx__unicode_was(u, c) & 1u << CFX__MN))
                cfx__utf8_put(&plain, c);
        cfx__text_release(&apart);
    } else {
        cfx__text_add(&plain, clean.data, clean.len);
    }
    EACH_CHARACTER(plain.data, plain.len, c) {
        if (s->lower)
            put_lower(u, c, to);
        else
            cfx__utf8_put(to, c);
    }
    cfx__text_release(&clean);
    cfx__text_release(&plain);
    return cfx_ok();
}

/* ---- the small ones -------------------------------------------------------------------------- */

static bool normal_form(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                        cfx__text *to) {
    return cfx__unicode_normal(&e->unicode, s->type->name, text, len, to);
}

static bool lowercase(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                      cfx__text *to) {
    (void)s;
    EACH_CHARACTER(text, len, c) put_lower(&e->unicode, c, to);
    return cfx_ok();
}

static bool strip_accents(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                          cfx__text *to) {
    (void)s;
    EACH_CHARACTER(text, len, c)
        if (!cfx__unicode_marks(&e->unicode, c))
            cfx__utf8_put(to, c);
    return cfx_ok();
}

static bool read_strip(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->left = cfx__steps_flag(j, "strip_left", true);
    s->right = cfx__steps_flag(j, "strip_right", true);
    return true;
}

static bool strip(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                  cfx__text *to) {
    (void)e;
    size_t begin = 0, end = 0, at = 0;
    bool any = false;
    EACH_CHARACTER(text, len, c) {
        if (!cfx__unicode_space(c)) {
            begin = any ? begin : at;
            end = at + n_;
            any = true;
        }
        at += n_;
    }
    if (any || !(s->left || s->right)) {
        begin = s->left ? begin : 0;
        end = s->right ? end : len;
        cfx__text_add(to, text + begin, end - begin);
    }
    return cfx_ok();
}

static bool read_replace(cfx__step *s, const cfx__json *j, const char *what) {
    s->content = cfx__steps_text(j, "content");
    s->content = s->content ? s->content : "";
    return cfx__steps_pattern(s, j, what);
}

static bool read_prepend(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->string = cfx__steps_text(j, "prepend");
    return true;
}

static bool prepend(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                    cfx__text *to) {
    (void)e;
    if (len && s->string)
        cfx__text_puts(to, s->string);
    cfx__text_add(to, text, len);
    return cfx_ok();
}

static bool byte_level(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                       cfx__text *to) {
    (void)s, (void)e;
    cfx__byte_signs(to, text, len);
    return cfx_ok();
}

const cfx__step_type cfx__normalizers[] = {
    {.name = "BertNormalizer", .read = read_bert, .normalize = bert},
    {.name = "NFC", .normalize = normal_form},
    {.name = "NFD", .normalize = normal_form},
    {.name = "NFKC", .normalize = normal_form},
    {.name = "NFKD", .normalize = normal_form},
    {.name = "Lowercase", .normalize = lowercase},
    {.name = "StripAccents", .normalize = strip_accents},
    {.name = "Strip", .read = read_strip, .normalize = strip},
    {.name = "Replace", .read = read_replace, .normalize = cfx__steps_replace},
    {.name = "Prepend", .read = read_prepend, .normalize = prepend},
    {.name = "ByteLevel", .normalize = byte_level},
    {.name = NULL}};

/* ---- all of them ----------------------------------------------------------------------------- */

bool cfx__normalize_text(const cfx_tokenizer *t, const cfx__encoding *e, const char *text,
                         size_t len, cfx__text *to) {
    cfx__text from = {0};
    cfx__text_add(to, text, len);
    for (size_t i = 0; i < t->normalizers.len && cfx_ok(); i++) {
        const cfx__step *s = &t->normalizers.data[i];
        cfx__text_release(&from);
        from = *to;
        *to = (cfx__text){0};
        if (!s->type->normalize(s, e, from.data ? from.data : "", from.len, to))
            break;
    }
    cfx__text_release(&from);
    return cfx_ok();
}

bool cfx__normalize(const cfx_tokenizer *t, cfx__encoding *e) {
    for (size_t i = 0; t->normalizers.len && i < e->pieces.len && cfx_ok(); i++) {
        cfx__piece *p = &e->pieces.data[i];
        cfx__text text = {0};
        if (p->id >= 0)
            continue;
        if (cfx__normalize_text(t, e, p->text, p->len, &text)) {
            p->text = cfx__arena_copy(&e->texts, text.data ? text.data : "", text.len);
            p->len = text.len;
        }
        cfx__text_release(&text);
    }
    return cfx_ok();
}
