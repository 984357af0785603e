/* What characters are: by a table for ASCII, by utf8proc for the rest. */
#include "tokenizer.h"

enum { COMPAT = 1 << 2, COMPOSE = 1 << 3, DECOMPOSE = 1 << 4, STABLE = 1 << 1 };

static bool open_library(cfx__unicode *u) {
    static const char *const files[] = {"libutf8proc.so.3", "libutf8proc.so.2", "libutf8proc.so",
                                        NULL};
    static const cfx__library utf8proc = {files, "libutf8proc2",
                                          "tokens of texts that are not ASCII"};
    static const char *const names[] = {"utf8proc_category", "utf8proc_tolower", "utf8proc_toupper",
                                        "utf8proc_decompose", "utf8proc_normalize_utf32"};
    void (*found[COUNT(names)])(void);
    if (!cfx__library_open(&utf8proc, COUNT(names), names, found))
        return false;
    memcpy(&u->category, &found[0], sizeof found[0]);
    memcpy(&u->lower, &found[1], sizeof found[1]);
    memcpy(&u->upper, &found[2], sizeof found[2]);
    memcpy(&u->decompose, &found[3], sizeof found[3]);
    memcpy(&u->normalize, &found[4], sizeof found[4]);
    return u->open = true;
}

bool cfx__unicode_open(cfx__unicode *u, const char *text, size_t len) {
    for (size_t i = 0; i < len && !u->open; i++)
        if (text[i] & 0x80)
            return open_library(u);
    return true;
}

/* Of the signs of ASCII. */
static cfx__category sign(uint32_t c) {
    switch (c) {
    case ' ': return CFX__ZS;
    case '_': return CFX__PC;
    case '-': return CFX__PD;
    case '(': case '[': case '{': return CFX__PS;
    case ')': case ']': case '}': return CFX__PE;
    case '$': return CFX__SC;
    case '+': case '<': case '=': case '>': case '|': case '~': return CFX__SM;
    case '^': case '`': return CFX__SK;
    default: return CFX__PO;
    }
}

uint32_t cfx__unicode_is(const cfx__unicode *u, uint32_t c) {
    if (c >= 0x80)
        return u->open ? 1u << u->category((int32_t)c) : 1u << CFX__CN;
    if (c < 32 || c == 127)
        return 1u << CFX__CC;
    return 1u << (c >= 'a' && c <= 'z'   ? CFX__LL
                  : c >= 'A' && c <= 'Z' ? CFX__LU
                  : c >= '0' && c <= '9' ? CFX__ND
                                         : sign(c));
}

typedef struct {
    uint32_t low, high;
} span;

static bool is_within(uint32_t c, const span *spans, int n) {
    for (int i = 0; i < n && c >= spans[i].low; i++)
        if (c <= spans[i].high)
            return true;
    return false;
}

