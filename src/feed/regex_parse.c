/* Regular expressions: from the pattern to the program. */
#include "regex.h"

enum { MOST_CODE = 1 << 16, MOST_DEPTH = 32, MOST_TIMES = 1000 };

typedef struct parser {
    const char *what, *pattern, *p, *end;
    cfx__regex *r;
    bool fold, wrong;
    int depth;
} parser;

static bool fail(parser *p, const char *why) {
    if (!p->wrong && cfx_ok())
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s' has a pattern that cannot be used: %s at character %d of '%.*s'", p->what,
                 why, (int)(p->p - p->pattern), (int)(p->end - p->pattern), p->pattern);
    p->wrong = true;
    return false;
}

static bool take(parser *p, char c) {
    if (p->wrong || p->p == p->end || *p->p != c)
        return false;
    p->p++;
    return true;
}

static bool take_text(parser *p, const char *text) {
    const size_t n = strlen(text);
    if (p->wrong || (size_t)(p->end - p->p) < n || memcmp(p->p, text, n) != 0)
        return false;
    p->p += n;
    return true;
}

static uint32_t emit(parser *p, cfx__inst_op op, uint32_t x, uint32_t y) {
    if (p->r->code.len >= MOST_CODE)
        fail(p, "it is too large");
    if (p->wrong)
        return 0;
    VEC_PUSH(p->r->code, ((cfx__inst){op, x, y}));
    return (uint32_t)p->r->code.len - 1;
}

static uint32_t here(const parser *p) { return (uint32_t)p->r->code.len; }

/* ---- classes --------------------------------------------------------------------------------- */

static bool category_mask(const char *name, size_t len, uint32_t *mask) {
    static const char names[] = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
    static const struct {
        char name;
        uint32_t mask;
    } groups[] = {{'L', CFX__LETTERS},     {'M', CFX__MARKS},      {'N', CFX__NUMBERS},
                  {'P', CFX__PUNCTUATION}, {'S', CFX__SYMBOLS},    {'Z', CFX__SEPARATORS},
                  {'C', CFX__OTHERS}};
    *mask = 0;
    for (int i = 0; i < CFX__CATEGORIES && len == 2; i++)
        if (!memcmp(names + 2 * i, name, 2))
            *mask = 1u << i;
    for (int i = 0; i < COUNT(groups) && len == 1; i++)
        if (groups[i].name == *name)
            *mask = groups[i].mask;
    return *mask;
}

/* \p{L}, \pL, \P{L}, \p{^L}; behind the p. */
static bool property(parser *p, bool negated, cfx__range *to) {
    const char *name = p->p;
    size_t len = 1;
    if (take(p, '{')) {
        negated ^= take(p, '^');
        name = p->p;
        while (p->p < p->end && *p->p != '}')
            p->p++;
        len = (size_t)(p->p - name);
        if (!take(p, '}'))
            return fail(p, "a property does not end");
    } else if (p->p < p->end) {
        p->p++;
    }
    uint32_t mask;
    if (name >= p->end || !category_mask(name, len, &mask))
        return fail(p, "an unknown property");
    *to = (cfx__range){CFX__RANGE_CATEGORIES, negated, mask, 0};
    return true;
}

/* A number of hexadecimal digits: \x41, \x{1F600}, \u0041. */
static bool hexadecimal(parser *p, int digits, uint32_t *code) {
    const bool braces = take(p, '{');
    uint32_t sum = 0;
    int n = 0;
    for (; p->p < p->end && n < (braces ? 8 : digits); n++, p->p++) {
        const char c = *p->p, low = (char)(c | 32);
        const int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 87 : -1;
        if (digit < 0)
            break;
        sum = sum << 4 | (uint32_t)digit;
    }
    *code = sum;
    return (n && sum <= 0x10ffff && (!braces || take(p, '}'))) || fail(p, "a wrong number");
}

