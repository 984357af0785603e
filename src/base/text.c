/* Text: counted strings, growing text, formatted scope strings, hashing. */
#include "base.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <sys/auxv.h>

static const cfx__obj_type string_type = {.name = "string"};

/* A long text that there is no memory for is an empty one. */
cfx_string *cfx__string_new(const char *text, size_t len) {
    enum { LONG = 1 << 12 };
    cfx_string *s = len < LONG ? NULL : cfx__alloc_try(sizeof *s + len + 1);
    if (s) {
        *s = (cfx_string){.obj = {.refs = 1, .type = &string_type}};
        cfx__scope_own(s);
    } else {
        len = len < LONG ? len : 0;
        s = cfx__obj_new(&string_type, sizeof *s + len + 1);
    }
    s->len = len;
    if (len)
        memcpy(s->text, text, len);
    s->text[len] = 0;
    s->hash = cfx__text_key(s->text, len);
    return s;
}

static uint64_t hash_words(uint64_t h, const unsigned char *b, size_t n) {
    uint64_t word;
    for (; n >= sizeof word; n -= sizeof word, b += sizeof word) {
        memcpy(&word, b, sizeof word);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | b[i];
    return (h ^ word) * 0xff51afd7ed558ccdu;
}

/* Of a long text both ends are looked at: whole printed graphs are strings too. */
uint64_t cfx__text_hash(const void *p, size_t n) {
    enum { END = 256 };
    const unsigned char *b = p;
    uint64_t h = n * 0x9e3779b97f4a7c15u;
    if (n > 2 * END) {
        h = hash_words(h, b, END);
        b += n - END;
        n = END;
    }
    h = hash_words(h, b, n);
    h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

/* A number that the system gave this process to be unlike others, odd. */
static uint64_t secret(void) {
    cfx__context *c = cfx__ctx();
    if (unlikely(!c->secret)) {
        const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
        if (random)
            memcpy(&c->secret, random, sizeof c->secret);
        c->secret |= 1;
    }
    return c->secret;
}

uint32_t cfx__text_key(const void *p, size_t n) {
    uint64_t h = hash_words(secret() ^ n, p, n);
    h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h ^ h >> 29);
}

bool cfx__text_room(cfx__text *t, size_t len) {
    enum { FIRST = 64 };
    if (!t->cap) { /* a text that was written to is never NULL */
        t->data = cfx__alloc0(FIRST);
        t->cap = FIRST;
    }
    return t->len + len + 1 <= t->cap ||
           cfx__vec_grow_try((void **)&t->data, &t->cap, t->len + len + 1, 1);
}

/* The thread's locale becomes C, which is never allocated; returns what it was. */
static locale_t use_c_locale(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

int cfx__number_print(char *buffer, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    locale_t before = use_c_locale();
    int n = vsnprintf(buffer, size, fmt, ap);
    uselocale(before);
    va_end(ap);
    return n;
}

double cfx__number_read(const char *text, char **end) {
    locale_t before = use_c_locale();
    double number = strtod(text, end);
    uselocale(before);
    return number;
}

double cfx__number_shortest(float f) {
    char text[32];
    for (int digits = 6; digits < 10 && f == f; digits++) {
        cfx__number_print(text, sizeof text, "%.*g", digits, (double)f);
        double d = cfx__number_read(text, NULL);
        if ((float)d == f && fabs(d) <= (double)FLT_MAX)
            return d;
    }
    return (double)f;
}

void cfx__text_vprintf(cfx__text *t, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    locale_t before = use_c_locale();
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (cfx__text_room(t, n > 0 ? (size_t)n : 0) && n > 0) {
        vsnprintf(t->data + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    uselocale(before);
    va_end(again);
}

void cfx__text_printf(cfx__text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vprintf(t, fmt, ap);
    va_end(ap);
}

void cfx__text_release(cfx__text *t) {
    cfx__free(t->data);
    *t = (cfx__text){0};
}

const char *cfx__text_take(cfx__text *t) {
    cfx_string *s = cfx__string_new(t->data ? t->data : "", t->len);
    cfx__text_release(t);
    return s->text;
}

char *cfx__text_copy(const char *text, size_t len) {
    char *copy = memcpy(cfx__alloc(len + 1), text, len);
    copy[len] = 0;
    return copy;
}

const char *cfx__text_format(const char *fmt, ...) {
    cfx__text t = {0};
    va_list ap;
    va_start(ap, fmt);
    cfx__text_vprintf(&t, fmt, ap);
    va_end(ap);
    return cfx__text_take(&t);
}

bool cfx__text_glob(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

/* ---- characters ------------------------------------------------------------------------------ */

size_t cfx__utf8_get(const char *text, size_t left, uint32_t *code) {
    const unsigned char *p = (const unsigned char *)text;
    if (!left)
        return 0;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    bool no_start = (p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4;
    if (no_start || n > left)
        return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    *code = c;
    return n;
}

void cfx__utf8_put(cfx__text *t, uint32_t c) {
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    cfx__text_putc(t, (char)(lead[more] | c >> 6 * more));
    while (more-- > 0)
        cfx__text_putc(t, (char)(0x80 | (c >> 6 * more & 0x3f)));
}

/* The characters beyond ASCII that str.isprintable() denies: controls, spaces, format marks,
 * surrogates and private use. In order. */
static const struct range {
    uint32_t first, last;
} unprintable[] = {
    {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
    {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x1680, 0x1680},   {0x180e, 0x180e},
    {0x2000, 0x200f},   {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},
    {0xd800, 0xf8ff},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0xfffe, 0xffff},
    {0x110bd, 0x110bd}, {0xe0000, 0xe00ff}, {0xf0000, 0x10ffff}};

bool cfx__utf8_printable(uint32_t c) {
    if (c < 0x7f)
        return c >= 0x20;
    for (int i = 0; i < COUNT(unprintable) && unprintable[i].first <= c; i++)
        if (c <= unprintable[i].last)
            return false;
    return true;
}
