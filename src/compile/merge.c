/* Merges the texts written at several sizes into one. The texts differ only in numbers, and each
 * number must be an expression of the sizes: a product of sizes that occur in the program's
 * shapes times a constant, or a sum of two such products. A number without such an expression,
 * or a text that differs otherwise, is refused. Arena offsets are those of the largest sizes,
 * which leave room for all. Start at cfx__c_merge. */
#include <ctype.h>
#include <math.h>

#include "compile.h"

enum { ATOMS = 24, TERMS = 300, PAIRED = 60, DEGREE = 4, FEWEST = 3 };
static const int64_t most = (int64_t)1 << 50;

/* A product of sizes, with what it is at each point. */
typedef struct {
    const char *text;
    bool plain; /* one name */
    int last;   /* the last atom in it */
    int64_t v[CFX__C_TAKES];
} term;

/* What a vector of numbers was found to be. */
typedef struct {
    int64_t v[CFX__C_TAKES];
    const char *text; /* NULL: nothing */
} found;

typedef struct {
    cfx__c *c;
    int n; /* points */
    const cfx__c_take *const *takes;
    int natoms, nterms;
    term terms[TERMS]; /* atoms first */
    VEC(found) known;
    bool used[CFX__C_SIZES];
} merger;

/* ---- terms ----------------------------------------------------------------------------------- */

/* An expression of the program's in C; NULL where it has none: floors of what may be negative. */
static const char *sym_text(const merger *m, const cfx_sym *s, int level) {
    static const struct {
        const char *op;
        int level;
    } forms[] = {[CFX__SYM_ADD] = {"+", 1},
                 [CFX__SYM_MUL] = {"*", 2},
                 [CFX__SYM_FLOORDIV] = {"/", 2},
                 [CFX__SYM_MOD] = {"%", 2}};
    if (s->op == CFX__SYM_INT)
        return cfx__text_format(s->hint < 0 ? "(%lld)" : "%lld", (long long)s->hint);
    if (s->op == CFX__SYM_NAME) {
        for (int i = 0; i < m->c->nsizes; i++)
            if (!strcmp(m->c->sizes[i].symbol, s->name))
                return i < m->c->nvary ? m->c->sizes[i].name
                                       : cfx__text_format("%lld", (long long)m->c->sizes[i].high);
        return NULL;
    }
    if (s->op > CFX__SYM_MOD)
        return NULL;
    const int own = forms[s->op].level;
    const bool divides = s->op == CFX__SYM_FLOORDIV || s->op == CFX__SYM_MOD;
    for (int i = 0; divides && i < m->n; i++) {
        int64_t a;
        if (!cfx__c_size_at(m->c, m->takes[i]->at, cfx__value_of_sym(s->a), &a) || a < 0)
            return NULL;
    }
    const char *a = sym_text(m, s->a, own), *b = sym_text(m, s->b, own + divides);
    if (!a || !b)
        return NULL;
    const bool bare = own > level || (own == level && !divides);
    if (s->op == CFX__SYM_ADD && s->b->op == CFX__SYM_INT && s->b->hint < 0)
        return cfx__text_format(bare ? "%s - %lld" : "(%s - %lld)", a, (long long)-s->b->hint);
    if (s->op == CFX__SYM_MUL && s->a->op == CFX__SYM_INT) { /* numbers come last */
        const char *t = a;
        a = b, b = t;
    }
    return cfx__text_format(bare ? "%s %s %s" : "(%s %s %s)", a, forms[s->op].op, b);
}

static void add_atom(merger *m, cfx_value v) {
    term t = {.plain = v.tag == CFX_TAG_SYM && cfx_as_sym(v)->op == CFX__SYM_NAME};
    bool same = true;
    if (v.tag != CFX_TAG_SYM || m->natoms == ATOMS)
        return;
    for (int i = 0; i < m->n; i++) {
        if (!cfx__c_size_at(m->c, m->takes[i]->at, v, &t.v[i]) || t.v[i] <= 0 || t.v[i] > most)
            return;
        same &= t.v[i] == t.v[0];
    }
    for (int k = 0; k < m->natoms; k++)
        if (!memcmp(m->terms[k].v, t.v, sizeof t.v))
            return;
    t.text = sym_text(m, cfx_as_sym(v), 2);
    t.last = m->natoms;
    if (t.text && !same)
        m->terms[m->natoms++] = t;
}

