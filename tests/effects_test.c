/* What rows say of elements that they only move is so: every operator with such an effect that
 * takes a tensor and nothing else is run. */
#include <cfx.h>

#include "../src/dispatch/dispatch.h"
#include "../src/tensor/tensor.h"
#include "test.h"

/* Whether a call with the first argument alone is one. */
static bool takes_one(cfx_op *op) {
    const cfx__schema *s = cfx__op_info_of(op)->schema;
    bool one = s->nargs && s->args[0].type == CFX__T_TENSOR && !s->args[0].list &&
               s->nrets == 1 && !s->rets[0].list && !cfx__op_info_of(op)->writes;
    for (int i = 1; i < s->nargs; i++)
        one &= s->args[i].has_default;
    return one;
}

static bool has(const cfx_tensor *t, double x) {
    bool found = false;
    for (int64_t i = 0; i < t->numel; i++)
        found |= cfx_tensor_get(t, i) == x;
    return found;
}

/* Whether all elements of y are elements of x; or the same in the same order. */
static bool are_of(const cfx_tensor *y, const cfx_tensor *x) {
    bool of = true;
    for (int64_t i = 0; i < y->numel; i++)
        of &= has(x, cfx_tensor_get(y, i));
    return of;
}

static bool are_same(const cfx_tensor *y, const cfx_tensor *x) {
    bool same = x->numel == y->numel;
    for (int64_t i = 0; same && i < y->numel; i++)
        same = cfx_tensor_get(y, i) == cfx_tensor_get(x, i);
    return same;
}

static bool lies_like(const cfx_tensor *a, const cfx_tensor *b) {
    return a->dtype == b->dtype && cfx__tensor_same_shape(a, b) &&
           !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof *a->stride);
}

TEST(what_moves_elements_moves_them) {
    int moved = 0, alike = 0;
    for (int i = 0; i < cfx_op_count(); i++) {
        cfx_op *op = cfx_op_at(i);
        if (!(op->effects & (CFX_MOVES | CFX_ALIKE)) || !takes_one(op))
            continue;
        CHECK(!(op->effects & CFX_IN_ORDER) || op->effects & CFX_MOVES);
        const int64_t shapes[][2] = {{3, 4}, {4, 1}, {1, 1}};
        for (int k = 0; k < COUNT(shapes); k++)
            CFX_SCOPE {
                cfx_tensor *x = cfx_randn(shapes[k][0], shapes[k][1]);
                cfx_value v = cfx_op_do(op, x);
                const cfx_tensor *y = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
                const bool fine = cfx_ok() && y &&
                                  (!(op->effects & CFX_MOVES) || are_of(y, x)) &&
                                  (!(op->effects & CFX_IN_ORDER) || are_same(y, x)) &&
                                  (!(op->effects & CFX_ALIKE) || !lies_like(x, y) ||
                                   are_same(y, x));
                if (!fine)
                    test_fail(CFX_HERE, "%s does not do what its effects say", cfx_op_name(op));
                moved++;
                alike += y && lies_like(x, y);
            }
    }
    CHECK(moved > 30 && alike > 20);
}

/* Functions that kernels do to their results are known by their rows. */
TEST(functions_of_results_are_known_by_their_rows) {
    static const struct {
        const char *name;
        bool is;
    } rows[] = {{"relu", true},  {"relu6", true},     {"hardtanh", true},  {"silu", true},
                {"gelu", true},  {"hardswish", true}, {"leaky_relu", true}, {"tanh", true},
                {"clamp", true}, {"sigmoid", true},   {"exp", false},      {"clamp_min", false}};
    for (int i = 0; i < COUNT(rows); i++) {
        const cfx_op *op = cfx_op_find(rows[i].name);
        CHECK(op && !(op->effects >> 24) == !rows[i].is);
    }
}
