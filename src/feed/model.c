/* The models of a tokenizer: BPE, WordPiece, WordLevel. A word becomes numbers. */
#include "tokenizer.h"

enum { MOST_TOKENS = 1 << 24 };

/* ---- reading --------------------------------------------------------------------------------- */

static bool wrong(const cfx_tokenizer *t, const char *why) {
    if (cfx_ok())
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': %s", t->name, why);
    return false;
}

/* {"token": number}; a token that holds a zero byte is in no text of C's. */
static bool read_vocab(cfx_tokenizer *t, const cfx__json *vocab) {
    if (!cfx__json_is(vocab, CFX__JSON_OBJECT))
        return wrong(t, "the model has no vocabulary by names");
    int64_t most = -1;
    cfx__json_pairs(vocab, k, v) {
        if (!cfx__json_is(v, CFX__JSON_INT) || v->i < 0 || v->i >= MOST_TOKENS)
            return wrong(t, "the vocabulary has a number that is none of a token");
        most = v->i > most ? v->i : most;
        if (strlen(k->text) == k->len)
            cfx__map_set(&t->vocab, k->text, (void *)(uintptr_t)(v->i + 1));
    }
    t->size = most + 1;
    t->tokens = cfx__alloc_try((size_t)(t->size + 1) * sizeof *t->tokens);
    if (!t->tokens)
        return false;
    memset(t->tokens, 0, (size_t)(t->size + 1) * sizeof *t->tokens);
    cfx__json_pairs(vocab, k, v) t->tokens[v->i] = k->text;
    return cfx_ok();
}

static uint64_t pair_of(int64_t a, int64_t b) { return (uint64_t)a << 32 | (uint64_t)b; }

static cfx__merge *place_of(const cfx_tokenizer *t, uint64_t pair) {
    size_t at = cfx__text_key(&pair, sizeof pair) & (t->nmerges - 1);
    while (t->merges[at].rank >= 0 && t->merges[at].pair != pair)
        at = (at + 1) & (t->nmerges - 1);
    return &t->merges[at];
}

/* Which tokens a rule joins: "a b", or ["a", "b"]. */
static bool read_pair(const cfx__json *v, const char **a, size_t *alen, const char **b,
                      size_t *blen) {
    if (cfx__json_is(v, CFX__JSON_ARRAY) && v->len == 2) {
        const cfx__json *x = v + 1, *y = cfx__json_next(x);
        if (!cfx__json_is(x, CFX__JSON_TEXT) || !cfx__json_is(y, CFX__JSON_TEXT))
            return false;
        *a = x->text, *alen = x->len, *b = y->text, *blen = y->len;
        return true;
    }
    if (!cfx__json_is(v, CFX__JSON_TEXT))
        return false;
    const char *blank = memchr(v->text, ' ', v->len);
    if (!blank)
        return false;
    *a = v->text, *alen = (size_t)(blank - v->text);
    *b = blank + 1, *blen = v->len - *alen - 1;
    return true;
}

static bool read_merge(cfx_tokenizer *t, const cfx__json *v, int32_t rank) {
    const size_t prefix = t->prefix ? strlen(t->prefix) : 0;
    const char *a, *b;
    size_t alen, blen;
    if (!read_pair(v, &a, &alen, &b, &blen))
        return wrong(t, "a merge is not a pair of tokens");
    cfx__text joined = {0};
    cfx__text_add(&joined, a, alen);
    cfx__text_add(&joined, b + (prefix < blen ? prefix : 0), blen - (prefix < blen ? prefix : 0));
    const int64_t first = cfx__vocab_get(t, a, alen), second = cfx__vocab_get(t, b, blen);
    const int64_t both = joined.data ? cfx__vocab_get(t, joined.data, joined.len) : -1;
    cfx__text_release(&joined);
    if (first < 0 || second < 0 || both < 0) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s': merge %d ('%.*s' with '%.*s') is of tokens that the vocabulary lacks",
                 t->name, (int)rank, (int)(alen < 40 ? alen : 40), a, (int)(blen < 40 ? blen : 40),
                 b);
        return false;
    }
    const uint64_t pair = pair_of(first, second);
    *place_of(t, pair) = (cfx__merge){pair, rank, (int32_t)both}; /* the last one counts */
    return true;
}

static bool read_merges(cfx_tokenizer *t, const cfx__json *list) {
    if (!cfx__json_is(list, CFX__JSON_ARRAY) || list->len > MOST_TOKENS)
        return wrong(t, "a BPE model without merges");
    t->nmerges = 16;
    while (t->nmerges < (size_t)list->len * 2)
        t->nmerges *= 2;
    t->merges = cfx__alloc_try(t->nmerges * sizeof *t->merges);
    if (!t->merges)
        return false;
    memset(t->merges, 0xff, t->nmerges * sizeof *t->merges);
    int32_t rank = 0;
    cfx__json_each(list, v) if (!read_merge(t, v, rank++)) return false;
    return cfx_ok();
}

