/* Pre-tokenizers: a text is cut into words. */
#include "tokenizer.h"

/* ---- cutting --------------------------------------------------------------------------------- */

/* A stretch of a piece: what was looked for, or what lies between. */
typedef struct span {
    size_t begin, end;
    bool match;
} span;

typedef VEC(span) spans;

static void add_span(spans *s, size_t begin, size_t end, bool match) {
    if (begin < end && VEC_TRY(*s, 1))
        s->data[s->len++] = (span){begin, end, match};
}

typedef bool predicate(const cfx__unicode *u, uint32_t c);

/* Each character that something holds of is a match. */
static void spans_of(const cfx__encoding *e, const cfx__piece *p, predicate *holds, spans *to) {
    size_t from = 0;
    for (size_t at = 0, n; at < p->len; at += n) {
        uint32_t c;
        n = cfx__utf8_get(p->text + at, p->len - at, &c);
        if (!n)
            break;
        if (!holds(&e->unicode, c))
            continue;
        add_span(to, from, at, false);
        add_span(to, at, at + n, true);
        from = at + n;
    }
    add_span(to, from, p->len, false);
}

static void spans_of_regex(const cfx__step *s, const cfx__encoding *e, const cfx__piece *p,
                           spans *to) {
    size_t from = 0, done = 0, begin, end;
    while (from <= p->len && cfx_ok() &&
           cfx__regex_find(s->regex, &e->unicode, p->text, p->len, from, &begin, &end)) {
        add_span(to, done, begin, false);
        add_span(to, begin, end, true);
        done = end;
        from = end > begin ? end : end + 1;
    }
    add_span(to, done, p->len, false);
}

static void spans_of_string(const cfx__step *s, const cfx__piece *p, spans *to) {
    const size_t n = strlen(s->string);
    size_t from = 0;
    for (size_t at = 0; n && at + n <= p->len;) {
        if (memcmp(p->text + at, s->string, n) != 0) {
            at++;
            continue;
        }
        add_span(to, from, at, false);
        add_span(to, at, at + n, true);
        from = at += n;
    }
    add_span(to, from, p->len, false);
}

/* Puts spans together as the behaviour says; those of no length are gone. */
static void join(spans *s, cfx__split how, bool invert) {
    size_t n = 0;
    bool before = false; /* the last one was a match */
    for (size_t i = 0; i < s->len; i++)
        s->data[i].match ^= invert;
    for (size_t i = s->len; how == CFX__SPLIT_WITH_NEXT && i-- > 0;) {
        const bool match = s->data[i].match;
        if (match && !before && i + 1 < s->len) {
            s->data[i + 1].begin = s->data[i].begin;
            s->data[i].end = s->data[i].begin;
        }
        before = match;
    }
    before = false;
    for (size_t i = 0; i < s->len; i++) {
        const span at = s->data[i];
        const bool onto = n && ((how == CFX__SPLIT_WITH_PREVIOUS && at.match && !before) ||
                                (how == CFX__SPLIT_CONTIGUOUS && at.match == s->data[n - 1].match));
        if (onto)
            s->data[n - 1].end = at.end;
        else if (at.begin < at.end && !(how == CFX__SPLIT_REMOVED && at.match))
            s->data[n++] = at;
        before = at.match;
    }
    s->len = n;
}

static void add_pieces(const cfx__piece *p, const spans *s, cfx__pieces *to) {
    for (size_t i = 0; i < s->len; i++) {
        const span at = s->data[i];
        if (VEC_TRY(*to, 1))
            to->data[to->len++] = (cfx__piece){p->text + at.begin, at.end - at.begin, -1,
                                               p->first && !at.begin};
    }
}

static void cut_where(cfx__encoding *e, const cfx__piece *p, predicate *holds, cfx__split how,
                      cfx__pieces *to) {
    spans s = {0};
    spans_of(e, p, holds, &s);
    join(&s, how, false);
    add_pieces(p, &s, to);
    VEC_FREE(s);
}