/* Behind a backslash: a class, or one character. */
static bool escape(parser *p, cfx__range *to) {
    if (p->p == p->end)
        return fail(p, "nothing behind a backslash");
    const char c = *p->p++;
    uint32_t code = (uint8_t)c;
    switch (c) {
    case 'p': return property(p, false, to);
    case 'P': return property(p, true, to);
    case 's': case 'S':
        *to = (cfx__range){CFX__RANGE_SPACE, c == 'S', 0, 0};
        return true;
    case 'w': case 'W':
        *to = (cfx__range){CFX__RANGE_WORD, c == 'W', 0, 0};
        return true;
    case 'd': case 'D':
        *to = (cfx__range){CFX__RANGE_CATEGORIES, c == 'D', 1u << CFX__ND, 0};
        return true;
    case 'n': code = '\n'; break;
    case 'r': code = '\r'; break;
    case 't': code = '\t'; break;
    case 'f': code = '\f'; break;
    case 'v': code = '\v'; break;
    case 'x':
        if (!hexadecimal(p, 2, &code))
            return false;
        break;
    case 'u':
        if (!hexadecimal(p, 4, &code))
            return false;
        break;
    default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            (c & 0x80))
            return fail(p, "an unknown escape");
    }
    *to = (cfx__range){CFX__RANGE_CODES, false, code, code};
    return true;
}

static bool character(parser *p, uint32_t *code) {
    const size_t n = cfx__utf8_get(p->p, (size_t)(p->end - p->p), code);
    p->p += n;
    return n || fail(p, "no UTF-8");
}

/* One item of a class: a range, an escape, a character. */
static bool class_item(parser *p, cfx__range *to) {
    *to = (cfx__range){CFX__RANGE_CODES, false, 0, 0};
    if (take(p, '\\')) {
        if (!escape(p, to))
            return false;
    } else {
        if (!character(p, &to->low))
            return false;
        to->high = to->low;
    }
    if (to->kind != CFX__RANGE_CODES || p->end - p->p < 2 || p->p[0] != '-' || p->p[1] == ']')
        return true;
    p->p++;
    cfx__range high = {CFX__RANGE_CODES, false, 0, 0};
    if (take(p, '\\') ? !escape(p, &high) : !character(p, &high.low))
        return false;
    if (high.kind != CFX__RANGE_CODES || high.low < to->low)
        return fail(p, "a range that runs backwards");
    to->high = high.low;
    return true;
}

/* Behind the "[". */
static bool class(parser *p) {
    cfx__set s = {.first = (uint32_t)p->r->ranges.len, .fold = p->fold};
    s.negated = take(p, '^');
    for (bool first = true; p->p < p->end && (*p->p != ']' || first); first = false) {
        cfx__range g;
        if (*p->p == '[' || take_text(p, "&&"))
            return fail(p, "a class in a class");
        if (!class_item(p, &g))
            return false;
        VEC_PUSH(p->r->ranges, g);
        s.len++;
    }
    if (!take(p, ']'))
        return fail(p, "a class does not end");
    VEC_PUSH(p->r->sets, s);
    emit(p, CFX__INST_SET, (uint32_t)p->r->sets.len - 1, 0);
    return !p->wrong;
}