bool cfx__model_read(cfx_tokenizer *t, const cfx__json *model) {
    static const char *const kinds[] = {"BPE", "WordPiece", "WordLevel"};
    const char *kind = cfx__steps_text(model, "type");
    if (!kind) /* files of old leave it out; merges are BPE's */
        kind = cfx__json_get(model, "merges") ? "BPE" : "WordPiece";
    int found = -1;
    for (int i = 0; i < COUNT(kinds); i++)
        found = !strcmp(kind, kinds[i]) ? i : found;
    if (!cfx__json_is(model, CFX__JSON_OBJECT) || found < 0) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s' has a model '%s'; BPE, WordPiece and WordLevel can be used", t->name, kind);
        return false;
    }
    const cfx__json *longest = cfx__json_get(model, "max_input_chars_per_word");
    t->kind = (cfx__model_kind)found;
    t->unknown = cfx__steps_text(model, "unk_token");
    t->prefix = cfx__steps_text(model, "continuing_subword_prefix");
    t->suffix = cfx__steps_text(model, "end_of_word_suffix");
    t->fuse_unknown = cfx__steps_flag(model, "fuse_unk", false);
    t->byte_fallback = cfx__steps_flag(model, "byte_fallback", false);
    t->ignore_merges = cfx__steps_flag(model, "ignore_merges", false);
    t->longest = cfx__json_is(longest, CFX__JSON_INT) ? longest->i : 100;
    if (t->kind == CFX__WORDPIECE && !t->prefix)
        t->prefix = "##";
    return read_vocab(t, cfx__json_get(model, "vocab")) &&
           (t->kind != CFX__BPE || read_merges(t, cfx__json_get(model, "merges")));
}

/* ---- BPE ------------------------------------------------------------------------------------- */

/* A word on its way: tokens in a list, those that were joined into others taken out. */
typedef struct symbol {
    int32_t id, before, after; /* -1: none */
} symbol;

/* Two neighbours that could be joined. */
typedef struct candidate {
    int32_t rank, at, id;
    uint64_t pair;
} candidate;

typedef struct word {
    VEC(symbol) symbols;
    VEC(candidate) heap; /* the lowest rank, then the leftmost, first */
} word;

static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(word *w, candidate c) {
    if (!VEC_TRY(w->heap, 1))
        return;
    size_t i = w->heap.len++;
    for (; i && is_before(&c, &w->heap.data[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap.data[i] = w->heap.data[(i - 1) / 2];
    w->heap.data[i] = c;
}

static candidate pop(word *w) {
    const candidate top = w->heap.data[0], last = w->heap.data[--w->heap.len];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->heap.len)
            break;
        child += child + 1 < w->heap.len &&
                 is_before(&w->heap.data[child + 1], &w->heap.data[child]);
        if (!is_before(&w->heap.data[child], &last))
            break;
        w->heap.data[i] = w->heap.data[child];
        i = child;
    }
    if (w->heap.len)
        w->heap.data[i] = last;
    return top;
}

/* Notes what symbol `at` and the one behind it could become. */
static void consider(const cfx_tokenizer *t, word *w, int32_t at) {
    const symbol *s = at >= 0 ? &w->symbols.data[at] : NULL;
    if (!s || s->after < 0)
        return;
    const uint64_t pair = pair_of(s->id, w->symbols.data[s->after].id);
    const cfx__merge *m = place_of(t, pair);
    if (m->rank >= 0)
        push(w, (candidate){m->rank, at, m->id, pair});
}

static void merge_all(const cfx_tokenizer *t, word *w) {
    for (int32_t i = 0; (size_t)i < w->symbols.len; i++)
        consider(t, w, i);
    while (w->heap.len && cfx_ok()) {
        const candidate c = pop(w);
        symbol *s = &w->symbols.data[c.at];
        if (s->id < 0 || s->after < 0 || pair_of(s->id, w->symbols.data[s->after].id) != c.pair)
            continue; /* one of them is something else by now */
        symbol *gone = &w->symbols.data[s->after];
        s->id = c.id;
        s->after = gone->after;
        gone->id = -1;
        if (s->after >= 0)
            w->symbols.data[s->after].before = c.at;
        consider(t, w, s->before);
        consider(t, w, c.at);
    }
}

static void add_symbol(word *w, int64_t id) {
    const int32_t n = (int32_t)w->symbols.len;
    if (w->symbols.len >= INT32_MAX - 1 || !VEC_TRY(w->symbols, 1))
        return;
    if (n)
        w->symbols.data[n - 1].after = n;
    w->symbols.data[w->symbols.len++] = (symbol){(int32_t)id, n - 1, -1};
}

/* Bytes as "<0xE2>"; false where the vocabulary lacks one. */
static bool add_bytes(const cfx_tokenizer *t, word *w, const char *text, size_t len) {
    int64_t ids[4] = {0};
    for (size_t i = 0; i < len && i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (uint8_t)text[i]);
        ids[i] = cfx__vocab_get(t, name, 6);
        if (ids[i] < 0)
            return false;
    }
    for (size_t i = 0; i < len && i < 4; i++)
        add_symbol(w, ids[i]);
    return true;
}

