/* What a person would not have written is taken out of the text: loops of one round, blocks within
 * a block, and terms that say nothing. They come of sizes that happen to be 1 and places that
 * happen to be 0; while the text is made it has them, so that texts for several sizes differ in
 * numbers alone. Comments stay as they are. Start at cfx__c_tidy. */
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

/* "(float *)(c->arena)" is "(float *)c->arena", "[0 * 8]" is "[0]". */
static const char *behind_bare(const char *at, const char **instead) {
    static const char arena[] = ")(c->arena)";
    const char *zero = *at == '[' ? behind_zero(at + 1) : NULL;
    zero = zero && *zero == ']' && zero > at + 2 ? zero : NULL;
    *instead = zero ? "[0" : ")c->arena";
    return zero                                     ? zero
           : !strncmp(at, arena, sizeof arena - 1) ? at + sizeof arena - 1
                                                    : NULL;
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
    while (to < t->n && (t->of[to].gone || t->of[to].indent != t->of[from].indent ||
                         t->of[to].text[0] != '}'))
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
    text->len = 0;
    for (int i = 0; i < t.n; i++) {
        if (t.of[i].gone)
            continue;
        if (!is_comment(&t.of[i]))
            tidy_terms(t.of[i].text);
        for (int k = 0; k < t.of[i].indent; k++)
            cfx__text_putc(text, ' ');
        cfx__text_puts(text, t.of[i].text);
        cfx__text_putc(text, '\n');
    }
    cfx__free(t.of);
    cfx__free(all);
}
