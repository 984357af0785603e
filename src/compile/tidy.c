/* Simplifies the generated text: removes loops of one iteration, blocks within blocks, neutral
 * terms, names used once, and braces around single statements. These arise from sizes of 1,
 * offsets of 0 and values with one reader. They are kept until the end, so that the texts for
 * several sizes differ only in numbers. Comments are not changed. Start at cfx__c_tidy. */
#include <ctype.h>

#include "compile.h"

typedef struct {
    char *text;
    int indent; /* its spaces; -1: an empty line */
    bool gone;
} line;

typedef struct {
    int n;
    line *of;
} lines;

static bool is_part_of_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static bool is_comment(const line *l) { return l->text[0] == '/' && l->text[1] == '*'; }

/* Where a word stands in a text next; NULL: nowhere. */
static char *word_in(char *text, const char *word) {
    const size_t n = strlen(word);
    for (char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || (!is_part_of_word(at[-1]) && at[-1] != '>')) && !is_part_of_word(at[n]))
            return at;
    return NULL;
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* The end of " * 8" behind a factor: of all that it is multiplied by, numbers and names. */
static const char *behind_factors(const char *at) {
    while (!strncmp(at, " * ", 3) && is_part_of_word(at[3]))
        for (at += 3; is_part_of_word(*at);)
            at++;
    return at;
}

/* Whether what ends here ends a sum's term: nothing that binds more tightly follows. */
static bool ends_term(const char *at) {
    return *at != '[' && *at != '(' && !is_part_of_word(*at) && strncmp(at, "->", 2) &&
           strncmp(at, " *", 2) && strncmp(at, " /", 2) && strncmp(at, " %", 2);
}

/* The end of a term that begins here and is 0: "0", "0 * 8"; NULL: it is another. */
static const char *behind_zero(const char *at) {
    if (*at != '0' || is_part_of_word(at[1]))
        return NULL;
    at = behind_factors(at + 1);
    return ends_term(at) ? at : NULL;
}

/* The end of what says nothing from here on: " * 1", " / 1", " + 0", "0 + " where a sum begins. */
static const char *behind_nothing(const char *from, const char *at) {
    if ((!strncmp(at, " * 1", 4) || !strncmp(at, " / 1", 4)) && !is_part_of_word(at[4]))
        return at + 4;
    if (!strncmp(at, " + 0", 4) || !strncmp(at, " - 0", 4))
        return behind_zero(at + 3);
    const bool begins = at > from && (at[-1] == '[' || at[-1] == '(' ||
                                      (at > from + 2 && !strncmp(at - 3, " = ", 3)));
    const char *zero = begins ? behind_zero(at) : NULL;
    return zero && !strncmp(zero, " + ", 3) ? zero + 3 : NULL;
}

/* "(float *)(c->arena)" is "(float *)c->arena", ", (c->arena)" is ", c->arena", "[0 * 8]" "[0]". */
static const char *behind_bare(const char *at, const char **instead) {
    static const char *const arenas[][2] = {{")(c->arena)", ")c->arena"},
                                            {", (c->arena)", ", c->arena"}};
    const char *zero = *at == '[' ? behind_zero(at + 1) : NULL;
    *instead = "[0";
    if (zero && *zero == ']' && zero > at + 2)
        return zero;
    for (int i = 0; i < COUNT(arenas); i++) {
        const size_t n = strlen(arenas[i][0]);
        *instead = arenas[i][1];
        if (!strncmp(at, arenas[i][0], n))
            return at + n;
    }
    return NULL;
}

/* Once more where something was found: "(c->arena + 0)" has become "(c->arena)". */
static void tidy_terms(char *text) {
    for (bool again = true; again;) {
        char *to = text;
        again = false;
        for (const char *at = text; *at;) {
            const char *instead = "", *next = behind_nothing(text, at);
            if (!strncmp(at, "/*", 2))
                next = NULL;
            else if (!next)
                next = behind_bare(at, &instead);
            if (!strncmp(at, "/*", 2)) { /* to the end of the line */
                memmove(to, at, strlen(at) + 1);
                to += strlen(to);
                break;
            }
            again |= next != NULL;
            while (*instead && next)
                *to++ = *instead++;
            if (next)
                at = next;
            else
                *to++ = *at++;
        }
        *to = 0;
    }
}

/* The end of parentheses that begin here; NULL: they end in another line. */
static char *end_of_parentheses(char *at) {
    int depth = 0;
    for (; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (!depth)
            return at;
    }
    return NULL;
}

