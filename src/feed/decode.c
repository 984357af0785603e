/* Decoders: the row of tokens becomes a text again. */
#include "tokenizer.h"

static void set(cfx__encoding *e, cfx__piece *p, cfx__text *text) {
    p->text = cfx__arena_copy(&e->texts, text->data ? text->data : "", text->len);
    p->len = text->len;
    cfx__text_release(text);
}

static bool begins(const cfx__piece *p, const char *with) {
    const size_t n = strlen(with);
    return p->len >= n && !memcmp(p->text, with, n);
}

/* All pieces as one. */
static void fuse(const cfx__step *s, cfx__encoding *e) {
    cfx__text all = {0};
    (void)s;
    if (!e->pieces.len)
        return;
    for (size_t i = 0; i < e->pieces.len; i++)
        cfx__text_add(&all, e->pieces.data[i].text, e->pieces.data[i].len);
    set(e, &e->pieces.data[0], &all);
    e->pieces.len = 1;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The bytes that the signs of a piece stand for; the piece itself where one is no such sign. */
static void put_bytes(const cfx__piece *p, cfx__text *to) {
    const size_t start = to->len;
    for (size_t i = 0, n; i < p->len; i += n) {
        uint32_t c = 0;
        n = cfx__utf8_get(p->text + i, p->len - i, &c);
        const int byte = n ? cfx__byte_of_sign(c) : -1;
        if (byte < 0) {
            to->len = start;
            cfx__text_add(to, p->text, p->len);
            return;
        }
        cfx__text_putc(to, (char)byte);
    }
}

static void byte_level(const cfx__step *s, cfx__encoding *e) {
    cfx__text bytes = {0}, text = {0};
    (void)s;
    if (!e->pieces.len)
        return;
    for (size_t i = 0; i < e->pieces.len; i++)
        put_bytes(&e->pieces.data[i], &bytes);
    cfx__unicode_lossy(&text, bytes.data ? bytes.data : "", bytes.len);
    cfx__text_release(&bytes);
    set(e, &e->pieces.data[0], &text);
    e->pieces.len = 1;
}

static int hexadecimal(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "<0xE2>" is a byte; -1: another text. */
static int byte_of(const cfx__piece *p) {
    if (p->len != 6 || memcmp(p->text, "<0x", 3) != 0 || p->text[5] != '>')
        return -1;
    const int high = hexadecimal(p->text[3]), low = hexadecimal(p->text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_utf8(const cfx__text *t) {
    for (size_t i = 0, n; i < t->len; i += n) {
        uint32_t c = 0;
        n = cfx__utf8_get(t->data + i, t->len - i, &c);
        if (!n || (c >= 0xd800 && c < 0xe000))
            return false;
    }
    return true;
}

/* Bytes in a row become characters; where they are none, each is a U+FFFD. */
static void byte_fallback(const cfx__step *s, cfx__encoding *e) {
    size_t n = 0;
    (void)s;
    for (size_t i = 0; i < e->pieces.len;) {
        cfx__text bytes = {0}, text = {0};
        size_t end = i;
        for (; end < e->pieces.len && byte_of(&e->pieces.data[end]) >= 0; end++)
            cfx__text_putc(&bytes, (char)byte_of(&e->pieces.data[end]));
        if (end == i) {
            e->pieces.data[n++] = e->pieces.data[i++];
            continue;
        }
        if (is_utf8(&bytes))
            cfx__text_add(&text, bytes.data, bytes.len);
        else
            for (size_t k = i; k < end; k++)
                cfx__utf8_put(&text, 0xfffd);
        cfx__text_release(&bytes);
        set(e, &e->pieces.data[n++], &text);
        i = end;
    }
    e->pieces.len = n;
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool read_wordpiece(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->string = cfx__steps_text(j, "prefix");
    s->string = s->string ? s->string : "##";
    s->cleanup = cfx__steps_flag(j, "cleanup", true);
    return true;
}

static void tidy(cfx__encoding *e, cfx__piece *p) {
    static const char *const pairs[][2] = {
        {" .", "."},     {" ?", "?"},     {" !", "!"},          {" ,", ","},
        {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"},        {" do not", " don't"},
        {" 's", "'s"},   {" 've", "'ve"}, {" 're", "'re"}};
    for (int i = 0; i < COUNT(pairs); i++) {
        const cfx__step one = {.string = pairs[i][0], .content = pairs[i][1]};
        cfx__text text = {0};
        cfx__steps_replace(&one, e, p->text, p->len, &text);
        set(e, p, &text);
    }
}

static void wordpiece(const cfx__step *s, cfx__encoding *e) {
    for (size_t i = 0; i < e->pieces.len && cfx_ok(); i++) {
        cfx__piece *p = &e->pieces.data[i];
        const size_t n = i && begins(p, s->string) ? strlen(s->string) : 0;
        cfx__text text = {0};
        if (i && !n)
            cfx__text_putc(&text, ' ');
        cfx__text_add(&text, p->text + n, p->len - n);
        set(e, p, &text);
        if (s->cleanup)
            tidy(e, p);
    }
}

static bool read_metaspace(cfx__step *s, const cfx__json *j, const char *what) {
    const char *scheme = cfx__steps_text(j, "prepend_scheme");
    (void)what;
    s->string = cfx__steps_text(j, "replacement");
    s->string = s->string ? s->string : "\xe2\x96\x81";
    s->content = " ";
    s->first = scheme ? strcmp(scheme, "never") != 0 : cfx__steps_flag(j, "add_prefix_space", true);
    return true;
}

static void metaspace(const cfx__step *s, cfx__encoding *e) {
    for (size_t i = 0; i < e->pieces.len && cfx_ok(); i++) {
        cfx__piece *p = &e->pieces.data[i];
        cfx__text text = {0};
        const size_t n = !i && s->first && begins(p, s->string) ? strlen(s->string) : 0;
        cfx__steps_replace(s, e, p->text + n, p->len - n, &text);
        set(e, p, &text);
    }
}

static bool read_suffix(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->string = cfx__steps_text(j, "suffix");
    s->string = s->string ? s->string : "</w>";
    return true;
}

static void bpe(const cfx__step *s, cfx__encoding *e) {
    for (size_t i = 0; i < e->pieces.len && cfx_ok(); i++) {
        cfx__step one = {.string = s->string, .content = i + 1 < e->pieces.len ? " " : ""};
        cfx__text text = {0};
        cfx__steps_replace(&one, e, e->pieces.data[i].text, e->pieces.data[i].len, &text);
        set(e, &e->pieces.data[i], &text);
    }
}

/* ---- plain texts ----------------------------------------------------------------------------- */

static bool read_replace(cfx__step *s, const cfx__json *j, const char *what) {
    s->content = cfx__steps_text(j, "content");
    s->content = s->content ? s->content : "";
    return cfx__steps_pattern(s, j, what);
}

static void replace(const cfx__step *s, cfx__encoding *e) {
    for (size_t i = 0; i < e->pieces.len && cfx_ok(); i++) {
        cfx__text text = {0};
        cfx__steps_replace(s, e, e->pieces.data[i].text, e->pieces.data[i].len, &text);
        set(e, &e->pieces.data[i], &text);
    }
}

static bool read_strip(cfx__step *s, const cfx__json *j, const char *what) {
    const cfx__json *start = cfx__json_get(j, "start"), *stop = cfx__json_get(j, "stop");
    (void)what;
    s->string = cfx__steps_text(j, "content");
    s->string = s->string ? s->string : " ";
    s->start = cfx__json_is(start, CFX__JSON_INT) ? start->i : 0;
    s->stop = cfx__json_is(stop, CFX__JSON_INT) ? stop->i : 0;
    return true;
}

static void strip(const cfx__step *s, cfx__encoding *e) {
    const size_t n = strlen(s->string);
    for (size_t i = 0; n && i < e->pieces.len; i++) {
        cfx__piece *p = &e->pieces.data[i];
        for (int64_t k = 0; k < s->start && begins(p, s->string); k++) {
            p->text += n;
            p->len -= n;
        }
        for (int64_t k = 0; k < s->stop && p->len >= n; k++) {
            if (memcmp(p->text + p->len - n, s->string, n) != 0)
                break;
            p->len -= n;
        }
    }
}

const cfx__step_type cfx__decoders[] = {
    {.name = "ByteLevel", .decode = byte_level},
    {.name = "WordPiece", .read = read_wordpiece, .decode = wordpiece},
    {.name = "Metaspace", .read = read_metaspace, .decode = metaspace},
    {.name = "BPEDecoder", .read = read_suffix, .decode = bpe},
    {.name = "ByteFallback", .decode = byte_fallback},
    {.name = "Fuse", .decode = fuse},
    {.name = "Replace", .read = read_replace, .decode = replace},
    {.name = "Strip", .read = read_strip, .decode = strip},
    {.name = NULL}};
