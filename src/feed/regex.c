/* Regular expressions as tokenizer.json has them: alternatives, groups, classes, \p{..}, greedy,
 * lazy and possessive repeats, look-ahead. A pattern becomes a program, which is run with a stack
 * of choices; how many steps a match may take is bounded. */
#include "regex.h"

enum { MOST_STEPS = 1 << 24 };

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct choice {
    uint32_t pc;
    size_t at;
} choice;

typedef struct run {
    const cfx__regex *regex;
    const cfx__unicode *unicode;
    const char *text;
    size_t len;
    VEC(choice) choices;
    uint32_t steps;
} run;

static bool has(const cfx__range *g, uint32_t c) { return c >= g->low && c <= g->high; }

/* Whether another case of c is in the range. */
static bool has_case(const run *r, const cfx__range *g, uint32_t c) {
    const uint32_t low = cfx__unicode_fold(r->unicode, c);
    return has(g, low) || (low >= 'a' && low <= 'z' && has(g, low - 32));
}

static bool in_set(const run *r, const cfx__set *s, uint32_t c) {
    bool found = false;
    for (uint32_t i = s->first; i < s->first + s->len && !found; i++) {
        const cfx__range *g = &r->regex->ranges.data[i];
        bool in = false;
        if (g->kind == CFX__RANGE_CODES)
            in = has(g, c) || (s->fold && has_case(r, g, c));
        else if (g->kind == CFX__RANGE_CATEGORIES)
            in = cfx__unicode_is(r->unicode, c) & g->low;
        else if (g->kind == CFX__RANGE_SPACE)
            in = cfx__unicode_space(c);
        else
            in = cfx__unicode_word(r->unicode, c);
        found = in != g->negated;
    }
    return found != s->negated;
}

static bool fits(const run *r, const cfx__inst *i, uint32_t c) {
    switch (i->op) {
    case CFX__INST_CHAR: return c == i->x;
    case CFX__INST_FOLD: return cfx__unicode_fold(r->unicode, c) == i->x;
    case CFX__INST_ANY: return c != '\n';
    default: return in_set(r, &r->regex->sets.data[i->x], c);
    }
}

static bool push(run *r, uint32_t pc, size_t at) {
    if (!VEC_TRY(r->choices, 1))
        return false;
    r->choices.data[r->choices.len++] = (choice){pc, at};
    return true;
}

static bool too_long(run *r) {
    if (++r->steps < MOST_STEPS && ((r->steps & 4095) || cfx__limit_time()))
        return false;
    if (cfx_ok())
        cfx_fail(CFX_LIMIT_ERROR, (cfx_site){0},
                 "a pattern of the tokenizer takes more than %d steps for a text", MOST_STEPS);
    return true;
}

static bool execute(run *r, uint32_t pc, size_t at, size_t *end);

/* A look-ahead, or a group whose choices are forgotten. */
static bool inside(run *r, const cfx__inst *i, uint32_t pc, size_t *at) {
    size_t end = *at;
    const bool found = execute(r, pc + 1, *at, &end);
    if (i->op == CFX__INST_ATOMIC)
        *at = end;
    return found != (i->op == CFX__INST_NOT_AHEAD);
}

/* One step: true where the way goes on, with pc and at moved. */
static bool step(run *r, uint32_t *pc, size_t *at) {
    const cfx__inst *i = &r->regex->code.data[*pc];
    uint32_t c = 0;
    size_t n = 0;
    switch (i->op) {
    case CFX__INST_SPLIT:
        *pc = i->x;
        return push(r, i->y, *at);
    case CFX__INST_JUMP:
        *pc = i->x;
        return true;
    case CFX__INST_BEGIN:
    case CFX__INST_END:
        *pc += 1;
        return *at == (i->op == CFX__INST_BEGIN ? 0 : r->len);
    case CFX__INST_AHEAD:
    case CFX__INST_NOT_AHEAD:
    case CFX__INST_ATOMIC:
        if (!inside(r, i, *pc, at))
            return false;
        *pc = i->x;
        return true;
    default:
        n = *at < r->len ? cfx__utf8_get(r->text + *at, r->len - *at, &c) : 0;
        *pc += 1;
        *at += n;
        return n && fits(r, i, c);
    }
}

/* Runs to the MATCH that ends this level; look-aheads nest as deep as the pattern has them. */
static bool execute(run *r, uint32_t pc, size_t at, size_t *end) {
    const size_t bottom = r->choices.len;
    for (;;) {
        if (too_long(r) || !cfx_ok())
            break;
        if (r->regex->code.data[pc].op == CFX__INST_MATCH) {
            *end = at;
            r->choices.len = bottom;
            return true;
        }
        if (step(r, &pc, &at))
            continue;
        if (r->choices.len == bottom)
            break;
        const choice c = r->choices.data[--r->choices.len];
        pc = c.pc;
        at = c.at;
    }
    r->choices.len = bottom;
    return false;
}

bool cfx__regex_find(const cfx__regex *regex, const cfx__unicode *u, const char *text, size_t len,
                     size_t from, size_t *begin, size_t *end) {
    run r = {.regex = regex, .unicode = u, .text = text, .len = len};
    bool found = false;
    while (from <= len && cfx_ok()) {
        r.steps = 0;
        if (execute(&r, 0, from, end)) {
            found = true;
            *begin = from;
            break;
        }
        uint32_t c;
        const size_t n = from < len ? cfx__utf8_get(text + from, len - from, &c) : 0;
        if (!n)
            break;
        from += n;
    }
    VEC_FREE(r.choices);
    return found && cfx_ok();
}