static void one_range(parser *p, cfx__range g) {
    static const cfx__unicode ascii;
    if (g.kind == CFX__RANGE_CODES && p->fold) {
        emit(p, CFX__INST_FOLD, cfx__unicode_fold(&ascii, g.low), 0);
    } else if (g.kind == CFX__RANGE_CODES) {
        emit(p, CFX__INST_CHAR, g.low, 0);
    } else {
        VEC_PUSH(p->r->sets, ((cfx__set){(uint32_t)p->r->ranges.len, 1, false, false}));
        VEC_PUSH(p->r->ranges, g);
        emit(p, CFX__INST_SET, (uint32_t)p->r->sets.len - 1, 0);
    }
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int alternatives(parser *p);

/* Behind the "(". How many characters it matches at least. */
static int group(parser *p) {
    const bool folded = p->fold;
    int least;
    cfx__inst_op op = CFX__INST_MATCH; /* none */
    if (take_text(p, "?i:"))
        p->fold = true;
    else if (take_text(p, "?!"))
        op = CFX__INST_NOT_AHEAD;
    else if (take_text(p, "?="))
        op = CFX__INST_AHEAD;
    else if (take_text(p, "?>"))
        op = CFX__INST_ATOMIC;
    else if (!take_text(p, "?:") && take(p, '?'))
        fail(p, "an unknown kind of group");
    const uint32_t at = op == CFX__INST_MATCH ? 0 : emit(p, op, 0, 0);
    least = alternatives(p);
    if (!take(p, ')'))
        fail(p, "a group does not end");
    if (op != CFX__INST_MATCH && !p->wrong) {
        emit(p, CFX__INST_MATCH, 0, 0);
        if (!p->wrong)
            p->r->code.data[at].x = here(p);
    }
    p->fold = folded;
    return op == CFX__INST_AHEAD || op == CFX__INST_NOT_AHEAD ? 0 : least;
}

/* A thing that can be repeated; how many characters it matches at least. */
static int atom(parser *p) {
    cfx__range g = {CFX__RANGE_CODES, false, 0, 0};
    if (take(p, '('))
        return group(p);
    if (take(p, '['))
        return class(p);
    if (take(p, '.'))
        emit(p, CFX__INST_ANY, 0, 0);
    else if (take(p, '^') || take_text(p, "\\A"))
        return emit(p, CFX__INST_BEGIN, 0, 0), 0;
    else if (take(p, '$') || take_text(p, "\\z"))
        return emit(p, CFX__INST_END, 0, 0), 0;
    else if (take(p, '\\') ? escape(p, &g) : character(p, &g.low))
        one_range(p, g);
    return 1;
}

/* A number from 0 to MOST_TIMES; -1: there is none. */
static int number(parser *p) {
    int n = -1;
    while (p->p < p->end && *p->p >= '0' && *p->p <= '9' && n <= MOST_TIMES)
        n = (n < 0 ? 0 : n * 10) + (*p->p++ - '0');
    return n;
}

/* "{2,5}", "{2,}", "{2}"; false, without an error, where it is none: a plain brace. */
static bool times(parser *p, int *least, int *most) {
    const char *start = p->p;
    if (!take(p, '{'))
        return false;
    *least = *most = number(p);
    if (take(p, ','))
        *most = number(p);
    if (*least < 0 && *most >= 0)
        *least = 0;
    if (*least >= 0 && take(p, '}'))
        return true;
    p->p = start;
    return false;
}

/* The code from `start` on once more. */
static void again(parser *p, uint32_t start, uint32_t end) {
    const uint32_t moved = here(p) - start;
    for (uint32_t i = start; i < end && !p->wrong; i++) {
        cfx__inst c = p->r->code.data[i];
        if (c.op == CFX__INST_SPLIT || c.op == CFX__INST_JUMP || c.op == CFX__INST_AHEAD ||
            c.op == CFX__INST_NOT_AHEAD || c.op == CFX__INST_ATOMIC)
            c.x += moved;
        if (c.op == CFX__INST_SPLIT)
            c.y += moved;
        emit(p, c.op, c.x, c.y);
    }
}

/* Puts an instruction before the code from `at` on, which moves by one. */
static void insert(parser *p, uint32_t at, cfx__inst_op op) {
    emit(p, CFX__INST_MATCH, 0, 0);
    if (p->wrong)
        return;
    cfx__inst *code = p->r->code.data;
    for (uint32_t i = here(p) - 1; i > at; i--) {
        code[i] = code[i - 1];
        const bool jumps = code[i].op == CFX__INST_SPLIT || code[i].op == CFX__INST_JUMP ||
                           code[i].op == CFX__INST_AHEAD || code[i].op == CFX__INST_NOT_AHEAD ||
                           code[i].op == CFX__INST_ATOMIC;
        code[i].x += jumps && code[i].x >= at;
        code[i].y += code[i].op == CFX__INST_SPLIT && code[i].y >= at;
    }
    code[at] = (cfx__inst){op, 0, 0};
}

/* A choice at `at` between going on there and going to the end. */
static void choose(parser *p, uint32_t at, bool lazy) {
    if (p->wrong)
        return;
    cfx__inst *c = &p->r->code.data[at];
    c->x = lazy ? here(p) : at + 1;
    c->y = lazy ? at + 1 : here(p);
}

/* The atom at `start` so many times; most -1: any number of times. */
static void repeat(parser *p, uint32_t start, int least, int most, bool lazy) {
    const uint32_t len = here(p) - start;
    if (least > MOST_TIMES || most > MOST_TIMES || (most >= 0 && most < least)) {
        fail(p, "a wrong number of times");
        return;
    }
    for (int i = 1; i < least && !p->wrong; i++)
        again(p, start, start + len);
    if (most < 0 && !p->wrong) {
        uint32_t loop = start + (least ? (uint32_t)(least - 1) * len : 0);
        if (least) { /* once more, as often as it goes */
            const uint32_t at = emit(p, CFX__INST_SPLIT, 0, 0);
            again(p, loop, loop + len);
            emit(p, CFX__INST_JUMP, at, 0);
            choose(p, at, lazy);
        } else {
            insert(p, loop, CFX__INST_SPLIT);
            emit(p, CFX__INST_JUMP, loop, 0);
            choose(p, loop, lazy);
        }
    }
    for (int i = least; i < most && !p->wrong; i++) { /* x{0,3}: x?x?x?, each may be the last */
        if (!i) {
            insert(p, start, CFX__INST_SPLIT);
            choose(p, start, lazy);
            continue;
        }
        const uint32_t from = least ? start : start + 1, at = emit(p, CFX__INST_SPLIT, 0, 0);
        again(p, from, from + len);
        choose(p, at, lazy);
    }
}

static int repeated(parser *p) {
    const uint32_t start = here(p);
    int least = 1, most = 1, size = atom(p);
    if (p->wrong)
        return 0;
    if (take(p, '*'))
        least = 0, most = -1;
    else if (take(p, '+'))
        most = -1;
    else if (take(p, '?'))
        least = 0;
    else if (!times(p, &least, &most))
        return size;
    if (most < 0 && !size)
        fail(p, "a repeat of what may be empty");
    const bool lazy = take(p, '?'), atomic = !lazy && take(p, '+');
    if (!least && !most) {
        p->r->code.len = start;
        return 0;
    }
    repeat(p, start, least, most, lazy);
    if (atomic && !p->wrong) {
        insert(p, start, CFX__INST_ATOMIC);
        emit(p, CFX__INST_MATCH, 0, 0);
        if (!p->wrong)
            p->r->code.data[start].x = here(p);
    }
    return least ? size : 0;
}

static int sequence(parser *p) {
    int size = 0;
    while (!p->wrong && p->p < p->end && *p->p != '|' && *p->p != ')')
        size |= repeated(p);
    return size;
}

static int alternatives(parser *p) {
    if (++p->depth > MOST_DEPTH)
        fail(p, "groups lie too deep");
    VEC(uint32_t) ends = {0};
    uint32_t start = here(p);
    int size = sequence(p);
    while (take(p, '|')) {
        insert(p, start, CFX__INST_SPLIT);
        VEC_PUSH(ends, emit(p, CFX__INST_JUMP, 0, 0));
        choose(p, start, false);
        start = here(p);
        size &= sequence(p);
    }
    for (size_t i = 0; i < ends.len && !p->wrong; i++)
        p->r->code.data[ends.data[i]].x = here(p);
    VEC_FREE(ends);
    p->depth--;
    return size;
}

cfx__regex *cfx__regex_new(const char *pattern, size_t len, const char *what) {
    parser p = {.what = what, .pattern = pattern, .p = pattern, .end = pattern + len};
    p.r = cfx__alloc0(sizeof *p.r);
    alternatives(&p);
    if (p.p < p.end)
        fail(&p, "a ')' too many");
    emit(&p, CFX__INST_MATCH, 0, 0);
    if (p.wrong || !cfx_ok()) {
        cfx__regex_free(p.r);
        return NULL;
    }
    return p.r;
}

void cfx__regex_free(cfx__regex *r) {
    if (!r)
        return;
    VEC_FREE(r->code);
    VEC_FREE(r->sets);
    VEC_FREE(r->ranges);
    cfx__free(r);
}