static void add_result(merger *m, const cfx_result *r) {
    for (int i = 0; r->kind == CFX_RESULT_TENSOR && i < r->ndim; i++)
        add_atom(m, cfx_result_size(r, i));
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        const cfx_result item = cfx_result_item(r, i);
        add_result(m, &item);
    }
    if (r->value.tag == CFX_TAG_SYM)
        add_atom(m, r->value);
}

/* Sizes that vary, then those of the shapes that the program has, then products of them. */
static void find_terms(merger *m) {
    for (int i = 0; i < m->c->nvary; i++)
        add_atom(m, cfx__sym_name(m->c->sizes[i].symbol, false, 0));
    cfx_each_node(m->c->program->module->graph, n) {
        const cfx_result r = cfx_node_result(n);
        add_result(m, &r);
    }
    m->nterms = m->natoms;
    for (int from = 0, degree = 2, end; degree <= DEGREE; degree++, from = end) {
        end = m->nterms;
        for (int a = from; a < end; a++)
            for (int b = m->terms[a].last; b < m->natoms && m->nterms < TERMS; b++) {
                term t = {.last = b};
                bool fine = true;
                for (int i = 0; i < m->n && fine; i++) {
                    fine = m->terms[a].v[i] <= most / m->terms[b].v[i];
                    t.v[i] = fine ? m->terms[a].v[i] * m->terms[b].v[i] : 0;
                }
                for (int k = 0; k < m->nterms && fine; k++)
                    fine = memcmp(m->terms[k].v, t.v, sizeof t.v) != 0;
                t.text = cfx__text_format("%s * %s", m->terms[a].text, m->terms[b].text);
                if (fine)
                    m->terms[m->nterms++] = t;
            }
    }
}

/* ---- fitting --------------------------------------------------------------------------------- */

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* "s0 * 32 - 64" of a product, its factor and a number. */
static const char *sum_text(const char *before, const term *t, int64_t q, int64_t d) {
    cfx__text s = {0};
    const bool one = q == 1 || (q == -1 && *before);
    cfx__text_puts(&s, before);
    cfx__text_puts(&s, *before ? q < 0 ? " - " : " + " : q < 0 ? "-" : "");
    cfx__text_puts(&s, t->text);
    if (!one)
        cfx__text_printf(&s, " * %lld", (long long)(q < 0 ? -q : q));
    if (d)
        cfx__text_printf(&s, " %c %lld", d < 0 ? '-' : '+', (long long)(d < 0 ? -d : d));
    return cfx__text_take(&s);
}

/* v = t p / q. */
static const char *fit_product(const merger *m, const int64_t *v) {
    for (int k = 0; k < m->nterms; k++) {
        const term *t = &m->terms[k];
        const int64_t g = divisor(v[0], t->v[0]), p = g ? v[0] / g : 0, q = g ? t->v[0] / g : 0;
        bool fine = p > 0 && q > 0 && q <= 64;
        for (int i = 0; i < m->n && fine; i++)
            fine = t->v[i] <= INT64_MAX / p && v[i] <= INT64_MAX / q && t->v[i] * p == v[i] * q;
        if (fine)
            return q == 1 ? sum_text("", t, p, 0)
                          : cfx__text_format("%s / %lld", sum_text("", t, p, 0), (long long)q);
    }
    return NULL;
}

/* v = t q + d. */
static const char *fit_line(const merger *m, const int64_t *v) {
    for (int k = 0; k < m->nterms; k++) {
        const term *t = &m->terms[k];
        int i = 1;
        while (i < m->n && t->v[i] == t->v[0])
            i++;
        if (i == m->n || (v[i] - v[0]) % (t->v[i] - t->v[0]))
            continue;
        const int64_t q = (v[i] - v[0]) / (t->v[i] - t->v[0]);
        bool fine = q && (q > 0 ? q : -q) <= INT64_MAX / most;
        const int64_t d = fine ? v[0] - q * t->v[0] : 0;
        for (int p = 0; p < m->n && fine; p++)
            fine = q * t->v[p] + d == v[p];
        if (fine)
            return sum_text("", t, q, d);
    }
    return NULL;
}