/* Whether what ends before `at` casts to a float. */
static bool is_behind_cast(const char *text, const char *at) {
    return (at - text >= 7 && !strncmp(at - 7, "(float)", 7)) ||
           (at - text >= 8 && !strncmp(at - 8, "(double)", 8));
}

/* "= (s0 - 1);" is "= s0 - 1;", "(float)(s0)" is "(float)s0", and "/ ((float)s0)" "/ (float)s0". */
static void tidy_wrapped(char *text) {
    for (char *at = strstr(text, "/*") ? NULL : strchr(text, '('); at;) {
        char *end = end_of_parentheses(at), *inside = at + 1;
        if (at > text && at[-1] == ' ' && *inside == '(')
            inside += strcspn(inside, ")") + 1;
        const char *from = inside;
        while (is_part_of_word(*inside))
            inside++;
        const bool word = inside == end && inside > from &&
                          (is_behind_cast(text, at) || is_behind_cast(text, from));
        const bool all = end && at - text > 3 && !strncmp(at - 3, " = ", 3) && !strcmp(end, ");");
        if (word || all) {
            memmove(end, end + 1, strlen(end));
            memmove(at, at + 1, strlen(at));
        }
        at = strchr(word || all ? text : at + 1, '('); /* those around it may say nothing now */
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The name that a line declares: "const float v0 = x[i];"; "": none. */
static void declared(const line *l, char name[64]) {
    const char *end = strstr(l->text, " = ");
    name[0] = 0;
    if (!end)
        end = l->text + strcspn(l->text, "[;");
    const char *word = end;
    while (word > l->text && is_part_of_word(word[-1]))
        word--;
    if (word > l->text && word < end && end - word < 64 && (word[-1] == ' ' || word[-1] == '*') &&
        !memchr(l->text, '(', (size_t)(word - l->text)) && strncmp(l->text, "return", 6)) {
        memcpy(name, word, (size_t)(end - word));
        name[end - word] = 0;
    }
}

static int after(const lines *t, int i) {
    do
        i++;
    while (i < t->n && (t->of[i].gone || t->of[i].indent < 0));
    return i;
}

static int before(const lines *t, int i) {
    do
        i--;
    while (i >= 0 && t->of[i].gone);
    return i;
}

/* Whether the lines between two can stand in the block around them, which ends behind them: no name
 * of theirs is one of its own, and nothing goes on with a loop that would be another. */
static bool may_join(const lines *t, int from, int to) {
    const int end = after(t, to), indent = t->of[from].indent;
    char name[64];
    if (end >= t->n || t->of[end].text[0] != '}' || t->of[end].indent >= indent)
        return false;
    for (int i = from + 1; i < to; i++) {
        if (t->of[i].gone)
            continue;
        if (strstr(t->of[i].text, "continue;") || strstr(t->of[i].text, "break;"))
            return false;
        if (t->of[i].indent == indent + 4)
            declared(&t->of[i], name);
        else
            name[0] = 0;
        for (int k = before(t, from); name[0] && k >= 0; k = before(t, k)) {
            if (t->of[k].indent >= 0 && t->of[k].indent < indent)
                break;
            if (word_in(t->of[k].text, name))
                return false;
        }
    }
    return true;
}

/* The variable of a loop of one round, or "" of a block that stands alone in another; false: the
 * line begins neither. */
static bool begins_one(const lines *t, int i, char name[16]) {
    const line *l = &t->of[i];
    const int above = before(t, i);
    int n = 0;
    name[0] = 0;
    if (!strcmp(l->text, "{"))
        return above >= 0 && !is_comment(&t->of[above]);
    if (sscanf(l->text, "for (int64_t %15[a-z0-9] = 0; %n", name, &n) != 1 || !n)
        return false;
    char rest[64];
    snprintf(rest, sizeof rest, "%s < 1; %s++) {", name, name);
    return !strcmp(l->text + n, rest);
}

static void put_zero(line *l, const char *name) {
    const size_t n = strlen(name);
    if (is_comment(l))
        return;
    for (char *at; (at = word_in(l->text, name));) {
        *at = '0';
        memmove(at + 1, at + n, strlen(at + n) + 1);
    }
}

static void tidy_block(lines *t, int from) {
    char name[16];
    int to = from + 1;
    if (t->of[from].gone || !begins_one(t, from, name))
        return;
    while (to < t->n &&
           (t->of[to].gone || t->of[to].indent != t->of[from].indent || t->of[to].text[0] != '}'))
        to++;
    if (to == t->n || !may_join(t, from, to))
        return;
    t->of[from].gone = t->of[to].gone = true;
    for (int i = from + 1; i < to; i++) {
        if (t->of[i].indent >= 4)
            t->of[i].indent -= 4;
        if (name[0])
            put_zero(&t->of[i], name);
    }
}

/* ---- names for what is used once --------------------------------------------------------------
 */

/* A line "const float v3 = x[i];". */
typedef struct {
    char type[16], name[16];
    const char *is; /* behind the "=" */
    size_t n;
} value;

static bool reads_value(const line *l, value *v) {
    int n = 0;
    if (l->indent < 0 ||
        sscanf(l->text, "const %15[a-z0-9_] %15[v0-9] = %n", v->type, v->name, &n) != 2)
        return false;
    v->is = l->text + n;
    v->n = strlen(v->is);
    return n && v->n > 1 && v->is[--v->n] == ';' && !memchr(v->is, ';', v->n);
}

/* Whether it is an element of an array and nothing else. */
static bool is_element(const value *v) {
    size_t at = 0;
    int deep = 0;
    while (at < v->n && is_part_of_word(v->is[at]))
        at++;
    if (!at || v->is[at] != '[')
        return false;
    for (; at < v->n; at++) {
        deep += (v->is[at] == '[') - (v->is[at] == ']');
        if (!deep && at + 1 < v->n)
            return false;
    }
    return true;
}

/* Whether the array at line i has elements of the value's type: the nearest that is called so. */
static bool has_type_of(const lines *t, int i, const value *v) {
    char want[96];
    const size_t n = strcspn(v->is, "[");
    if (n > 60)
        return false;
    snprintf(want, sizeof want, "%s *%.*s = ", v->type, (int)n, v->is);
    for (i = before(t, i); i >= 0 && t->of[i].indent; i = before(t, i)) {
        const char *text = t->of[i].text, *at = strstr(text, want + strlen(v->type) + 1);
        if (at && t->of[i].indent > 0 && at > text && at[-1] == ' ')
            return !strncmp(text + (strncmp(text, "const ", 6) ? 0 : 6), want, strlen(want));
    }
    return false;
}

/* Whether it changes with nothing but values: no array is read, no sum. */
static bool is_of_values(const value *v) {
    for (size_t i = 0; i < v->n; i++) {
        if (!isalpha((unsigned char)v->is[i]) || (i && is_part_of_word(v->is[i - 1])))
            continue;
        size_t end = i;
        while (end < v->n && is_part_of_word(v->is[end]))
            end++;
        const bool is_value = v->is[i] == 'v' && isdigit((unsigned char)v->is[i + 1]);
        if (!is_value && v->is[end] != '(' && v->is[end] != ')') /* a function, a cast */
            return false;
    }
    return !memchr(v->is, '[', v->n);
}

/* The one line that uses the value of line i, in the same block; -1: none, several, or one that may
 * not have it instead: what is between the two would change it, or it would be computed again. */
static int used_at(const lines *t, int i, const value *v) {
    const int indent = t->of[i].indent;
    int used = -1;
    bool stored = false;
    for (int k = after(t, i); k < t->n && t->of[k].indent >= indent; k = after(t, k)) {
        const line *l = &t->of[k];
        char *at = is_comment(l) ? NULL : word_in(l->text, v->name);
        if (at && (used >= 0 || stored || l->indent > indent || !strncmp(l->text, "for (", 5) ||
                   !strncmp(l->text, "while (", 7) || word_in(at + 1, v->name)))
            return -1;
        used = at ? k : used;
        if (used < 0)
            stored |= strncmp(l->text, "const ", 6) != 0 && !is_of_values(v);
    }
    return used;
}

/* A value that nobody reads: what it was for was known after all. */
static void tidy_unused(lines *t, int i) {
    const line *l = &t->of[i];
    char name[16];
    if (l->gone || l->indent < 0 ||
        sscanf(l->text, "const %*[a-z0-9_] %15[a-z0-9_] =", name) != 1 || name[0] != 'v' ||
        !isdigit((unsigned char)name[1]) || strstr(l->text, "c->") ||
        l->text[strlen(l->text) - 1] != ';')
        return;
    for (int k = after(t, i); k < t->n && t->of[k].indent >= l->indent; k = after(t, k))
        if (word_in(t->of[k].text, name))
            return;
    t->of[i].gone = true;
}

static void tidy_value(lines *t, int i) {
    value v;
    if (t->of[i].gone || !reads_value(&t->of[i], &v))
        return;
    const bool element = is_element(&v);
    const int used = element && !has_type_of(t, i, &v) ? -1 : used_at(t, i, &v);
    if (used < 0)
        return;
    line *l = &t->of[used];
    char *at = word_in(l->text, v.name), *end = at + strlen(v.name);
    /* sums of products stay two statements, so that compilers round each as it is */
    const bool stores = !strcmp(end, ";") && at - l->text > 3 && !strncmp(at - 3, " = ", 3) &&
                        strncmp(l->text, "const ", 6) != 0;
    const bool adds = !strcmp(end, ";") && at - l->text > 8 && !strncmp(at - 8, "(double)", 8) &&
                      strstr(l->text, " += (double)");
    const bool bare = element || stores;
    if ((!bare && !adds) || l->indent + strlen(l->text) + v.n > 100)
        return;
    l->text = (char *)cfx__text_format(bare ? "%.*s%.*s%s" : "%.*s(%.*s)%s", (int)(at - l->text),
                                       l->text, (int)v.n, v.is, end);
    t->of[i].gone = true;
}

/* ---- braces ---------------------------------------------------------------------------------- */

/* Whether a line is a statement of its own, that needs no block. */
static bool is_statement(const line *l) {
    static const char *const others[] = {"if (", "const ", "for (", "while (", "switch ("};
    const size_t n = strlen(l->text);
    for (int i = 0; i < COUNT(others); i++)
        if (!strncmp(l->text, others[i], strlen(others[i])))
            return false;
    size_t word = 0; /* "float x" declares */
    while (is_part_of_word(l->text[word]))
        word++;
    const char next = l->text[word] == ' ' ? l->text[word + 1] : ' ';
    return n && l->text[n - 1] == ';' && word && !isalpha((unsigned char)next) && next != '*';
}

/* Loops around one statement, or around such a loop, have no braces. */
static void tidy_braces(lines *t, int from) {
    line *l = &t->of[from];
    const size_t n = strlen(l->text);
    if (l->gone || strncmp(l->text, "for (", 5) || n < 3 || strcmp(l->text + n - 3, ") {"))
        return;
    const int first = after(t, from);
    int to = first, inside = 0;
    for (; to < t->n && t->of[to].indent > l->indent; to = after(t, to))
        inside += t->of[to].indent == l->indent + 4;
    if (to >= t->n || strcmp(t->of[to].text, "}") || t->of[to].indent != l->indent || inside != 1)
        return;
    const line *body = &t->of[first];
    const bool nested =
        !strncmp(body->text, "for (", 5) && body->text[strlen(body->text) - 1] == ')';
    if (!nested && !(is_statement(body) && after(t, first) == to))
        return;
    l->text[n - 2] = 0;
    t->of[to].gone = true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void cfx__c_tidy(cfx__text *text) {
    lines t = {0};
    if (!text->len)
        return;
    char *all = cfx__text_copy(text->data, text->len);
    for (const char *at = all; *at; at++)
        t.n += *at == '\n';
    t.of = cfx__alloc(((size_t)t.n + 1) * sizeof *t.of);
    char *at = all;
    for (int i = 0; i < t.n; i++) {
        const int indent = (int)strspn(at, " ");
        char *end = strchr(at, '\n');
        *end = 0;
        t.of[i] = (line){at + indent, at[indent] ? indent : -1, false};
        at = end + 1;
    }
    for (int i = 0; i < t.n; i++)
        tidy_block(&t, i);
    for (int i = t.n - 1; i >= 0; i--)
        tidy_unused(&t, i);
    for (int i = 0; i < t.n; i++)
        tidy_value(&t, i);
    for (int i = t.n - 1; i >= 0; i--)
        tidy_braces(&t, i);
    text->len = 0;
    for (int i = 0; i < t.n; i++) {
        if (t.of[i].gone)
            continue;
        if (!is_comment(&t.of[i])) {
            tidy_terms(t.of[i].text);
            tidy_wrapped(t.of[i].text);
        }
        for (int k = 0; k < t.of[i].indent; k++)
            cfx__text_putc(text, ' ');
        cfx__text_puts(text, t.of[i].text);
        cfx__text_putc(text, '\n');
    }
    cfx__free(t.of);
    cfx__free(all);
}
