/* Parts of a JSON text, found by its brackets and quotes alone. What is found is read by a parser
 * afterwards, which checks the rest. */
#include "json.h"

#include <math.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char *skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

enum { WORD = sizeof(uint64_t) };

static uint64_t word_at(const char *at) {
    uint64_t w;
    memcpy(&w, at, sizeof w);
    return w;
}

/* Not zero where one of the eight bytes of `w` is `c`; zero where none is. */
static uint64_t has(uint64_t w, unsigned char c) {
    const uint64_t ones = UINT64_MAX / 255, x = w ^ (ones * c);
    return (x - ones) & ~x & (ones << 7);
}

/* Past bytes of a string that are neither its end nor an escape, eight at a time. */
static const char *skip_plain(const char *at, const char *end) {
    while (end - at >= WORD && !(has(word_at(at), '"') | has(word_at(at), '\\')))
        at += WORD;
    return at;
}

/* Past bytes that open or close nothing, eight at a time: a bit makes braces of brackets. */
static const char *skip_flat(const char *at, const char *end) {
    for (; end - at >= WORD; at += WORD) {
        const uint64_t w = word_at(at), bent = w | (UINT64_MAX / 255 * 0x20);
        if (has(w, '"') | has(bent, '{') | has(bent, '}'))
            break;
    }
    return at;
}

/* Behind the string that begins at `at`; NULL where it does not end. */
static const char *skip_string(const char *at, const char *end) {
    for (at = skip_plain(at + 1, end); at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : NULL;
}

#ifdef __SSE2__
enum { BLOCK = 64 };

/* A bit for each byte of a block: those that are c, where `bend` is or-ed to each first. */
static uint64_t those(const char *block, char bend, char c) {
    uint64_t bits = 0;
    for (int i = 0; i < BLOCK / 16; i++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(block + 16 * i));
        const __m128i same = _mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8(bend)), _mm_set1_epi8(c));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(same) << (16 * i);
    }
    return bits;
}

/* Bits from each odd one up to the next. */
static uint64_t between(uint64_t bits) {
    for (int by = 1; by < BLOCK; by *= 2)
        bits ^= bits << by;
    return bits;
}

/* Goes over the block at *at, which no string reaches into, as far as strings end in it and have no
 * escapes; false where it ends the value, which *at is behind then, or nothing was gone over. */
static bool skip_block(const char **at, int64_t *depth) {
    const uint64_t escapes = those(*at, 0, '\\');
    uint64_t quotes = those(*at, 0, '"');
    int n = escapes ? __builtin_ctzll(escapes) : BLOCK;
    quotes &= n < BLOCK ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
    if (__builtin_popcountll(quotes) % 2)
        n = BLOCK - 1 - __builtin_clzll(quotes);
    const uint64_t open = those(*at, 0x20, '{'), close = those(*at, 0x20, '}');
    uint64_t bits = (open | close) & ~between(quotes);
    bits &= n < BLOCK ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
    for (; bits; bits &= bits - 1) {
        const int i = __builtin_ctzll(bits);
        *depth += open >> i & 1 ? 1 : -1;
        if (!*depth) {
            *at += i + 1;
            return false;
        }
    }
    *at += n;
    return n > 0;
}
#endif

/* Behind the value that begins at `at`; NULL where it does not end. */
static const char *skip_value(const char *at, const char *end) {
    int64_t depth = 0;
    while (at < end) {
#ifdef __SSE2__
        if (depth) {
            while (end - at >= BLOCK && skip_block(&at, &depth))
                ;
            if (!depth)
                return at;
            if (at == end)
                break;
        }
#endif
        switch (*at) {
        case '"':
            at = skip_string(at, end);
            if (!at)
                return NULL;
            break;
        case '{':
        case '[': depth++, at++; break;
        case '}':
        case ']':
            if (!depth)
                return at; /* behind a number, say */
            depth--, at++;
            break;
        case ',':
        case ' ':
        case '\n':
        case '\t':
        case '\r':
            if (!depth)
                return at;
            at = skip_flat(at + 1, end);
            continue;
        default:
            at = depth ? skip_flat(at + 1, end) : at + 1;
            while (!depth && at < end && !strchr(",]} \n\t\r", *at))
                at++;
        }
        if (!depth)
            return at;
    }
    return NULL;
}