/* ---- the types ------------------------------------------------------------------------------- */

static bool is_space(const cfx__unicode *u, uint32_t c) {
    (void)u;
    return cfx__unicode_space(c);
}

static bool is_punctuation(const cfx__unicode *u, uint32_t c) {
    const bool ascii = c < 128 && (cfx__unicode_is(u, c) & (CFX__PUNCTUATION | CFX__SYMBOLS));
    return ascii || (cfx__unicode_was(u, c) & CFX__PUNCTUATION);
}

static bool is_numeric(const cfx__unicode *u, uint32_t c) {
    return cfx__unicode_is(u, c) & CFX__NUMBERS;
}

static bool read_behaviour(cfx__step *s, const cfx__json *j, const char *what) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = cfx__steps_text(j, "behavior");
    for (int i = 0; i < COUNT(names); i++)
        if (!name || !strcmp(name, names[i])) {
            s->split = (cfx__split)i;
            return true;
        }
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': there is no behavior '%s'", what, name);
    return false;
}

static bool read_split(cfx__step *s, const cfx__json *j, const char *what) {
    s->invert = cfx__steps_flag(j, "invert", false);
    return read_behaviour(s, j, what) && cfx__steps_pattern(s, j, what);
}

static void split(const cfx__step *s, cfx__encoding *e, const cfx__piece *p, cfx__pieces *to) {
    spans found = {0};
    if (s->regex)
        spans_of_regex(s, e, p, &found);
    else
        spans_of_string(s, p, &found);
    join(&found, s->split, s->invert);
    add_pieces(p, &found, to);
    VEC_FREE(found);
}

static bool read_byte_level(cfx__step *s, const cfx__json *j, const char *what) {
    static const char words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                "|\\s+(?!\\S)|\\s+";
    s->prefix_space = cfx__steps_flag(j, "add_prefix_space", true);
    s->use_regex = cfx__steps_flag(j, "use_regex", true);
    return !s->use_regex || (s->regex = cfx__regex_new(words, sizeof words - 1, what));
}

/* A piece with something in front. */
static cfx__piece with(cfx__encoding *e, const char *front, const cfx__piece *p) {
    const size_t n = strlen(front);
    char *text = cfx__arena_alloc(&e->texts, n + p->len + 1);
    memcpy(text, front, n);
    memcpy(text + n, p->text, p->len);
    text[n + p->len] = 0;
    return (cfx__piece){text, n + p->len, -1, p->first};
}

static void byte_level(const cfx__step *s, cfx__encoding *e, const cfx__piece *p,
                       cfx__pieces *to) {
    const size_t start = to->len;
    cfx__piece whole = *p;
    if (s->prefix_space && p->len && *p->text != ' ')
        whole = with(e, " ", p);
    if (s->use_regex)
        split(s, e, &whole, to);
    else if (whole.len && VEC_TRY(*to, 1))
        to->data[to->len++] = whole;
    for (size_t i = start; i < to->len && cfx_ok(); i++) {
        cfx__text signs = {0};
        cfx__byte_signs(&signs, to->data[i].text, to->data[i].len);
        to->data[i].text = cfx__arena_copy(&e->texts, signs.data ? signs.data : "", signs.len);
        to->data[i].len = signs.len;
        cfx__text_release(&signs);
    }
}

static void whitespace_split(const cfx__step *s, cfx__encoding *e, const cfx__piece *p,
                             cfx__pieces *to) {
    (void)s;
    cut_where(e, p, is_space, CFX__SPLIT_REMOVED, to);
}

static bool read_whitespace(cfx__step *s, const cfx__json *j, const char *what) {
    static const char words[] = "[\\w\\u200c\\u200d]+|[^\\w\\u200c\\u200d\\s]+";
    (void)j;
    s->invert = true;
    s->split = CFX__SPLIT_REMOVED;
    return (s->regex = cfx__regex_new(words, sizeof words - 1, what));
}