/* Marks, and characters that have parts, which 9.0 does not have or does not take for such. */
static bool is_newer(uint32_t c) {
    static const span later[] = {
        {0x7fd, 0x7fd}, {0x897, 0x89f}, {0x8ca, 0x8d3}, {0x9fe, 0x9fe}, {0xafa, 0xaff},
        {0xb55, 0xb55}, {0xc04, 0xc04}, {0xc3c, 0xc3c}, {0xcf3, 0xcf3}, {0xd00, 0xd00},
        {0xd3b, 0xd3c}, {0xd81, 0xd81}, {0xeba, 0xeba}, {0xece, 0xece}, {0x1715, 0x1715},
        {0x180f, 0x180f}, {0x1abf, 0x1ace}, {0x1cf7, 0x1cf7}, {0x1df6, 0x1dfa}, {0x32ff, 0x32ff},
        {0xa7f2, 0xa7f4}, {0xa82c, 0xa82c}, {0xa8ff, 0xa8ff}, {0x10780, 0x107ba},
        {0x10d24, 0x10d27}, {0x10eab, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
        {0x11070, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9},
        {0x111ce, 0x111cf}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
        {0x1182c, 0x1183a}, {0x11930, 0x11943}, {0x119d1, 0x119e4}, {0x11a01, 0x11a3e},
        {0x11a47, 0x11a47}, {0x11a51, 0x11a99}, {0x11d31, 0x11d97}, {0x11ef3, 0x11ef6},
        {0x11f00, 0x11f42}, {0x13440, 0x13455}, {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87},
        {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf46}, {0x1e030, 0x1e08f},
        {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
        {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
    return is_within(c, later, COUNT(later));
}

bool cfx__unicode_marks(const cfx__unicode *u, uint32_t c) {
    return !is_newer(c) && (c == 0x1cf2 || c == 0x1cf3 || cfx__unicode_is(u, c) & CFX__MARKS);
}

uint32_t cfx__unicode_was(const cfx__unicode *u, uint32_t c) {
    /* Where 8.0 has no punctuation, nonspacing mark or format character, and later ones do. */
    static const span later[] = {
        {0x61d, 0x61d}, {0x7fd, 0x7fd}, {0x890, 0x8e2}, {0x9fd, 0x9fe}, {0xa76, 0xa76},
        {0xafa, 0xaff}, {0xb55, 0xb55}, {0xc04, 0xc3c}, {0xc77, 0xc77}, {0xc84, 0xc84},
        {0xd00, 0xd00}, {0xd3b, 0xd3c}, {0xd81, 0xd81}, {0xeba, 0xeba}, {0xece, 0xece},
        {0x180f, 0x180f}, {0x1885, 0x1886}, {0x1abf, 0x1ace}, {0x1b4e, 0x1b4f}, {0x1b7d, 0x1b7f},
        {0x1df6, 0x1dfb}, {0x2e43, 0x2e5d}, {0xa82c, 0xa82c}, {0xa8c5, 0xa8c5}, {0xa8ff, 0xa8ff},
        {0xa9bd, 0xa9bd}, {0x10d24, 0x10f89}, {0x11070, 0x11074}, {0x110c2, 0x110cd},
        {0x111cf, 0x111cf}, {0x1123e, 0x1123e}, {0x11241, 0x11241}, {0x1133b, 0x1133b},
        {0x113bb, 0x113e2}, {0x11438, 0x1145e}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
        {0x1182f, 0x11be1}, {0x11c30, 0x11cb6}, {0x11d31, 0x11fff}, {0x12ff1, 0x1612f},
        {0x16d6d, 0x16f4f}, {0x16fe2, 0x16fe4}, {0x1cf00, 0x1cf46}, {0x1e000, 0x1e02a},
        {0x1e08f, 0x1e5ff}, {0x1e944, 0x1e95f}};
    if (c == 0x166d || c == 0x111c9)
        return 1u << CFX__PO;
    if (c == 0x1734)
        return 1u << CFX__MN;
    return is_within(c, later, COUNT(later)) ? 1u << CFX__CN : cfx__unicode_is(u, c);
}

uint32_t cfx__unicode_lower(const cfx__unicode *u, uint32_t c) {
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return u->open ? (uint32_t)u->lower((int32_t)c) : c;
}

uint32_t cfx__unicode_fold(const cfx__unicode *u, uint32_t c) {
    if (c >= 0x80 && u->open)
        c = (uint32_t)u->upper((int32_t)c);
    return cfx__unicode_lower(u, c);
}

bool cfx__unicode_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool cfx__unicode_joins(uint32_t c) { return c == 0x200c || c == 0x200d; }

bool cfx__unicode_word(const cfx__unicode *u, uint32_t c) {
    const uint32_t word = CFX__LETTERS | CFX__MARKS | 1u << CFX__ND | 1u << CFX__NL | 1u << CFX__PC;
    const bool circled = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
                         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    return circled || (cfx__unicode_is(u, c) & word);
}

/* Adds what has no newer characters in it. */
static bool put_normal(const cfx__unicode *u, int options, const char *text, size_t len,
                       cfx__text *to) {
    const uint8_t *bytes = (const uint8_t *)text;
    ptrdiff_t n = len ? u->decompose(bytes, (ptrdiff_t)len, NULL, 0, options) : 0;
    int32_t *codes = n > 0 ? cfx__alloc_try((size_t)(n + 1) * sizeof *codes) : NULL;
    if (codes) {
        n = u->decompose(bytes, (ptrdiff_t)len, codes, n, options);
        n = n > 0 ? u->normalize(codes, n, options) : n;
        for (ptrdiff_t i = 0; i < n; i++)
            cfx__utf8_put(to, (uint32_t)codes[i]);
    }
    cfx__free(codes);
    return n >= 0;
}

bool cfx__unicode_normal(const cfx__unicode *u, const char *form, const char *text, size_t len,
                         cfx__text *to) {
    const bool composed = strchr(form, 'C');
    const int options =
        STABLE | (strchr(form, 'K') ? COMPAT : 0) | (composed ? COMPOSE : DECOMPOSE);
    if (!u->open) { /* ASCII, which is in every form */
        cfx__text_add(to, text, len);
        return cfx_ok();
    }
    size_t from = 0, n;
    bool fine = true;
    for (size_t i = 0; i < len && fine; i += n) {
        uint32_t c = 0;
        n = cfx__utf8_get(text + i, len - i, &c);
        if (!n)
            n = 1; /* told by what reads the whole */
        else if (is_newer(c)) {
            fine = put_normal(u, options, text + from, i - from, to);
            cfx__text_add(to, text + i, n);
            from = i + n;
        }
    }
    if (!(fine && put_normal(u, options, text + from, len - from, to)))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the text has no form %s", form);
    return cfx_ok();
}

/* How many bytes of a broken character belong to it. */
static size_t broken(const char *bytes, size_t len) {
    const uint8_t b = (uint8_t)*bytes;
    const size_t want = b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 ? 2 : 1;
    size_t n = 1;
    if (want == 1 || b >= 0xf5)
        return 1;
    for (; n < want && n < len; n++) {
        const uint8_t next = (uint8_t)bytes[n];
        const uint8_t low = n > 1 ? 0x80 : b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
        const uint8_t high = n > 1 ? 0xbf : b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
        if (next < low || next > high)
            break;
    }
    return n;
}

void cfx__unicode_lossy(cfx__text *to, const char *bytes, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t code = 0;
        n = cfx__utf8_get(bytes + i, len - i, &code);
        if (n && !(code >= 0xd800 && code < 0xe000)) {
            cfx__text_add(to, bytes + i, n);
        } else {
            n = broken(bytes + i, len - i);
            cfx__utf8_put(to, 0xfffd);
        }
    }
}