/* The number of one character, with what marks its place in the word. */
static int64_t id_of(const cfx_tokenizer *t, const char *c, size_t n, bool first, bool last) {
    cfx__text text = {0};
    if (!first && t->prefix)
        cfx__text_puts(&text, t->prefix);
    cfx__text_add(&text, c, n);
    if (last && t->suffix)
        cfx__text_puts(&text, t->suffix);
    const int64_t id = text.data ? cfx__vocab_get(t, text.data, text.len) : -1;
    cfx__text_release(&text);
    return id;
}

static bool read_unknown(const cfx_tokenizer *t, int64_t *id) {
    *id = t->unknown ? cfx__vocab_get(t, t->unknown, strlen(t->unknown)) : -1;
    if (t->unknown && *id < 0)
        wrong(t, "the token for unknown words is not in the vocabulary");
    return cfx_ok();
}

static void spell(const cfx_tokenizer *t, word *w, const cfx__piece *p) {
    bool unknown = false; /* the last one was */
    for (size_t i = 0, n; i < p->len && cfx_ok(); i += n) {
        uint32_t c;
        n = cfx__utf8_get(p->text + i, p->len - i, &c);
        n = n ? n : 1;
        int64_t id = id_of(t, p->text + i, n, !i, i + n == p->len);
        const bool known = id >= 0 || (t->byte_fallback && add_bytes(t, w, p->text + i, n));
        if (id >= 0)
            add_symbol(w, id);
        else if (!known && read_unknown(t, &id) && id >= 0 && !(unknown && t->fuse_unknown))
            add_symbol(w, id);
        unknown = !known;
    }
}

static bool bpe(const cfx_tokenizer *t, const cfx__piece *p, cfx__ids *to) {
    word w = {0};
    const int64_t whole = t->ignore_merges ? cfx__vocab_get(t, p->text, p->len) : -1;
    if (whole >= 0) {
        VEC_PUSH(*to, whole);
        return cfx_ok();
    }
    spell(t, &w, p);
    merge_all(t, &w);
    if (VEC_TRY(*to, w.symbols.len))
        for (size_t i = 0; i < w.symbols.len; i++)
            if (w.symbols.data[i].id >= 0)
                to->data[to->len++] = w.symbols.data[i].id;
    VEC_FREE(w.symbols);
    VEC_FREE(w.heap);
    return cfx_ok();
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool unknown_word(const cfx_tokenizer *t, cfx__ids *to) {
    int64_t id;
    if (read_unknown(t, &id) && id < 0)
        return wrong(t, "a word is unknown, and the model has no token for unknown words");
    if (cfx_ok())
        VEC_PUSH(*to, id);
    return cfx_ok();
}

/* The longest token that a text begins with; its length in bytes. */
static size_t longest(const cfx_tokenizer *t, const char *text, size_t len, bool first,
                      cfx__text *room, int64_t *id) {
    room->len = 0;
    if (!first)
        cfx__text_puts(room, t->prefix);
    const size_t before = room->len;
    cfx__text_add(room, text, len);
    for (size_t n = len; n; n--) {
        if (n < len && ((uint8_t)text[n] & 0xc0) == 0x80)
            continue; /* inside a character */
        *id = cfx__vocab_get(t, room->data, before + n);
        if (*id >= 0)
            return n;
    }
    return 0;
}

static bool wordpiece(const cfx_tokenizer *t, const cfx__piece *p, cfx__ids *to) {
    const size_t start = to->len;
    int64_t characters = 0, id;
    cfx__text room = {0};
    for (size_t i = 0; i < p->len; i++)
        characters += ((uint8_t)p->text[i] & 0xc0) != 0x80;
    bool known = characters <= t->longest;
    for (size_t at = 0, n; known && at < p->len; at += n) {
        n = longest(t, p->text + at, p->len - at, !at, &room, &id);
        known = n && cfx_ok() && VEC_TRY(*to, 1);
        if (known)
            to->data[to->len++] = id;
    }
    cfx__text_release(&room);
    if (known || !cfx_ok())
        return cfx_ok();
    to->len = start;
    return unknown_word(t, to);
}

bool cfx__model_encode(const cfx_tokenizer *t, const cfx__piece *p, cfx__ids *to) {
    if (!p->len)
        return true;
    if (t->kind == CFX__BPE)
        return bpe(t, p, to);
    if (t->kind == CFX__WORDPIECE)
        return wordpiece(t, p, to);
    const int64_t id = cfx__vocab_get(t, p->text, p->len);
    if (id < 0)
        return unknown_word(t, to);
    VEC_PUSH(*to, id);
    return cfx_ok();
}
