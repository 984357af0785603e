/* Tensors as text: what print(tensor) writes in PyTorch.
 *
 * Two passes over the elements that are shown: the first finds how wide a number is and whether
 * it needs an exponent (a format), the second writes them. Complex tensors have one format for
 * their real and one for their imaginary parts. */
#include "tensor.h"

#include "../value/later.h"

#include <math.h>

typedef struct printer {
    cfx__text out;
    const cfx_tensor *t;
    cfx_print_options opt;
    bool summarize;
} printer;

/* How all numbers of one tensor are written. */
typedef struct format {
    bool floating;
    bool integral;   /* all finite numbers are whole: "1." */
    bool scientific; /* "1.0000e+00" */
    int width;
} format;

/* One element: whole numbers stay exact in `i`. */
typedef struct number {
    double re, im;
    int64_t i;
} number;

static number element(const cfx_tensor *t, int64_t at) {
    size_t mark = cfx_scope_open();
    cfx_value v = cfx__tensor_get(t, at);
    number n = {.re = cfx_number(v), .i = v.tag == CFX_TAG_FLOAT ? 0 : cfx_integer(v)};
    n.im = v.tag == CFX_TAG_COMPLEX ? cfx_as_complex(v)->im : 0;
    cfx_scope_close(mark);
    return n;
}

/* ---- the elements that are shown ------------------------------------------------------------- */

/* Where the dots stand along a dimension: indices [head, tail) are left out. */
static void shown(const printer *p, int dim, int64_t *head, int64_t *tail) {
    int64_t n = p->t->shape[dim];
    bool dots = p->summarize && n / 2 >= p->opt.edge_items && n > 2 * p->opt.edge_items;
    *head = dots ? p->opt.edge_items : n;
    *tail = dots ? n - p->opt.edge_items : n;
}

typedef struct survey {
    bool any, whole;
    double min, max; /* of the absolute values that are finite and not 0 */
} survey;

typedef void look_fn(const printer *p, number n, void *into);

static void look(const printer *p, int dim, int64_t base, look_fn *fn, void *into) {
    if (dim == p->t->ndim) {
        fn(p, element(p->t, base), into);
        return;
    }
    int64_t head, tail;
    shown(p, dim, &head, &tail);
    for (int64_t i = 0; i < p->t->shape[dim]; i++) {
        if (i == head)
            i = tail;
        look(p, dim + 1, base * p->t->shape[dim] + i, fn, into);
    }
}

static void survey_one(survey *s, double x) {
    if (!isfinite(x) || x == 0)
        return;
    double size = fabs(x);
    s->min = s->any ? fmin(s->min, size) : size;
    s->max = s->any ? fmax(s->max, size) : size;
    s->whole = (!s->any || s->whole) && x == ceil(x);
    s->any = true;
}

static void survey_both(const printer *p, number n, void *into) {
    (void)p;
    survey *s = into;
    survey_one(&s[0], n.re);
    survey_one(&s[1], n.im);
}

/* ---- one number ------------------------------------------------------------------------------ */

/* Writes a float as Python formats it: as C does, except that a NaN has no sign. */
static int float_text(char *buf, size_t size, double x, int precision, bool scientific) {
    if (isnan(x))
        return snprintf(buf, size, "nan");
    return cfx__number_print(buf, size, scientific ? "%.*e" : "%.*f", precision, x);
}

enum { LONGEST_FLOAT = 400 }; /* DBL_MAX has 309 digits before the point */

static int format_float(char *buf, const printer *p, const format *f, double x) {
    bool dot = f->integral && !f->scientific;
    int n = float_text(buf, LONGEST_FLOAT, x, dot ? 0 : p->opt.precision, f->scientific);
    if (dot && isfinite(x))
        buf[n++] = '.', buf[n] = 0;
    return n;
}

static int format_number(char *buf, const printer *p, const format *f, number n) {
    if (f->floating)
        return format_float(buf, p, f, n.re);
    if (p->t->dtype == CFX_BOOL)
        return snprintf(buf, LONGEST_FLOAT, "%s", n.i ? "True" : "False");
    if (p->t->dtype == CFX_U64)
        return snprintf(buf, LONGEST_FLOAT, "%llu", (unsigned long long)n.i);
    return snprintf(buf, LONGEST_FLOAT, "%lld", (long long)n.i);
}

static void widen(const printer *p, format *f, number n) {
    char buf[LONGEST_FLOAT];
    if (f->floating && (!isfinite(n.re) || n.re == 0))
        return; /* PyTorch does not count these */
    int len = format_number(buf, p, f, n);
    if (len > f->width)
        f->width = len;
}