static void punctuation(const cfx__step *s, cfx__encoding *e, const cfx__piece *p,
                        cfx__pieces *to) {
    cut_where(e, p, is_punctuation, s->split, to);
}

static void bert(const cfx__step *s, cfx__encoding *e, const cfx__piece *p, cfx__pieces *to) {
    cfx__pieces words = {0};
    (void)s;
    cut_where(e, p, is_space, CFX__SPLIT_REMOVED, &words);
    for (size_t i = 0; i < words.len; i++)
        cut_where(e, &words.data[i], is_punctuation, CFX__SPLIT_ISOLATED, to);
    VEC_FREE(words);
}

static bool read_digits(cfx__step *s, const cfx__json *j, const char *what) {
    (void)what;
    s->split = cfx__steps_flag(j, "individual_digits", false) ? CFX__SPLIT_ISOLATED
                                                              : CFX__SPLIT_CONTIGUOUS;
    return true;
}

static void digits(const cfx__step *s, cfx__encoding *e, const cfx__piece *p, cfx__pieces *to) {
    cut_where(e, p, is_numeric, s->split, to);
}

static bool read_delimiter(cfx__step *s, const cfx__json *j, const char *what) {
    s->string = cfx__steps_text(j, "delimiter");
    s->split = CFX__SPLIT_REMOVED;
    if (!s->string)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s': a CharDelimiterSplit has no delimiter",
                 what);
    return s->string;
}

static bool read_metaspace(cfx__step *s, const cfx__json *j, const char *what) {
    const char *scheme = cfx__steps_text(j, "prepend_scheme");
    const bool prefix = cfx__steps_flag(j, "add_prefix_space", true);
    s->content = cfx__steps_text(j, "replacement");
    s->content = s->content ? s->content : "\xe2\x96\x81";
    s->string = s->content;
    s->always = scheme ? !strcmp(scheme, "always") : prefix;
    s->first = scheme && !strcmp(scheme, "first");
    s->use_regex = cfx__steps_flag(j, "split", true);
    s->split = CFX__SPLIT_WITH_NEXT;
    (void)what;
    return true;
}

/* Blanks become the sign, which words begin with. */
static void metaspace(const cfx__step *s, cfx__encoding *e, const cfx__piece *p, cfx__pieces *to) {
    const cfx__step blanks = {.string = " ", .content = s->content};
    cfx__text text = {0};
    cfx__steps_replace(&blanks, e, p->text, p->len, &text);
    cfx__piece whole = {cfx__arena_copy(&e->texts, text.data ? text.data : "", text.len), text.len,
                        -1, p->first};
    cfx__text_release(&text);
    const bool has = whole.len >= strlen(s->content) &&
                     !memcmp(whole.text, s->content, strlen(s->content));
    if (!has && (s->always || (s->first && p->first)))
        whole = with(e, s->content, &whole);
    if (s->use_regex)
        split(s, e, &whole, to);
    else if (whole.len && VEC_TRY(*to, 1))
        to->data[to->len++] = whole;
}

const cfx__step_type cfx__pretokenizers[] = {
    {.name = "ByteLevel", .read = read_byte_level, .cut = byte_level},
    {.name = "BertPreTokenizer", .cut = bert},
    {.name = "Split", .read = read_split, .cut = split},
    {.name = "Whitespace", .read = read_whitespace, .cut = split},
    {.name = "WhitespaceSplit", .cut = whitespace_split},
    {.name = "Punctuation", .read = read_behaviour, .cut = punctuation},
    {.name = "Digits", .read = read_digits, .cut = digits},
    {.name = "CharDelimiterSplit", .read = read_delimiter, .cut = split},
    {.name = "Metaspace", .read = read_metaspace, .cut = metaspace},
    {.name = NULL}};
