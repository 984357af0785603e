/* einsum: a sum of products described by letters. The equation is read, operands are brought to one
 * order of dims (results first, then sums) and contracted in pairs. */
#include <cfx/ops.h>

#include "../sizes.h"
#include "products.h"

CFX_FAMILY(LINEAR);

enum { LETTERS = 52, ELLIPSIS = 52, OPERANDS = 64 };

typedef struct {
    uint8_t label[CFX_MAX_DIMS + 1];
    int n;
    bool dots;
} subscripts;

typedef struct {
    int count; /* operands */
    subscripts in[OPERANDS];
    int seen[LETTERS]; /* how often a letter stands in the operands */
    int at[LETTERS];   /* its dim in the common order, or -1 */
    int dots, dots_at; /* dims that ellipses cover, and where they are in the common order */
    int out, all;      /* dims of the result, and of the common order */
} equation;

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c - 'a' + 26; }
static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }
static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
static bool is_subscript(cfx_op_call *c, const char *text, const char *p) {
    if (!is_letter(*p))
        op_fail(c,
                "einsum(): invalid subscript given at index %d in the equation string, "
                "subscripts must be in [a-zA-Z]",
                (int)(p - text));
    return is_letter(*p);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_operands(cfx_op_call *c, equation *e, const char *text, const char *end) {
    int op = 0;
    for (const char *p = text; p < end; p++) {
        subscripts *s = &e->in[op];
        if (*p == ' ')
            continue;
        if (*p == ',') {
            if (++op >= e->count) {
                op_fail(c, "einsum(): fewer operands were provided than specified in the equation");
                return false;
            }
            continue;
        }
        if (s->n > CFX_MAX_DIMS) {
            op_fail(c, "einsum(): too many subscripts for operand %d", op);
            return false;
        }
        if (*p == '.') {
            if (s->dots) {
                op_fail(
                    c, "einsum(): found '.' for operand %d for which an ellipsis was already found",
                    op);
                return false;
            }
            if (end - p < 3 || p[1] != '.' || p[2] != '.') {
                op_fail(c, "einsum(): found '.' for operand %d that is not part of any ellipsis",
                        op);
                return false;
            }
            p += 2;
            s->label[s->n++] = ELLIPSIS;
            s->dots = true;
            continue;
        }
        if (!is_subscript(c, text, p))
            return false;
        s->label[s->n++] = (uint8_t)label_of(*p);
    }
    if (op != e->count - 1)
        op_fail(c, "einsum(): more operands were provided than specified in the equation");
    return op == e->count - 1;
}

/* Counts letters and the dims that ellipses stand for. */
static bool count_labels(cfx_op_call *c, equation *e) {
    for (int i = 0; i < e->count; i++) {
        const subscripts *s = &e->in[i];
        const int ndim = arg_item(c, 1, i)->ndim, n = s->n - s->dots;
        for (int k = 0; k < s->n; k++)
            if (s->label[k] != ELLIPSIS)
                e->seen[s->label[k]]++;
        if (s->dots && ndim - n > e->dots)
            e->dots = ndim - n;
        if (s->dots ? n > ndim : n != ndim) {
            op_fail(c,
                    "einsum(): the number of subscripts in the equation (%d) %s the number of "
                    "dimensions (%d) for operand %d%s",
                    n, s->dots ? "is more than" : "does not match", ndim, i,
                    s->dots ? "" : " and no ellipsis was given");
            return false;
        }
    }
    return true;
}

static bool read_result(cfx_op_call *c, equation *e, const char *text, const char *rhs) {
    bool dots = false;
    for (const char *p = rhs; *p; p++) {
        if (*p == ' ')
            continue;
        if (*p == '.') {
            if (dots) {
                op_fail(c,
                        "einsum(): found '.' for output but an ellipsis (...) was already found");
                return false;
            }
            if (p[1] != '.' || p[2] != '.') {
                op_fail(c, "einsum(): found '.' for output that is not part of any ellipsis (...)");
                return false;
            }
            p += 2;
            e->dots_at = e->all;
            e->all += e->dots;
            dots = true;
            continue;
        }
        if (!is_subscript(c, text, p))
            return false;
        int label = label_of(*p);
        if (!e->seen[label] || e->at[label] >= 0) {
            op_fail(c, "einsum(): output subscript %c%s", *p,
                    e->at[label] >= 0 ? " appears more than once in the output"
                                      : " does not appear in the equation for any input operand");
            return false;
        }
        e->at[label] = e->all++;
    }
    e->out = e->all;
    if (!dots) {
        e->dots_at = e->all;
        e->all += e->dots;
    }
    return true;
}

static bool read_equation(cfx_op_call *c, equation *e) {
    const char *text = arg_text(c, 0), *arrow = strstr(text, "->");
    if (!read_operands(c, e, text, arrow ? arrow : text + strlen(text)) || !count_labels(c, e))
        return false;
    for (int i = 0; i < LETTERS; i++)
        e->at[i] = -1;
    if (arrow) {
        if (!read_result(c, e, text, arrow + 2))
            return false;
    } else { /* ellipses, then letters that appear once */
        e->all = e->dots;
        for (int i = 0; i < LETTERS; i++)
            if (e->seen[i] == 1)
                e->at[i] = e->all++;
        e->out = e->all;
    }
    for (int i = 0; i < LETTERS; i++)
        if (e->seen[i] && e->at[i] < 0)
            e->at[i] = e->all++;
    if (e->all > CFX_MAX_DIMS)
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
    return e->all <= CFX_MAX_DIMS;
}

/* ---- contracting ----------------------------------------------------------------------------- */

/* Sizes met so far, and in how many operands a dim is more than 1. */
typedef struct {
    int64_t letter[LETTERS], dots[CFX_MAX_DIMS];
    int count[CFX_MAX_DIMS];
} extents;

static bool note_letter(cfx_op_call *c, const equation *e, extents *x, int i, int label,
                        int64_t size) {
    if (size == 1)
        return true;
    if (x->letter[label] != 1 && x->letter[label] != size) {
        op_fail(c,
                "einsum(): subscript %c has size %lld for operand %d which does not broadcast with "
                "previously seen size %lld",
                letter_of(label), (long long)size, i, (long long)x->letter[label]);
        return false;
    }
    x->letter[label] = size;
    x->count[e->at[label]]++;
    return true;
}

static bool note_dots(cfx_op_call *c, const equation *e, extents *x, int i, int dim, int j,
                      int64_t size) {
    if (size == 1)
        return true;
    if (x->dots[j] != 1 && x->dots[j] != size) {
        op_fail(c,
                "einsum(): dimension %d covered by ellipsis in operand %dhas size %lld which does "
                "not broadcast with previously seen ellipsis with size %lld for the respective "
                "dimension",
                dim, i, (long long)size, (long long)x->dots[j]);
        return false;
    }
    x->dots[j] = size;
    x->count[e->dots_at + j]++;
    return true;
}

/* Operand i with its dims in the common order; repeated letters become diagonals. */
static cfx_tensor *align(cfx_op_call *c, const equation *e, extents *x, int i) {
    cfx_tensor *t = arg_item(c, 1, i);
    const subscripts *s = &e->in[i];
    const int covered = t->ndim - (s->n - 1);
    int64_t order[CFX_MAX_DIMS];
    int dim = 0;
    for (int k = 0; k < e->all; k++)
        order[k] = -1;
    for (int k = 0; k < s->n; k++) {
        int label = s->label[k];
        if (label == ELLIPSIS) {
            for (int j = e->dots - covered; j < e->dots; j++) {
                if (!note_dots(c, e, x, i, dim, j, t->shape[dim]))
                    return &cfx__tensor_bad;
                order[e->dots_at + j] = dim++;
            }
        } else if (order[e->at[label]] < 0) {
            if (!note_letter(c, e, x, i, label, t->shape[dim]))
                return &cfx__tensor_bad;
            order[e->at[label]] = dim++;
        } else {
            int64_t before = order[e->at[label]];
            if (t->shape[dim] != t->shape[before]) {
                op_fail(c,
                        "einsum(): subscript %c is repeated for operand %d but the sizes don't "
                        "match, %lld != %lld",
                        letter_of(label), i, (long long)t->shape[dim], (long long)t->shape[before]);
                return &cfx__tensor_bad;
            }
            t = cfx_movedim(cfx_diagonal(t, 0, before, dim), -1, before);
            if (op_failed())
                return t;
        }
    }
    for (int k = 0; k < e->all; k++)
        if (order[k] < 0) {
            t = cfx_unsqueeze(t, dim);
            order[k] = dim++;
        }
    return cfx_permute(t, cfx_ints_value(e->all, order));
}

/* The product of two operands, summed over the dims that no other operand has. */
static cfx_tensor *contract(cfx_op_call *c, const equation *e, extents *x, cfx_tensor *a,
                            cfx_tensor *b) {
    int64_t only_a[CFX_MAX_DIMS], only_b[CFX_MAX_DIMS];
    int na = 0, nb = 0;
    uint64_t both = 0;
    for (int d = e->out; d < e->all; d++) {
        if (a->shape[d] != 1 && b->shape[d] != 1) {
            if (--x->count[d] == 1) {
                both |= (uint64_t)1 << d;
                x->count[d] = 0;
            }
        } else if (x->count[d] == 1 && (a->shape[d] != 1 || b->shape[d] != 1)) {
            if (a->shape[d] != 1)
                only_a[na++] = d;
            else
                only_b[nb++] = d;
            x->count[d] = 0;
        }
    }
    if (na)
        a = cfx_sum(a, cfx_ints_value(na, only_a), cfx_bool(true));
    if (nb)
        b = cfx_sum(b, cfx_ints_value(nb, only_b), cfx_bool(true));
    return sum_of_products(c, a, b, both);
}

/* Contracts operands in the order of the path, or from left to right. */
static cfx_tensor *contract_all(cfx_op_call *c, const equation *e, extents *x, cfx_tensor **t) {
    const bool path = !arg_is_none(c, 2);
    int n = e->count;
    for (int step = 0; n > 1 && !op_failed(); step++) {
        int64_t i = 0, j = 1;
        if (path) {
            i = cfx_integer(cfx_as_list(c->args[2])->items[2 * step]);
            j = cfx_integer(cfx_as_list(c->args[2])->items[2 * step + 1]);
            if (j < i) {
                int64_t swap = i;
                i = j, j = swap;
            }
            if (i == j || i < 0 || j >= n) {
                op_fail(c, "einsum(): invalid contraction (%lld, %lld%s", (long long)i,
                        (long long)j,
                        i == j ? ") cannot contract an operand with itself"
                               : ") operand index is out of bounds");
                return &cfx__tensor_bad;
            }
        }
        cfx_tensor *y = contract(c, e, x, t[i], t[j]);
        memmove(t + j, t + j + 1, (size_t)(n - 1 - j) * sizeof *t);
        memmove(t + i, t + i + 1, (size_t)(n - 2 - i) * sizeof *t);
        n -= 2;
        if (path) {
            t[n++] = y;
        } else {
            memmove(t + 1, t, (size_t)n * sizeof *t);
            t[0] = y;
            n++;
        }
    }
    return t[0];
}

static void decompose_einsum(cfx_op_call *c) {
    const int64_t n = arg_count(c, 1);
    if (!n || n > OPERANDS) {
        op_fail(c, "einsum(): must provide at least one operand");
        return;
    }
    const int64_t steps = n == 1 ? 1 : 2 * (n - 1);
    if (!arg_is_none(c, 2) && arg_count(c, 2) != steps) {
        op_fail(c,
                "einsum(): expected contraction path given in path parameter to have size %lld but "
                "got %lld",
                (long long)steps, (long long)arg_count(c, 2));
        return;
    }
    equation *e = scratch(c, CFX_U8, sizeof *e);
    if (!e)
        return;
    *e = (equation){.count = (int)n};
    if (!read_equation(c, e))
        return;
    extents x = {0};
    for (int i = 0; i < LETTERS; i++)
        x.letter[i] = 1;
    for (int i = 0; i < CFX_MAX_DIMS; i++)
        x.dots[i] = 1;
    cfx_tensor *t[OPERANDS];
    for (int i = 0; i < n; i++) {
        t[i] = align(c, e, &x, i);
        if (op_failed())
            return;
    }
    cfx_tensor *y = contract_all(c, e, &x, t);
    if (op_failed())
        return;
    if (e->all > e->out && n > 1) {
        cfx_value sizes = cfx_list_value(0, NULL);
        for (int i = 0; i < e->out; i++)
            cfx_list_append(cfx_as_list(sizes), size_of(y, i));
        y = cfx_view(y, sizes);
    } else if (e->all > e->out) {
        int64_t dims[CFX_MAX_DIMS];
        for (int i = e->out; i < e->all; i++)
            dims[i - e->out] = i;
        y = cfx_sum(y, cfx_ints_value(e->all - e->out, dims));
    }
    c->out[0] = y;
}

CFX_OP(einsum) = {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
                  "torch.functional.einsum torch.einsum", .decompose = decompose_einsum,
                  .effects = CFX_COMPOSITE | CFX_SHARES};
