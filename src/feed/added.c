/* Added tokens: found in a text as they are, before the model sees it. And the special tokens that
 * a post-processor puts around. */
#include "tokenizer.h"

enum { MOST_ADDED = 1 << 16 };

static bool wrong(const cfx_tokenizer *t, const char *why) {
    if (cfx_ok())
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': %s", t->name, why);
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_one(cfx_tokenizer *t, const cfx__json *j, struct cfx__added *a) {
    const cfx__json *id = cfx__json_get(j, "id"), *content = cfx__json_get(j, "content");
    if (!cfx__json_is(id, CFX__JSON_INT) || id->i < 0 || id->i >= 1 << 24 ||
        !cfx__json_is(content, CFX__JSON_TEXT))
        return wrong(t, "an added token without a number or a text");
    *a = (struct cfx__added){.text = content->text, .len = content->len, .id = id->i};
    a->single = cfx__steps_flag(j, "single_word", false);
    a->left = cfx__steps_flag(j, "lstrip", false);
    a->right = cfx__steps_flag(j, "rstrip", false);
    a->special = cfx__steps_flag(j, "special", false);
    a->normalized = cfx__steps_flag(j, "normalized", !a->special);
    cfx__map_set(&t->vocab, content->text, (void *)(uintptr_t)(id->i + 1));
    return true;
}

/* Numbers beyond the vocabulary's. */
static bool grow(cfx_tokenizer *t, int64_t size) {
    if (size <= t->size)
        return true;
    const char **tokens = cfx__realloc_try(t->tokens, (size_t)size * sizeof *tokens);
    if (!tokens)
        return false;
    memset(tokens + t->size, 0, (size_t)(size - t->size) * sizeof *tokens);
    t->tokens = tokens;
    t->size = size;
    return true;
}

/* As a normalized text has it. */
static bool normalize(cfx_tokenizer *t, struct cfx__added *a) {
    cfx__encoding e = {.pieces = {0}};
    cfx__text text = {0};
    if (!a->normalized || !t->normalizers.len)
        return true;
    if (cfx__unicode_open(&e.unicode, a->text, a->len) &&
        cfx__normalize_text(t, &e, a->text, a->len, &text)) {
        a->len = text.len;
        a->text = cfx__arena_copy(&t->texts, text.data ? text.data : "", text.len);
    }
    cfx__text_release(&text);
    return cfx_ok();
}

bool cfx__added_read(cfx_tokenizer *t, const cfx__json *j) {
    if (!j || cfx__json_is(j, CFX__JSON_NULL))
        return true;
    if (!cfx__json_is(j, CFX__JSON_ARRAY) || j->len > MOST_ADDED)
        return wrong(t, "added_tokens is not a list");
    t->added = cfx__alloc0((j->len + 1) * sizeof *t->added);
    cfx__json_each(j, v) {
        struct cfx__added *a = &t->added[t->nadded];
        if (!read_one(t, v, a) || !grow(t, a->id + 1))
            return false;
        t->tokens[a->id] = a->text;
        t->nadded++;
        if (!normalize(t, a))
            return false;
    }
    return true;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The longest one that stands at a place. */
static const struct cfx__added *token_at(const cfx_tokenizer *t, const cfx__piece *p, size_t at,
                                         bool normalized) {
    const struct cfx__added *found = NULL;
    for (size_t i = 0; i < t->nadded; i++) {
        const struct cfx__added *a = &t->added[i];
        if (a->normalized == normalized && a->len && *a->text == p->text[at] &&
            a->len <= p->len - at && (!found || a->len > found->len) &&
            !memcmp(a->text, p->text + at, a->len))
            found = a;
    }
    return found;
}

/* The characters before and behind a place; 0 at the ends. */
static uint32_t before(const cfx__piece *p, size_t at, size_t *n) {
    uint32_t c = 0;
    *n = 0;
    while (*n < at && *n < 4) {
        ++*n;
        if (((uint8_t)p->text[at - *n] & 0xc0) != 0x80)
            break;
    }
    return *n && cfx__utf8_get(p->text + at - *n, *n, &c) ? c : 0;
}

static uint32_t behind(const cfx__piece *p, size_t at, size_t *n) {
    uint32_t c = 0;
    *n = at < p->len ? cfx__utf8_get(p->text + at, p->len - at, &c) : 0;
    return *n ? c : 0;
}

static bool is_word(const cfx__unicode *u, uint32_t c) {
    return c && (cfx__unicode_joins(c) || cfx__unicode_word(u, c));
}

static bool stands_alone(const cfx__unicode *u, const cfx__piece *p, size_t begin, size_t end) {
    size_t n;
    const uint32_t left = before(p, begin, &n), right = behind(p, end, &n);
    return !is_word(u, left) && !is_word(u, right);
}

static void add(cfx__pieces *to, const cfx__piece *p, size_t begin, size_t end, int64_t id) {
    if (begin < end && VEC_TRY(*to, 1))
        to->data[to->len++] = (cfx__piece){p->text + begin, end - begin, id, p->first && !begin};
}

static void cut(const cfx_tokenizer *t, const cfx__encoding *e, const cfx__piece *p,
                bool normalized, const bool starts[256], cfx__pieces *to) {
    size_t done = 0, n;
    for (size_t at = 0; at < p->len;) {
        const struct cfx__added *a =
            starts[(uint8_t)p->text[at]] ? token_at(t, p, at, normalized) : NULL;
        if (!a) {
            at++;
            continue;
        }
        size_t begin = at, end = at + a->len;
        at = end;
        if (a->single && !stands_alone(&e->unicode, p, begin, end))
            continue;
        while (a->left && begin > done && cfx__unicode_space(before(p, begin, &n)))
            begin -= n;
        while (a->right && cfx__unicode_space(behind(p, end, &n)))
            end += n;
        begin = begin < done ? done : begin;
        add(to, p, done, begin, -1);
        add(to, p, begin, end, a->id);
        done = end;
        at = end;
    }
    add(to, p, done, p->len, -1);
}

void cfx__added_cut(const cfx_tokenizer *t, cfx__encoding *e, bool normalized) {
    bool starts[256] = {false}; /* bytes that one of them begins with */
    cfx__pieces all = {0};
    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].normalized == normalized && t->added[i].len)
            starts[(uint8_t)*t->added[i].text] = true;
    for (size_t i = 0; i < e->pieces.len && cfx_ok() && cfx__limit_time(); i++) {
        const cfx__piece *p = &e->pieces.data[i];
        if (p->id < 0)
            cut(t, e, p, normalized, starts, &all);
        else if (VEC_TRY(all, 1))
            all.data[all.len++] = *p;
    }
    VEC_FREE(e->pieces);
    e->pieces = all;
}