static void widen_both(const printer *p, number n, void *into) {
    format *f = into;
    widen(p, &f[0], n);
    if (cfx__dtype_is_complex(p->t->dtype))
        widen(p, &f[1], (number){.re = n.im});
}

static bool is_floating(const cfx_tensor *t) {
    return t->quantizer || cfx__dtype_is_floating(t->dtype) || cfx__dtype_is_complex(t->dtype);
}

static void choose(const printer *p, format *f, const survey *s) {
    f->width = 1;
    f->floating = is_floating(p->t);
    f->integral = !s->any || s->whole;
    if (!s->any)
        return;
    f->scientific = s->max / s->min > 1000. || s->max > 1e8 || s->min < 1e-4;
}

static void pad(printer *p, int n) {
    while (n-- > 0)
        cfx__text_putc(&p->out, ' ');
}

static void put_number(printer *p, const format *f, number n) {
    char buf[LONGEST_FLOAT];
    pad(p, f->width - format_number(buf, p, f, n));
    cfx__text_puts(&p->out, buf);
    if (cfx__dtype_is_complex(p->t->dtype)) {
        format_number(buf, p, &f[1], (number){.re = n.im});
        if (buf[0] != '-')
            cfx__text_putc(&p->out, '+');
        cfx__text_puts(&p->out, buf);
        cfx__text_putc(&p->out, 'j');
    }
}

/* ---- brackets -------------------------------------------------------------------------------- */

static void put_vector(printer *p, int dim, int64_t base, int indent, const format *f) {
    int length = f->width + 2 + (cfx__dtype_is_complex(p->t->dtype) ? f[1].width + 1 : 0);
    int per_line = (p->opt.linewidth - indent) / length;
    if (per_line < 1)
        per_line = 1;
    int64_t head, tail, n = p->t->shape[dim], place = 0;
    shown(p, dim, &head, &tail);
    for (int64_t i = 0; i < n; i++, place++) {
        if (place && place % per_line == 0) {
            cfx__text_puts(&p->out, ",\n");
            pad(p, indent + 1);
        } else if (place) {
            cfx__text_puts(&p->out, ", ");
        }
        if (i == head) { /* the dots take the place of one number */
            cfx__text_puts(&p->out, " ...");
            i = tail - 1;
            head = n;
        } else {
            put_number(p, f, element(p->t, base * n + i));
        }
    }
}

static void put_dim(printer *p, int dim, int64_t base, int indent, const format *f) {
    int left = p->t->ndim - dim;
    if (left == 0) {
        put_number(p, f, element(p->t, 0));
        return;
    }
    cfx__text_putc(&p->out, '[');
    if (left == 1) {
        put_vector(p, dim, base, indent, f);
    } else {
        int64_t head, tail, n = p->t->shape[dim];
        shown(p, dim, &head, &tail);
        for (int64_t i = 0; i < n; i++) {
            if (i) {
                cfx__text_putc(&p->out, ',');
                for (int k = 1; k < left; k++)
                    cfx__text_putc(&p->out, '\n');
                pad(p, indent + 1);
            }
            if (i == head) {
                cfx__text_puts(&p->out, "...");
                i = tail - 1;
                head = n;
            } else {
                put_dim(p, dim + 1, base * n + i, indent + 1, f);
            }
        }
    }
    cfx__text_putc(&p->out, ']');
}

static void put_data(printer *p, int indent) {
    survey s[2] = {{0}};
    format f[2] = {{0}};
    if (is_floating(p->t))
        look(p, 0, 0, survey_both, s);
    choose(p, &f[0], &s[0]);
    choose(p, &f[1], &s[1]);
    look(p, 0, 0, widen_both, f);
    for (int i = 0; i < 2 && p->opt.sci_mode; i++) /* as wide as without it, as in PyTorch */
        f[i].scientific = p->opt.sci_mode > 0;
    put_dim(p, 0, 0, indent, f);
}

/* ---- what follows the numbers ---------------------------------------------------------------- */

/* Each fact goes on the line where the numbers end, or on a new one where it would not fit. */
typedef struct tail {
    printer *p;
    int indent;
    size_t line; /* length of the last line as PyTorch counts it */
} tail;

static void put_fact(tail *k, const char *fact) {
    size_t len = strlen(fact);
    if (k->line + len + 2 > (size_t)k->p->opt.linewidth) {
        cfx__text_puts(&k->p->out, ",\n");
        pad(k->p, k->indent);
        k->line = (size_t)k->indent + len;
    } else {
        cfx__text_puts(&k->p->out, ", ");
        k->line += len + 2;
    }
    cfx__text_puts(&k->p->out, fact);
}

