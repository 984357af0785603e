/* Python literals: text to values, the inverse of repr.c.
 *
 * Invariant: what cfx_value_repr writes for a value without tensors, nodes or operators reads back
 * as an equal value of the same tags. Start at cfx__value_literal. */
#include "value.h"

#include <ctype.h>
#include <math.h>

enum { MAX_DEPTH = 200 }; /* of containers in containers */

typedef struct reader {
    const char *p;
    int depth;
} reader;

static bool read_value(reader *r, cfx_value *out);

static void skip_blanks(reader *r) {
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')
        r->p++;
}

static bool eat(reader *r, char c) {
    skip_blanks(r);
    if (*r->p != c)
        return false;
    r->p++;
    return true;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Eats a whole word, dots included. */
static bool eat_word(reader *r, const char *word) {
    size_t n = strlen(word);
    if (strncmp(r->p, word, n) || is_word(r->p[n]) || r->p[n] == '.')
        return false;
    r->p += n;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Digits with their sign taken already; *imaginary when a j follows. */
static bool read_number(reader *r, bool negative, cfx_value *out, bool *imaginary) {
    *imaginary = false;
    double f = 0;
    bool whole = false;
    if (eat_word(r, "inf") || eat_word(r, "math.inf")) {
        f = INFINITY;
    } else if (!strncmp(r->p, "infj", 4) && !is_word(r->p[4])) {
        f = INFINITY;
        r->p += 3;
    } else if (eat_word(r, "nan") || eat_word(r, "math.nan")) {
        f = NAN;
    } else if (!strncmp(r->p, "nanj", 4) && !is_word(r->p[4])) {
        f = NAN;
        r->p += 3;
    } else {
        const char *start = r->p;
        whole = true;
        while (isdigit((unsigned char)*r->p) || *r->p == '.' || *r->p == 'e' || *r->p == 'E' ||
               ((*r->p == '+' || *r->p == '-') && r->p > start && strchr("eE", r->p[-1]))) {
            whole = whole && isdigit((unsigned char)*r->p);
            r->p++;
        }
        size_t n = (size_t)(r->p - start);
        if (!n || (n == 1 && *start == '.') || !(isdigit((unsigned char)*start) || *start == '.')) {
            r->p = start;
            return false;
        }
        f = cfx__value_read_float(start, n);
        if (whole && *r->p != 'j') {
            uint64_t i = 0, most = (uint64_t)INT64_MAX + negative;
            for (const char *d = start; d < r->p; d++) {
                uint64_t digit = (uint64_t)(*d - '0');
                if (i > (most - digit) / 10)
                    return false; /* no int64 */
                i = i * 10 + digit;
            }
            *out = cfx_int(negative ? (int64_t)(0 - i) : (int64_t)i);
            return !is_word(*r->p);
        }
    }
    *imaginary = *r->p == 'j';
    r->p += *imaginary;
    *out = cfx_float(negative ? -f : f);
    return !is_word(*r->p);
}

/* A number, or a sum of a number and an imaginary one. */
static bool read_complex(reader *r, cfx_value *out) {
    bool negative = *r->p == '-', imaginary;
    r->p += negative;
    if (!read_number(r, negative, out, &imaginary))
        return false;
    if (imaginary) {
        *out = cfx_complex_value(0, out->f_);
        return true;
    }
    if (*r->p != '+' && *r->p != '-')
        return true;
    cfx_value im;
    double re = negative ? -fabs(cfx_number(*out)) : cfx_number(*out); /* -0 keeps its sign */
    negative = *r->p++ == '-';
    if (!read_number(r, negative, &im, &imaginary) || !imaginary)
        return false;
    *out = cfx_complex_value(re, im.f_);
    return true;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool read_hex(reader *r, int digits, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digits; i++, r->p++) {
        if (!isxdigit((unsigned char)*r->p))
            return false;
        int c = tolower((unsigned char)*r->p);
        *out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return *out <= 0x10ffff;
}

/* What stands after a backslash. */
static bool read_escape(reader *r, cfx__text *t) {
    static const char plain[] = "\\\\''\"\"n\nt\tr\ra\ab\bf\fv\v0\0";
    char c = *r->p++;
    if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t code;
        if (!read_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code))
            return false;
        cfx__utf8_put(t, code);
        return true;
    }
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (plain[i] == c) {
            cfx__text_putc(t, plain[i + 1]);
            return true;
        }
    return false;
}

static bool read_string(reader *r, cfx_value *out) {
    char quote = *r->p++;
    cfx__text t = {0};
    bool good = true;
    while (good && *r->p && *r->p != quote) {
        if (*r->p == '\\') {
            r->p++;
            good = read_escape(r, &t);
        } else {
            cfx__text_putc(&t, *r->p++);
        }
    }
    good = good && *r->p == quote;
    if (good) {
        r->p++;
        *out = cfx_string_value_n(t.data ? t.data : "", t.len);
    }
    cfx__text_release(&t);
    return good;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* Items up to `close`, which is eaten. *comma: whether one stood after the first item. */
static bool read_items(reader *r, char close, cfx_list *list, bool *comma) {
    *comma = false;
    while (!eat(r, close)) {
        cfx_value item;
        if (!read_value(r, &item))
            return false;
        cfx_list_append(list, item);
        if (eat(r, ','))
            *comma = true;
        else if (*r->p != close)
            return false;
    }
    return true;
}

static bool read_list(reader *r, cfx_value *out) {
    bool tuple = *r->p++ == '(', comma;
    cfx_list *list = cfx__list_make(0, NULL);
    if (!read_items(r, tuple ? ')' : ']', list, &comma))
        return false;
    if (tuple && list->len == 1 && !comma)
        *out = list->items[0]; /* a value in parentheses */
    else
        *out = tuple ? cfx_tuple_value(list->len, list->items)
                     : cfx_list_value(list->len, list->items);
    return true;
}

static bool read_dict(reader *r, cfx_value *out) {
    r->p++;
    cfx_dict *d = cfx_dict_new();
    while (!eat(r, '}')) {
        cfx_value key, value;
        if (!read_value(r, &key) || !eat(r, ':') || !read_value(r, &value))
            return false;
        cfx_dict_put(d, key, value);
        if (!eat(r, ',') && *r->p != '}')
            return false;
    }
    *out = cfx_dict_value(d);
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The arguments of slice(...), complex(...), float(...): up to three values. */
static bool read_call(reader *r, cfx_value *v, int *n) {
    bool comma;
    cfx_list *list = cfx__list_make(0, NULL);
    if (!eat(r, '(') || !read_items(r, ')', list, &comma) || list->len < 1 || list->len > 3)
        return false;
    *n = (int)list->len;
    for (int i = 0; i < 3; i++)
        v[i] = i < *n ? list->items[i] : cfx_none();
    return true;
}

/* device(type='cuda', index=0), device('cuda:0') */
static bool read_device(reader *r, cfx_value *out) {
    cfx_value name, index;
    cfx_device d;
    if (!eat(r, '('))
        return false;
    skip_blanks(r);
    if (!strncmp(r->p, "type=", 5))
        r->p += 5;
    if (!read_value(r, &name) || !cfx_text(name) || !cfx__device_parse(cfx_text(name), &d))
        return false;
    if (eat(r, ',')) {
        skip_blanks(r);
        if (!strncmp(r->p, "index=", 6))
            r->p += 6;
        if (!read_value(r, &index) || index.tag != CFX_TAG_INT || index.i_ < 0 ||
            index.i_ > INT8_MAX)
            return false;
        d.index = (int16_t)index.i_;
    }
    *out = cfx_device_value(d);
    return eat(r, ')');
}

/* torch.float32 and the other constants of that module. */
static bool read_torch(reader *r, cfx_value *out) {
    static const struct {
        const char *name;
        cfx_tag tag;
        int number;
    } words[] = {{"strided", CFX_TAG_LAYOUT, CFX_STRIDED},
                 {"sparse_coo", CFX_TAG_LAYOUT, CFX_SPARSE_COO},
                 {"contiguous_format", CFX_TAG_MEMORY_FORMAT, CFX_CONTIGUOUS},
                 {"preserve_format", CFX_TAG_MEMORY_FORMAT, CFX_PRESERVE},
                 {"channels_last", CFX_TAG_MEMORY_FORMAT, CFX_CHANNELS_LAST},
                 {"channels_last_3d", CFX_TAG_MEMORY_FORMAT, CFX_CHANNELS_LAST_3D}};
    r->p += strlen("torch.");
    if (eat_word(r, "device"))
        return read_device(r, out);
    for (int i = 0; i < COUNT(words); i++)
        if (eat_word(r, words[i].name)) {
            *out = cfx_none();
            out->tag = words[i].tag;
            out->i_ = words[i].number;
            return true;
        }
    char name[24];
    size_t n = 0;
    while (is_word(r->p[n]) && n < sizeof name - 1) {
        name[n] = r->p[n];
        n++;
    }
    name[n] = 0;
    cfx_dtype d;
    if (is_word(r->p[n]) || !cfx_dtype_parse(name, &d))
        return false;
    r->p += n;
    *out = cfx_dtype_value(d);
    return true;
}

static bool read_word(reader *r, cfx_value *out) {
    cfx_value v[3];
    int n;
    if (eat_word(r, "None")) {
        *out = cfx_none();
    } else if (eat_word(r, "True")) {
        *out = cfx_bool(true);
    } else if (eat_word(r, "False")) {
        *out = cfx_bool(false);
    } else if (eat_word(r, "Ellipsis")) {
        *out = cfx_ellipsis();
    } else if (!strncmp(r->p, "torch.", 6)) {
        return read_torch(r, out);
    } else if (eat_word(r, "device")) {
        return read_device(r, out);
    } else if (eat_word(r, "slice")) {
        if (!read_call(r, v, &n))
            return false;
        *out = n == 1 ? cfx_slice_value(cfx_none(), v[0], cfx_none())
                      : cfx_slice_value(v[0], v[1], v[2]);
    } else if (eat_word(r, "complex")) {
        if (!read_call(r, v, &n) || n > 2 || !cfx_is_number(v[0]))
            return false;
        *out = cfx_complex_value(cfx_number(v[0]), n > 1 ? cfx_number(v[1]) : 0);
    } else if (eat_word(r, "float")) {
        if (!read_call(r, v, &n) || n != 1)
            return false;
        const char *text = cfx_text(v[0]);
        if (!text) {
            *out = cfx_float(cfx_number(v[0]));
            return cfx_is_number(v[0]);
        }
        reader inner = {text, 0};
        bool imaginary, negative = *text == '-';
        inner.p += negative;
        if (!read_number(&inner, negative, out, &imaginary) || imaginary || *inner.p)
            return false;
        *out = cfx_float(cfx_number(*out));
    } else {
        return read_complex(r, out);
    }
    return true;
}

static bool read_value(reader *r, cfx_value *out) {
    skip_blanks(r);
    if (r->depth == MAX_DEPTH)
        return false;
    r->depth++;
    bool good;
    if (*r->p == '(' || *r->p == '[')
        good = read_list(r, out);
    else if (*r->p == '{')
        good = read_dict(r, out);
    else if (*r->p == '\'' || *r->p == '"')
        good = read_string(r, out);
    else if (!strncmp(r->p, "...", 3)) {
        r->p += 3;
        *out = cfx_ellipsis();
        good = true;
    } else
        good = read_word(r, out);
    r->depth--;
    return good;
}

bool cfx__value_literal(const char **at, cfx_value *out) {
    reader r = {*at, 0};
    bool good = read_value(&r, out);
    *at = r.p;
    return good;
}