/* ---- around a text --------------------------------------------------------------------------- */

/* Adds the numbers of a special token of a template. */
static bool add_special(cfx_tokenizer *t, const cfx__json *specials, const char *name,
                        cfx__ids *to) {
    const cfx__json *ids = cfx__json_get(cfx__json_get(specials, name ? name : ""), "ids");
    if (!cfx__json_is(ids, CFX__JSON_ARRAY))
        return wrong(t, "the post-processor names a special token that it does not tell");
    cfx__json_each(ids, v) {
        if (!cfx__json_is(v, CFX__JSON_INT) || v->i < 0 || v->i >= t->size)
            return wrong(t, "the post-processor has a number that is not a token");
        VEC_PUSH(*to, v->i);
    }
    return true;
}

static bool read_template(cfx_tokenizer *t, const cfx__json *j) {
    const cfx__json *single = cfx__json_get(j, "single");
    const cfx__json *specials = cfx__json_get(j, "special_tokens");
    bool seen = false;
    if (!cfx__json_is(single, CFX__JSON_ARRAY))
        return wrong(t, "a template without a form for one text");
    cfx__json_each(single, v) {
        const cfx__json *special = cfx__json_get(v, "SpecialToken");
        if (special && !add_special(t, specials, cfx__steps_text(special, "id"),
                                    seen ? &t->after : &t->before))
            return false;
        seen |= !special;
    }
    return seen || wrong(t, "a template without the text itself");
}

/* ["[SEP]", 102]; nothing is added where there is none. */
static bool add_pair(cfx_tokenizer *t, const cfx__json *j, cfx__ids *to) {
    const cfx__json *id = cfx__json_is(j, CFX__JSON_ARRAY) && j->len == 2 ? cfx__json_next(j + 1)
                                                                          : NULL;
    if (!cfx__json_is(id, CFX__JSON_INT) || id->i < 0 || id->i >= t->size)
        return wrong(t, "the post-processor has a number that is not a token");
    VEC_PUSH(*to, id->i);
    return true;
}

bool cfx__template_read(cfx_tokenizer *t, const cfx__json *j) {
    const char *type = cfx__steps_text(j, "type");
    if (!j || cfx__json_is(j, CFX__JSON_NULL) || (type && !strcmp(type, "ByteLevel")))
        return true;
    if (type && !strcmp(type, "TemplateProcessing"))
        return read_template(t, j);
    if (type && (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")))
        return add_pair(t, cfx__json_get(j, "cls"), &t->before) &&
               add_pair(t, cfx__json_get(j, "sep"), &t->after);
    const cfx__json *list = cfx__json_get(j, "processors");
    if (type && !strcmp(type, "Sequence") && cfx__json_is(list, CFX__JSON_ARRAY)) {
        cfx__json_each(list, v) if (!cfx__template_read(t, v)) return false;
        return true;
    }
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' has a post-processor '%s', which cannot be used "
             "here", t->name, type ? type : "without a type");
    return false;
}