static const char *device_text(cfx_device d) {
    const char *name = d.type == CFX_CUDA ? "cuda" : d.type == CFX_META ? "meta" : "cpu";
    return d.index < 0 || d.type != CFX_CUDA ? cfx__text_format("device='%s'", name)
                                             : cfx__text_format("device='%s:%d'", name, d.index);
}

static const char *size_text(const cfx_tensor *t) {
    cfx__text s = {0};
    cfx__text_puts(&s, "size=(");
    for (int i = 0; i < t->ndim; i++)
        cfx__text_printf(&s, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    cfx__text_puts(&s, t->ndim == 1 ? ",)" : ")");
    return cfx__text_take(&s);
}

static void put_quantizer(tail *k, const cfx_tensor *t) {
    const cfx__quantizer *q = t->quantizer;
    put_fact(k, cfx__text_format("quantization_scheme=torch.%s", cfx__quantizer_scheme(q)));
    if (!q->scales) {
        put_fact(k, cfx__text_format("scale=%s", cfx_repr(q->scale)));
        put_fact(k, cfx__text_format("zero_point=%lld", (long long)q->zero_point));
        return;
    }
    put_fact(k, cfx__text_format("scale=%s", cfx_tensor_str(q->scales)));
    put_fact(k, cfx__text_format("zero_point=%s", cfx_tensor_str(q->zero_points)));
    put_fact(k, cfx__text_format("axis=%d", q->axis));
}

static void put_facts(printer *p, int indent, bool hidden) {
    const cfx_tensor *t = p->t;
    size_t start = p->out.len;
    while (start && p->out.data[start - 1] != '\n')
        start--;
    tail k = {p, indent, p->out.len - start + 2}; /* PyTorch counts two more than there are */
    if (t->device.type != CFX_CPU)
        put_fact(&k, device_text(t->device));
    bool plain = t->dtype == CFX_F32 || t->dtype == CFX_C64 || t->dtype == CFX_I64 ||
                 t->dtype == CFX_BOOL;
    if (hidden || t->numel == 0 || t->quantizer) {
        if (hidden || t->ndim != 1 || t->quantizer)
            put_fact(&k, size_text(t));
        plain = t->dtype == CFX_F32; /* no number is there to tell the dtype by */
    }
    if (!plain)
        put_fact(&k, cfx__text_format("dtype=torch.%s", cfx_dtype_name(t->dtype)));
    if (t->quantizer)
        put_quantizer(&k, t);
    if (t->layout == CFX_SPARSE_COO)
        put_fact(&k, "layout=torch.sparse_coo");
    const char *grad_fn = t->tape || t->base ? cfx__later_rooms.grad_fn(t) : NULL;
    if (grad_fn)
        put_fact(&k, cfx__text_format("grad_fn=<%s>", grad_fn));
    else if (t->head.flags & CFX__GRAD)
        put_fact(&k, "requires_grad=True");
}

const char *cfx_tensor_str_with(const cfx_tensor *t, cfx_print_options options) {
    if (!t)
        return "None";
    if (cfx__obj_is_bad(t))
        return "<bad tensor>";
    if (t->head.flags & CFX__TRACED) {
        const cfx_node *n = cfx__later_rooms.traced_node(cfx_tensor_value((cfx_tensor *)t));
        return cfx__text_format("Proxy(%s)", cfx__later_rooms.node_name(n));
    }
    printer p = {.t = t, .opt = options};
    if (p.opt.precision <= 0)
        p.opt.precision = 4;
    if (p.opt.precision > 60)
        p.opt.precision = 60; /* what a number's buffer can hold */
    if (p.opt.linewidth <= 0)
        p.opt.linewidth = 80;
    if (p.opt.threshold <= 0)
        p.opt.threshold = 1000;
    if (p.opt.edge_items <= 0)
        p.opt.edge_items = 3;
    p.summarize = t->numel > p.opt.threshold;

    size_t mark = cfx_scope_open();
    if (unlikely(t->head.flags & CFX__MIRROR))
        cfx__later_rooms.refresh(t);
    bool hidden = t->head.flags & CFX__FAKE || (!t->data && t->numel > 0);
    cfx__text_puts(&p.out, hidden && t->device.type != CFX_META ? "FakeTensor(" : "tensor(");
    int indent = (int)p.out.len;
    if (hidden)
        cfx__text_puts(&p.out, "...");
    else if (t->numel == 0)
        cfx__text_puts(&p.out, "[]");
    else
        put_data(&p, indent);
    put_facts(&p, indent, hidden);
    cfx__text_putc(&p.out, ')');
    cfx_scope_close(mark);
    return cfx__text_take(&p.out);
}

const char *cfx_tensor_str(const cfx_tensor *t) {
    return cfx_tensor_str_with(t, (cfx_print_options){0});
}
