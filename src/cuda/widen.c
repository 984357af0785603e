/* Vectorizes kernels: a thread computes several adjacent elements, and operands whose elements
 * are contiguous are loaded and stored in pieces of up to 16 bytes. Start at cfx__cuda_widen. */
#include <ctype.h>

#include "plan.h"

enum { PIECES = 12 };

/* An operand at a place, and what is done with it. */
typedef struct {
    const cfx__cuda_name *name;
    const char *place;
    bool read, written;
} piece;

typedef struct {
    const cfx__cuda_pen *t;
    const char *body, *var;
    int by, n;
    piece of[PIECES];
    bool full; /* there are more of them */
} widening;

static size_t word_at(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_')
        n++;
    return n;
}

static bool is_word(const char *at, size_t n, const char *word) {
    return strlen(word) == n && !strncmp(at, word, n);
}

/* Elements of a piece that its address is a multiple of. */
static int64_t aligned_to(const widening *w, const cfx__c_ref *r) {
    const int64_t most = 16 / cfx_dtype_size(r->dtype);
    return most < 1 ? 1 : most < w->by ? most : w->by;
}

/* Whether a place is a sum of the variable and of multiples of others that do not change with it,
 * where pieces begin. */
static bool is_beside(const widening *w, const cfx__c_ref *r, const char *place, size_t n) {
    const int64_t even = aligned_to(w, r);
    int found = 0;
    for (const char *at = place, *end = place + n; at < end;) {
        const size_t name = word_at(at);
        char *behind = (char *)at + name;
        const long long step =
            !strncmp(behind, " * ", 3) ? strtoll(behind + 3, &behind, 10) : 1;
        if (!name || isdigit((unsigned char)*at) || behind > end)
            return false;
        if (is_word(at, name, w->var)) {
            found += step == 1 ? 1 : 2;
        } else if (step % even ||
                   strstr(w->body, cfx__text_format(" %.*s = ", (int)name, at))) {
            return false;
        }
        if (behind < end && strncmp(behind, " + ", 3))
            return false;
        at = behind + 3;
    }
    return found == 1;
}

static const cfx__cuda_name *operand(const widening *w, const char *at, size_t n) {
    for (size_t i = 0; i < w->t->names.len && at[n] == '['; i++)
        if (is_word(at, n, w->t->names.data[i].name))
            return &w->t->names.data[i];
    return NULL;
}

/* The number of a piece, which is noted where it is new; below 0: it is none. */
static int piece_of(widening *w, const cfx__cuda_name *of, const char *place, size_t n,
                    bool written) {
    const bool lies = of->ref.where == CFX__C_ARENA || of->ref.where == CFX__C_WEIGHT;
    if (!lies || cfx__cuda_offset(&of->ref) % 16 || !is_beside(w, &of->ref, place, n))
        return -1;
    int i = 0;
    while (i < w->n && (w->of[i].name != of || !is_word(place, n, w->of[i].place)))
        i++;
    if (i == PIECES) {
        w->full = true;
        return -1;
    }
    if (i == w->n)
        w->of[w->n++] = (piece){of, cfx__text_format("%.*s", (int)n, place), false, false};
    w->of[i].read |= !written;
    w->of[i].written |= written;
    return i;
}

/* The body for the element at `u_`. */
static const char *body_of_each(widening *w) {
    cfx__text t = {0};
    for (const char *at = w->body; *at;) {
        const size_t n = word_at(at);
        const cfx__cuda_name *of = n ? operand(w, at, n) : NULL;
        const char *place = at + n + 1;
        const size_t long_ = of ? strcspn(place, "[]") : 0;
        const int i = of && place[long_] == ']'
                          ? piece_of(w, of, place, long_, !strncmp(place + long_, "] = ", 4))
                          : -1;
        if (i >= 0) {
            cfx__text_printf(&t, "p%d_.v[u_]", i);
            at = place + long_ + 1;
        } else if (n && is_word(at, n, w->var)) {
            cfx__text_printf(&t, "(%s + u_)", w->var);
            at += n;
        } else {
            cfx__text_printf(&t, "%.*s", (int)(n ? n : 1), at);
            at += n ? n : 1;
        }
    }
    return cfx__text_take(&t);
}

/* Whether all lines are statements that are done whatever the numbers are. */
static bool is_straight(const char *body) {
    static const char *const words[] = {"for", "if", "else", "while", "do", "return", "continue",
                                        "break", "goto", "bad"};
    for (const char *at = body; *at; at += *at != 0) {
        const size_t n = word_at(at);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (is_word(at, n, words[i]))
                return false;
        at += n;
    }
    return true;
}

const char *cfx__cuda_widen(const cfx__cuda_pen *t, const char *body, const char *var, int by) {
    widening w = {.t = t, .body = body, .var = var, .by = by};
    cfx__text all = {0};
    if (by < 2 || !is_straight(body))
        return NULL;
    const char *each = body_of_each(&w);
    if (!w.n || w.full)
        return NULL;
    for (int i = 0; i < w.n; i++) {
        const char *type = cfx__text_format("cfx_pack<%s, %d, %d>",
                                            cfx__c_type(w.of[i].name->ref.dtype), by,
                                            (int)aligned_to(&w, &w.of[i].name->ref));
        cfx__text_printf(&all, "    %s p%d_;\n", type, i);
        if (w.of[i].read)
            cfx__text_printf(&all, "    p%d_ = *(const %s *)(%s + %s);\n", i, type,
                             w.of[i].name->name, w.of[i].place);
    }
    cfx__text_printf(&all, "#pragma unroll\n    for (int u_ = 0; u_ < %d; u_++) {\n%s    }\n", by,
                     each);
    for (int i = 0; i < w.n; i++)
        if (w.of[i].written)
            cfx__text_printf(&all, "    cfx_put(%s + %s, p%d_);\n", w.of[i].name->name,
                             w.of[i].place, i);
    return cfx__text_take(&all);
}

int cfx__cuda_wide(const cfx__cuda_pen *t, int64_t elements, int64_t beside) {
    int64_t by = 1;
    for (size_t i = 0; i < t->names.len; i++) {
        const int64_t n = 16 / cfx_dtype_size(t->names.data[i].ref.dtype);
        by = n > by ? n : by;
    }
    by = by > 8 ? 8 : by;
    while (by > 1 && (beside % by || elements / by < t->full))
        by /= 2;
    return t->within || !t->full ? 1 : (int)by;
}