static const struct bare {
    const char *word;
    double f;
} bare_words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

/* The bare word that `at` begins with; NULL: none. */
static const struct bare *bare_at(const char *at, const char *end) {
    for (size_t i = 0; i < sizeof bare_words / sizeof *bare_words; i++) {
        size_t n = strlen(bare_words[i].word);
        if ((size_t)(end - at) >= n && !memcmp(at, bare_words[i].word, n))
            return &bare_words[i];
    }
    return NULL;
}

bool cfx__json_find_bare(const char *at, const char *end, cfx__json_part *word, double *f) {
    while (at && at < end) {
        const struct bare *found = *at == '"' ? NULL : bare_at(at, end);
        if (found) {
            *word = (cfx__json_part){at, strlen(found->word)};
            *f = found->f;
            return true;
        }
        at = *at == '"' ? skip_string(at, end) : at + 1;
    }
    return false;
}

/* A pair of an object as it is written. */
typedef struct pair {
    const char *key, *key_end;
    const char *value, *value_end; /* NULL: nobody looked for it */
} pair;

/* The key at *at and where its value begins, *at being there then. */
static bool next_key(const char **at, const char *end, pair *p) {
    *at = skip_space(*at, end);
    if (*at >= end || **at != '"')
        return false;
    p->key = *at + 1;
    *at = skip_string(*at, end);
    if (!*at)
        return false;
    p->key_end = *at - 1;
    *at = skip_space(*at, end);
    if (*at >= end || **at != ':')
        return false;
    p->value = *at = skip_space(*at + 1, end);
    return *at < end;
}

/* Over the value and the comma behind it; *last where the object ends there instead. */
static bool end_pair(const char **at, const char *end, pair *p, bool *last) {
    p->value_end = *at = skip_value(*at, end);
    if (!*at || p->value_end == p->value)
        return false;
    *at = skip_space(*at, end);
    if (*at >= end || (**at != ',' && **at != '}'))
        return false;
    *last = *(*at)++ == '}';
    return true;
}

static bool is_key(const pair *p, const char *name) {
    size_t n = strlen(name);
    return (size_t)(p->key_end - p->key) == n && !memcmp(p->key, name, n);
}

static void find_here(const char *at, const char *end, const char *const *names, int n,
                      cfx__json_part *parts) {
    pair p;
    bool last = false;
    for (at++; !last && next_key(&at, end, &p) && end_pair(&at, end, &p, &last);)
        for (int i = 0; i < n; i++)
            if (is_key(&p, names[i]) && !parts[i].text && (*p.value == '[' || *p.value == '{'))
                parts[i] = (cfx__json_part){p.value, (size_t)(p.value_end - p.value)};
}

void cfx__json_find_parts(const char *text, size_t len, const char *const *path, int npath,
                          const char *const *names, int nnames, cfx__json_part *parts) {
    const char *end = text + len, *at = skip_space(text, end);
    for (int i = 0; i < nnames; i++)
        parts[i] = (cfx__json_part){0};
    for (int k = 0; k < npath; k++) {
        pair p;
        bool last = false, found = false;
        if (at >= end || *at != '{')
            return;
        for (at++; !found && !last && next_key(&at, end, &p);) {
            found = is_key(&p, path[k]);
            if (!found && !end_pair(&at, end, &p, &last))
                return;
        }
        if (!found)
            return;
    }
    if (at < end && *at == '{')
        find_here(at, end, names, nnames, parts);
}

/* Whether a key is the text that it stands for: no escapes, and nothing that has to be checked. */
static bool is_plain(const char *key, const char *end) {
    for (; key < end; key++)
        if (*key < ' ' || *key == '\\' || *key > '~')
            return false;
    return true;
}

bool cfx__json_walk(cfx__json_part part, cfx__json_pair_fn *fn, void *user) {
    const char *at = part.text + 1, *end = part.text + part.len;
    bool last = false;
    pair p;
    if (*part.text != '{')
        return false;
    at = skip_space(at, end);
    if (at < end && *at == '}')
        return true;
    while (!last)
        if (!next_key(&at, end, &p) || !end_pair(&at, end, &p, &last) ||
            !is_plain(p.key, p.key_end) ||
            !fn(p.key, (size_t)(p.key_end - p.key), p.value, (size_t)(p.value_end - p.value), user))
            return false;
    return at == end;
}