typedef struct {
    int64_t p, q, d;
} plane;

/* v = a p + b q + d at three points, in numbers that are whole; false: there are none. */
static bool solve(const int64_t *v, const int64_t *a, const int64_t *b, plane *to) {
    const double a1 = (double)(a[1] - a[0]), a2 = (double)(a[2] - a[0]);
    const double b1 = (double)(b[1] - b[0]), b2 = (double)(b[2] - b[0]);
    const double v1 = (double)(v[1] - v[0]), v2 = (double)(v[2] - v[0]);
    const double det = a1 * b2 - a2 * b1;
    const double p = rint((v1 * b2 - v2 * b1) / det), q = rint((a1 * v2 - a2 * v1) / det);
    if (det == 0 || !p || !q || !(fabs(p) < 8192.0) || !(fabs(q) < 8192.0))
        return false;
    *to = (plane){(int64_t)p, (int64_t)q, 0};
    to->d = v[0] - to->p * a[0] - to->q * b[0];
    return true;
}

static const char *fit_plane(const merger *m, const int64_t *v) {
    const int n = m->nterms < PAIRED ? m->nterms : PAIRED;
    for (int j = 0; m->n > FEWEST && j < n; j++)
        for (int k = 0; k < j; k++) {
            const term *a = &m->terms[j], *b = &m->terms[k];
            plane is;
            bool fine = solve(v, a->v, b->v, &is);
            for (int i = 0; i < m->n && fine; i++)
                fine = is.p * a->v[i] + is.q * b->v[i] + is.d == v[i];
            if (fine && is.p < 0 && is.q > 0)
                return sum_text(sum_text("", b, is.q, 0), a, is.p, is.d);
            if (fine)
                return sum_text(sum_text("", a, is.p, 0), b, is.q, is.d);
        }
    return NULL;
}

/* What numbers, one for each point, are; NULL: nothing that is known. */
/* An expression without parentheses around all of it. */
static const char *unwrapped(const char *text) {
    const size_t n = strlen(text);
    int depth = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (!depth)
            return text;
    }
    return n > 2 ? cfx__text_format("%.*s", (int)n - 2, text + 1) : text;
}

static const char *fit(merger *m, const int64_t *given) {
    found f = {.text = NULL};
    memcpy(f.v, given, (size_t)m->n * sizeof *given);
    for (size_t i = 0; i < m->known.len; i++)
        if (!memcmp(m->known.data[i].v, f.v, sizeof f.v))
            return m->known.data[i].text;
    bool same = true;
    for (int i = 1; i < m->n; i++)
        same &= f.v[i] == f.v[0];
    f.text = same ? cfx__text_format("%lld", (long long)f.v[0]) : fit_product(m, f.v);
    f.text = f.text ? f.text : fit_line(m, f.v);
    f.text = f.text ? f.text : fit_plane(m, f.v);
    f.text = f.text ? unwrapped(f.text) : NULL;
    VEC_PUSH(m->known, f);
    return f.text;
}

/* The same of floats: whole numbers, one over such, or over the root of such. */
static const char *fit_floats(merger *m, const double *v, bool narrow) {
    const char *type = narrow ? "float" : "double", *one = narrow ? "1.0f" : "1.0";
    int64_t whole[CFX__C_TAKES];
    for (int form = 0; form < 3; form++) {
        bool fine = true;
        for (int i = 0; i < m->n && fine; i++) {
            const double w = rint(!form ? v[i] : form == 1 ? 1 / v[i] : 1 / (v[i] * v[i]));
            const double back = !form ? w : form == 1 ? 1 / w : 1 / sqrt(w);
            fine = fabs(w) < 9e15 && (narrow ? (float)back == (float)v[i] : back == v[i]);
            whole[i] = fine ? (int64_t)w : 0;
        }
        const char *text = fine ? fit(m, whole) : NULL;
        if (text && form == 2)
            return cfx__text_format("%s / %s((%s)(%s))", one, narrow ? "sqrtf" : "sqrt", type,
                                    text);
        if (text)
            return cfx__text_format(form ? "%s / (%s)(%s)" : "%.0s(%s)(%s)", one, type, text);
    }
    return NULL;
}

