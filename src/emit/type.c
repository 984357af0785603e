/* Annotations: a node holds a type as Python's repr() prints it; generated code spells it in names
 * that it can look up, and the parser turns those back. */
#include "emit.h"

typedef struct scan {
    const char *at, *end;
    cfx__text *out;
    bool read; /* from code to repr(); else the other way */
    int depth; /* of brackets; what lies deeper than CFX__MAX_NESTING is left out */
} scan;

static void type(scan *s);

static void blanks(scan *s) {
    while (s->at < s->end && *s->at == ' ')
        s->at++;
}

static bool next_is(scan *s, char c) {
    blanks(s);
    return s->at < s->end && *s->at == c;
}

static bool same(const char *a, size_t n, const char *b) {
    return strlen(b) == n && !memcmp(a, b, n);
}

/* Types of typing that are collections.abc's, whose name code has for them. */
static const char *const abstract[] = {
    "Callable", "Collection", "Container", "Generator", "Iterable", "Iterator", "Mapping",
    "MutableMapping", "MutableSequence", "MutableSet", "Reversible", "Sequence", "Sized",
};

/* Whether a name behind typing's, at `name`, is one of those. */
static bool is_abstract(const char *name, size_t n) {
    for (int i = 0; i < COUNT(abstract); i++)
        if (same(name, n, abstract[i]))
            return true;
    return false;
}

/* A name in code: torch's and Python's own as they are, others with underscores for dots. */
static void write_name(scan *s, const char *name, size_t n) {
    if (same(name, n, "None")) {
        cfx__text_puts(s->out, "NoneType");
    } else if (same(name, n, "...")) {
        cfx__text_putc(s->out, '_');
    } else if (same(name, n, "typing.Optional")) {
        cfx__text_puts(s->out, "typing_Union");
    } else if (same(name, n, "torch.device")) {
        cfx__text_puts(s->out, "device");
    } else {
        bool torch = n > 6 && !memcmp(name, "torch.", 6);
        if (n > 7 && !memcmp(name, "typing.", 7) && is_abstract(name + 7, n - 7)) {
            cfx__text_puts(s->out, "collections_abc_");
            name += 7, n -= 7;
        }
        for (size_t i = 0; i < n; i++) /* "f.<locals>.A" and 'A' are no names: underscores again */
            if (cfx__emit_is_word(name[i]) || (name[i] == '.' && torch))
                cfx__text_putc(s->out, name[i]);
            else if (name[i] == '.' || !i || name[i - 1] == '.' || cfx__emit_is_word(name[i - 1]))
                cfx__text_putc(s->out, '_');
    }
}

static void read_name(scan *s, const char *name, size_t n) {
    if (same(name, n, "_")) {
        cfx__text_puts(s->out, "...");
    } else if (same(name, n, "device")) {
        cfx__text_puts(s->out, "torch.device");
    } else if (n > 16 && !memcmp(name, "collections_abc_", 16)) {
        cfx__text_puts(s->out, "typing.");
        cfx__text_add(s->out, name + 16, n - 16);
    } else if (n > 7 && !memcmp(name, "typing_", 7)) {
        cfx__text_puts(s->out, "typing.");
        cfx__text_add(s->out, name + 7, n - 7);
    } else {
        cfx__text_add(s->out, name, n);
    }
}

/* The arguments in brackets; how many. *last is where the text of the last one starts. */
static int arguments(scan *s, size_t *last) {
    int n = 0;
    cfx__text_putc(s->out, '[');
    s->at++;
    while (s->at < s->end && !next_is(s, ']')) {
        if (n++)
            cfx__text_puts(s->out, s->read ? ", " : ",");
        *last = s->out->len;
        const char *before = s->at;
        type(s);
        if (next_is(s, ','))
            s->at++;
        else if (s->at == before)
            s->at++; /* no type at all: leave it out */
    }
    if (s->at < s->end)
        s->at++;
    return n;
}

/* repr() knows Union[X, None] as Optional[X] only: takes the text from `start` on for that. */
static void make_optional(scan *s, size_t start, size_t last) {
    static const char optional[] = "typing.Optional[", union_[] = "typing.Union[";
    size_t skip = start + strlen(union_);
    cfx__text t = {0};
    cfx__text_puts(&t, optional);
    cfx__text_add(&t, s->out->data + skip, last - 2 - skip);
    cfx__text_putc(&t, ']');
    s->out->len = start;
    cfx__text_add(s->out, t.data, t.len);
    cfx__text_release(&t);
}

static void one_type(scan *s) {
    blanks(s);
    const char *name = s->at;
    if (s->at < s->end && *s->at == '\'' && !s->read) /* 'List[A]', a text: one name */
        for (s->at++; s->at < s->end && *s->at++ != '\'';)
            ;
    else if (s->at < s->end && *s->at == '(') /* typing.Tuple[()] */
        while (s->at < s->end && *s->at++ != ')')
            ;
    else
        while (s->at < s->end && !strchr("[],| ", *s->at))
            s->at++;
    size_t n = (size_t)(s->at - name), start = s->out->len, last = 0;
    bool optional = !s->read && same(name, n, "typing.Optional");
    bool union_ = s->read && same(name, n, "typing_Union");
    if (s->read)
        read_name(s, name, n);
    else
        write_name(s, name, n);
    bool empty = !s->read && s->end - s->at >= 4 && !memcmp(s->at, "[()]", 4);
    if (empty) {
        s->at += 4; /* typing.Tuple[()] is typing_Tuple */
    } else if (s->at < s->end && *s->at == '[') {
        int count = arguments(s, &last);
        if (optional)
            cfx__text_puts(s->out, ",NoneType");
        cfx__text_putc(s->out, ']');
        if (union_ && count == 2 && !strcmp(s->out->data + last, "NoneType]"))
            make_optional(s, start, last);
    }
}

static void type(scan *s) {
    if (s->depth > CFX__MAX_NESTING) {
        s->at = s->end;
        return;
    }
    s->depth++;
    one_type(s);
    while (next_is(s, '|')) {
        s->at++;
        cfx__text_puts(s->out, s->read ? " | " : "|");
        size_t start = s->out->len;
        one_type(s);
        if (s->read && !strcmp(s->out->data + start, "NoneType")) {
            s->out->len = start;
            cfx__text_puts(s->out, "None");
        }
    }
    s->depth--;
}

void cfx__emit_type(cfx__text *out, const char *text) {
    cfx__text spelled = {0};
    scan s = {text, text + strlen(text), &spelled, false, 0};
    type(&s);
    cfx__text_line(out, spelled.data, spelled.len);
    cfx__text_release(&spelled);
}

void cfx__parse_type(cfx__text *out, const char *text, size_t len) {
    scan s = {text, text + len, out, true, 0};
    type(&s);
}

bool cfx__parse_is_type(const char *text, const char *end) {
    int depth = 0;
    for (const char *c = text; c < end; c++) {
        bool first = c == text || c[-1] == '[', last = c + 1 == end;
        bool joins = !first && !last && (*c == '|' || (*c == ' ' && (c[-1] == '|' || c[1] == '|')));
        if (*c == '[' && !first && c[-1] != ' ')
            depth++;
        else if (*c == ']' && c[-1] != ' ' && depth > 0)
            depth--;
        else if (!cfx__emit_is_word(*c) && *c != '.' && !joins &&
                 (first || !depth || (*c != ',' && *c != ' ')))
            return false;
    }
    return depth == 0;
}