/* ---- numbers in texts ------------------------------------------------------------------------ */

typedef struct {
    size_t len;
    bool whole, narrow; /* an integer; of a float, whether it ends in f */
    int64_t i;
    double f;
} number;

static bool is_name(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

/* The number at a place of a text; len is 0 where there is none. */
static number number_at(const char *text, const char *at) {
    number n = {0};
    if (!isdigit((unsigned char)*at) || (at > text && (is_name(at[-1]) || at[-1] == '.')))
        return n;
    char *end;
    const bool hex = at[0] == '0' && at[1] == 'x';
    n.i = strtoll(at, &end, 0);
    n.whole = hex || (*end != '.' && *end != 'e');
    if (!n.whole)
        n.f = strtod(at, &end);
    n.narrow = !n.whole && *end == 'f';
    while (is_name(*end))
        end++;
    n.len = (size_t)(end - at);
    return n;
}

/* How far two texts are the same but for numbers: where they differ in `a`; NULL: nowhere. */
static const char *apart(const char *a, const char *b) {
    const char *from_a = a, *from_b = b;
    while (*a || *b) {
        const number x = number_at(from_a, a), y = number_at(from_b, b);
        if (x.len && y.len && x.whole == y.whole && x.narrow == y.narrow) {
            a += x.len;
            b += y.len;
        } else if (*a != *b) {
            return a;
        } else {
            a++;
            b++;
        }
    }
    return NULL;
}

const char *cfx__c_apart(const char *a, const char *b) {
    const char *at = apart(a, b), *name = NULL;
    if (!at)
        return NULL;
    for (const char *p = a; p < at && (p = strstr(p, "    /* ")) && p < at; p += 7)
        name = p + 7; /* of the kernel that it is in */
    return cfx__text_format("%.*s", name ? (int)strcspn(name, ": ") : 11,
                            name ? name : "the program");
}

/* ---- one text -------------------------------------------------------------------------------- */

typedef struct {
    merger *m;
    const char *text, *at[CFX__C_TAKES];
    cfx__text out, body; /* functions, and the one that is being read */
    const char *node;    /* whose comment was read last */
    bool comment;
} reading;

static bool ends_with(const cfx__text *t, const char *end) {
    const size_t n = strlen(end);
    return t->len >= n && !memcmp(t->data + t->len - n, end, n);
}

/* What stands before and behind decides on parentheses. */
static void put_expression(reading *r, const char *e, const char *behind) {
    const bool sum = strstr(e, " + ") || strstr(e, " - ") || *e == '-';
    const bool product = strpbrk(e, "*/%") != NULL;
    const bool tight = behind[0] == ' ' && strchr("*/%", behind[1]);
    size_t n = r->body.len;
    while (n && r->body.data[n - 1] == ' ')
        n--;
    const char before = n ? r->body.data[n - 1] : '(';
    const bool open = strchr("(,{=<[", before) && !tight;
    if (r->comment || open || (!sum && !product))
        cfx__text_puts(&r->body, e);
    else if (!strncmp(behind, " * sizeof", 9))
        cfx__text_printf(&r->body, "(size_t)(%s)", e);
    else if ((before == '+' && !tight) || (before == '*' && !sum && !strpbrk(e, "/%") && !tight))
        cfx__text_puts(&r->body, e);
    else
        cfx__text_printf(&r->body, "(%s)", e);
}

/* Names of sizes in an expression are told at the head of the function. */
static void note_used(reading *r, const char *e) {
    const cfx__c *c = r->m->c;
    for (int i = 0; i < c->nvary && !r->comment; i++)
        for (const char *p = e; (p = strstr(p, c->sizes[i].name)); p++)
            if ((p == e || !is_name(p[-1])) && !is_name(p[strlen(c->sizes[i].name)]))
                r->m->used[i] = true;
}

static bool put_number(reading *r, const number *of) {
    merger *m = r->m;
    const char *behind = r->at[0] + of[0].len;
    bool same = true;
    for (int i = 1; i < m->n; i++)
        same &= of[i].whole ? of[i].i == of[0].i : of[i].f == of[0].f;
    if (same || ends_with(&r->body, "c->arena + ")) {
        cfx__text_add(&r->body, r->at[0], of[0].len);
        return true;
    }
    int64_t whole[CFX__C_TAKES];
    double floats[CFX__C_TAKES];
    for (int i = 0; i < m->n; i++) {
        whole[i] = of[i].i;
        floats[i] = of[i].f;
    }
    const char *e = of[0].whole ? fit(m, whole) : fit_floats(m, floats, of[0].narrow);
    if (!e)
        return false;
    note_used(r, e);
    if (of[0].whole && !strncmp(behind, " * sizeof", 9) && !r->comment)
        cfx__text_printf(&r->body, "(size_t)(%s)", e);
    else if (of[0].whole)
        put_expression(r, e, behind);
    else
        cfx__text_printf(&r->body, "(%s)", e);
    return true;
}

/* The function that has been read, with its sizes by name. */
static void end_function(reading *r) {
    merger *m = r->m;
    const char *head = r->body.len ? strstr(r->body.data, "_call *c) {\n") : NULL;
    const size_t n = head ? (size_t)(head - r->body.data) + 12 : 0;
    cfx__text_add(&r->out, r->body.data ? r->body.data : "", n);
    for (int i = 0; i < m->c->nvary && head; i++)
        if (m->used[i])
            cfx__text_printf(&r->out, "    const ptrdiff_t %s = c->%s;\n", m->c->sizes[i].name,
                             m->c->sizes[i].name);
    if (r->body.len > n)
        cfx__text_add(&r->out, r->body.data + n, r->body.len - n);
    r->body.len = 0;
    memset(m->used, 0, sizeof m->used);
}

static void put_char(reading *r) {
    const char *at = r->at[0];
    if (!strncmp(at, "/* ", 3)) {
        r->comment = true;
        r->node = at + 3;
    } else if (!strncmp(at, "*/", 2)) {
        r->comment = false;
    }
    cfx__text_putc(&r->body, *at);
    for (int i = 0; i < r->m->n; i++)
        r->at[i]++;
    if (ends_with(&r->body, "\n}\n"))
        end_function(r);
}

/* The text of all points as one; NULL, with what is refused noted. */
static const char *merged(merger *m, const char *const *texts) {
    reading r = {.m = m, .text = texts[0], .node = "the program"};
    bool fine = true;
    for (int i = 0; i < m->n; i++)
        r.at[i] = texts[i];
    while (*r.at[0] && fine) {
        number of[CFX__C_TAKES];
        of[0] = number_at(texts[0], r.at[0]);
        if (!of[0].len) {
            put_char(&r);
            continue;
        }
        for (int i = 1; i < m->n; i++)
            of[i] = number_at(texts[i], r.at[i]);
        fine = put_number(&r, of);
        for (int i = 0; i < m->n && fine; i++)
            r.at[i] += of[i].len;
        if (!fine) {
            int other = 1; /* one that differs */
            while (other < m->n - 1 && of[other].len == of[0].len &&
                   !memcmp(r.at[other], r.at[0], of[0].len))
                other++;
            const char *problem = cfx__text_format(
                "%.*s: a number that is %.*s at one size and %.*s at another has no form in C",
                (int)strcspn(r.node, ": "), r.node, (int)of[0].len, r.at[0], (int)of[other].len,
                r.at[other]);
            VEC_PUSH(m->c->problems, problem);
        }
    }
    end_function(&r);
    cfx__text_release(&r.body);
    const char *text = fine ? cfx__text_format("%s", r.out.data ? r.out.data : "") : NULL;
    cfx__text_release(&r.out);
    return text;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool merge_ports(merger *m, cfx__c_ports *ports, size_t *at) {
    int64_t v[CFX__C_TAKES];
    for (int p = 0; p < ports->n; p++) {
        cfx__c_port *port = &ports->of[p];
        const char **texts =
            cfx__arena_alloc(&m->c->memory, (size_t)(port->ndim + 1) * sizeof *texts);
        bool varies = false;
        for (int d = 0; d <= port->ndim; d++, ++*at) {
            for (int i = 0; i < m->n; i++) {
                v[i] = m->takes[i]->ports[*at];
                varies |= v[i] != v[0];
            }
            texts[d] = fit(m, v);
            if (!texts[d]) {
                const char *problem = cfx__text_format("%s: its size has no form in C", port->name);
                VEC_PUSH(m->c->problems, problem);
                return false;
            }
        }
        port->sizes = varies ? texts : NULL;
    }
    return true;
}

/* Notes what each place has to have room for, where that need not be most at the largest sizes:
 * what grows with all of them is bounded by their ranges. */
static void find_limits(merger *m) {
    const cfx__c_take *first = m->takes[0];
    int64_t v[CFX__C_TAKES];
    m->c->limits.len = 0;
    for (int i = 0; i < first->nrooms; i++) {
        for (int k = 0; k < m->n; k++)
            v[k] = m->takes[k]->rooms[i];
        const char *bytes = fit(m, v);
        bool known = !bytes || !strpbrk(bytes, "-%");
        for (size_t k = 0; k < m->c->limits.len && !known; k++)
            known = !strcmp(m->c->limits.data[k].bytes, bytes);
        const cfx__c_limit limit = {bytes, first->rooms[i]};
        if (!known)
            VEC_PUSH(m->c->limits, limit);
    }
}

const char *cfx__c_merged(cfx__c *c, int n, const cfx__c_take *const *takes) {
    merger *m = cfx__alloc0(sizeof *m);
    *m = (merger){.c = c, .n = n, .takes = takes};
    const char *texts[CFX__C_TAKES];
    find_terms(m);
    for (int i = 0; i < n; i++)
        texts[i] = takes[i]->text;
    const char *text = merged(m, texts);
    VEC_FREE(m->known);
    cfx__free(m);
    return text;
}

bool cfx__c_merge(cfx__c *c, int n, const cfx__c_take *const *takes) {
    merger *m = cfx__alloc0(sizeof *m);
    *m = (merger){.c = c, .n = n, .takes = takes};
    const char *texts[CFX__C_TAKES];
    size_t at = 0;
    find_terms(m);
    for (int i = 0; i < n; i++)
        texts[i] = takes[i]->text;
    const char *text = merged(m, texts);
    const bool fine = text && merge_ports(m, &c->inputs, &at) && merge_ports(m, &c->outputs, &at);
    if (fine) {
        c->out.len = 0;
        cfx__text_puts(&c->out, text);
        find_limits(m);
    }
    VEC_FREE(m->known);
    cfx__free(m);
    return fine;
}

/* Whether the sizes that entry i has are an expression, for the first points. */
static bool fits(merger *m, int points, int i) {
    int64_t v[CFX__C_TAKES];
    m->n = points;
    for (int k = 0; k < points; k++)
        v[k] = m->takes[k]->sizes[i];
    return fit(m, v) != NULL;
}

bool cfx__c_follows(cfx__c *c, int n, int first, const cfx__c_take *const *takes) {
    merger *m = cfx__alloc0(sizeof *m);
    const int entries = takes[0]->nsizes;
    bool *had = cfx__alloc0((size_t)entries + 1);
    bool fine = true;
    for (int i = 0; i < n; i++)
        fine &= takes[i]->nsizes == entries;
    *m = (merger){.c = c, .n = n, .takes = takes};
    find_terms(m);
    for (int i = 0; i < entries && fine; i++)
        had[i] = fits(m, first, i);
    m->known.len = 0;
    for (int i = 0; i < entries && fine; i++)
        fine = !had[i] || fits(m, n, i);
    VEC_FREE(m->known);
    cfx__free(had);
    cfx__free(m);
    return fine;
}
