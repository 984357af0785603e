/* Contractions of several tensors: tensordot, inner, kron, bilinear, chains of products. All are
 * compositions, as in PyTorch. */
#include <cfx/ops.h>

#include "products.h"
#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(LINEAR);

/* ---- sums of products ------------------------------------------------------------------------ */

/* Dims of both operands and the result, by where they appear. */
typedef struct {
    int64_t both[CFX_MAX_DIMS], left[CFX_MAX_DIMS], right[CFX_MAX_DIMS], sum[CFX_MAX_DIMS];
    int nboth, nleft, nright, nsum;
    cfx_value both_size, left_size, right_size, sum_size;
} roles;

static int append(int64_t *to, int n, const int64_t *from, int more) {
    memcpy(to + n, from, (size_t)more * sizeof *to);
    return n + more;
}

cfx_tensor *sum_of_products(cfx_op_call *c, cfx_tensor *left, cfx_tensor *right, uint64_t mask) {
    if (op_failed())
        return &cfx__tensor_bad;
    if (left->ndim != right->ndim) {
        op_fail(c, "number of dimensions must match");
        return &cfx__tensor_bad;
    }
    if (!mask)
        return cfx_mul(left, right);
    const cfx_value one = cfx_int(1);
    roles r = {.both_size = one, .left_size = one, .right_size = one, .sum_size = one};
    const int n = left->ndim;
    for (int i = 0; i < n; i++) {
        const int64_t a = left->shape[i], b = right->shape[i];
        if (a != 1 && b != 1 && a != b) {
            op_fail(c, "non-broadcast dimensions must match");
            return &cfx__tensor_bad;
        }
        if (mask >> i & 1) {
            r.sum[r.nsum++] = i;
            if (a != 1 && b != 1)
                r.sum_size = size_times(r.sum_size, size_of(left, i));
            else if (a != 1)
                left = cfx_sum(left, cfx_list(i), cfx_bool(true));
            else if (b != 1)
                right = cfx_sum(right, cfx_list(i), cfx_bool(true));
        } else if (a != 1 && b != 1) {
            r.both[r.nboth++] = i, r.both_size = size_times(r.both_size, size_of(left, i));
        } else if (a != 1) {
            r.left[r.nleft++] = i, r.left_size = size_times(r.left_size, size_of(left, i));
        } else {
            r.right[r.nright++] = i;
            r.right_size = size_times(r.right_size, size_of(right, i));
        }
        if (op_failed())
            return &cfx__tensor_bad;
    }
    int64_t to_left[CFX_MAX_DIMS], to_right[CFX_MAX_DIMS], back[CFX_MAX_DIMS];
    cfx_value shape[CFX_MAX_DIMS];
    int k = append(to_left, 0, r.both, r.nboth);
    k = append(to_left, k, r.left, r.nleft);
    k = append(to_left, k, r.sum, r.nsum);
    append(to_left, k, r.right, r.nright);
    k = append(to_right, 0, r.both, r.nboth);
    k = append(to_right, k, r.sum, r.nsum);
    k = append(to_right, k, r.right, r.nright);
    append(to_right, k, r.left, r.nleft);
    for (int i = 0; i < n; i++) { /* the result lies as the left operand is permuted */
        int64_t d = to_left[i];
        back[d] = i;
        shape[i] = mask >> d & 1          ? one
                   : left->shape[d] != 1 ? size_of(left, (int)d)
                                         : size_of(right, (int)d);
    }
    left = cfx_reshape(cfx_permute(left, cfx_ints_value(n, to_left)),
                       cfx_list(r.both_size, r.left_size, r.sum_size));
    right = cfx_reshape(cfx_permute(right, cfx_ints_value(n, to_right)),
                        cfx_list(r.both_size, r.sum_size, r.right_size));
    cfx_tensor *product = cfx_view(cfx_bmm(left, right), cfx_list_value(n, shape));
    return cfx_permute(product, cfx_ints_value(n, back));
}

/* ---- bilinear -------------------------------------------------------------------------------- */

static bool bits(cfx_op_call *c, int arg, int ndim, uint64_t *mask) {
    *mask = 0;
    return !arg_count(c, arg) || arg_dims_mask(c, arg, ndim, mask);
}

static void decompose_trilinear(cfx_op_call *c) {
    cfx_tensor *x[3] = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2)};
    const int n = x[0]->ndim + (int)arg_count(c, 3);
    const int64_t unroll = arg_int(c, 7);
    uint64_t gone[3], sum;
    if (unroll < 0 || unroll >= n) {
        op_fail(c, "unroll_dim must be in [0,%d]", n - 1);
        return;
    }
    if (n > CFX_MAX_DIMS || !bits(c, 3, n, &gone[0]) || !bits(c, 4, n, &gone[1]) ||
        !bits(c, 5, n, &gone[2]) || !bits(c, 6, n, &sum))
        return;
    int64_t shape[CFX_MAX_DIMS], steps = 0;
    uint64_t first = 0, second = 0; /* dims summed by the first and the second product */
    bool empty = false;
    for (int k = 0; k < 3; k++)
        empty |= !x[k]->numel;
    for (int i = 0; i < n; i++) {
        int64_t size = 0;
        for (int k = 0; k < 3; k++) {
            if (gone[k] >> i & 1) {
                x[k] = cfx_unsqueeze(x[k], i);
            } else if (i >= x[k]->ndim) {
                op_fail_as(INDEX, c,
                           "Dimension out of range (expected to be in range of [%d, %d], but got "
                           "%d)",
                           -x[k]->ndim, x[k]->ndim - 1, i);
            } else {
                size = x[k]->shape[i];
            }
            if (op_failed())
                return;
        }
        if (sum >> i & 1 && i != unroll)
            *(gone[2] >> i & 1 ? &first : &second) |= (uint64_t)1 << i;
        shape[i] = sum >> i & 1 ? 1 : size;
        if (i == unroll)
            steps = size;
    }
    cfx_tensor *out = cfx__tensor_empty(c->at, x[0]->dtype, c->fake, n, shape, NULL);
    if (op_failed())
        return;
    cfx_zero_(out);
    for (int64_t k = 0; k < steps && !empty && !op_failed(); k++) {
        cfx_tensor *at[3];
        for (int i = 0; i < 3; i++)
            at[i] = cfx_narrow(x[i], unroll, gone[i] >> unroll & 1 ? 0 : k, 1);
        cfx_tensor *part = sum_of_products(c, at[0], at[1], first);
        part = sum_of_products(c, part, at[2], second);
        cfx_tensor *to = sum >> unroll & 1 ? out : cfx_narrow(out, unroll, k, 1);
        cfx_add_(to, part);
    }
    for (int i = n - 1; i >= 0 && !op_failed(); i--)
        if (sum >> i & 1)
            out = cfx_squeeze(out, i);
    c->out[0] = out;
}

CFX_OP(_trilinear) = {"aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] "
                      "expand2, int[] expand3, "
                      "int[] sumdim, int unroll_dim=1) -> Tensor",
                      "torch._trilinear", .decompose = decompose_trilinear, .out = "out"};

static void decompose_bilinear(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *w = arg_tensor(c, 2);
    cfx_tensor *bias = arg_tensor(c, 3);
    if (a->ndim != b->ndim) {
        op_fail(c, "bilinear(): input dimensions do not match: got %d and %d", a->ndim, b->ndim);
        return;
    }
    if (!a->ndim || w->ndim != 3) {
        op_fail_as(INDEX, c,
                   "Dimension out of range (expected to be in range of [-1, 0], but got 2)");
        return;
    }
    const int n = a->ndim;
    for (int i = 0; i < n - 1; i++)
        if (a->shape[i] != b->shape[i]) {
            op_fail(c,
                    "bilinear(): input batch dimensions do not match at dim %d: got %lld and %lld",
                    i, (long long)a->shape[i], (long long)b->shape[i]);
            return;
        }
    for (int k = 0; k < 2; k++) {
        int64_t size = (k ? b : a)->shape[n - 1];
        if (size != w->shape[1 + k]) {
            op_fail(
                c,
                "bilinear(): input%d size does not match weight size: got %lld but expected %lld",
                k + 1, (long long)size, (long long)w->shape[1 + k]);
            return;
        }
    }
    if (bias && (!bias->ndim || bias->shape[0] != w->shape[0])) {
        op_fail(c, "bilinear(): bias size does not match weight size: got %lld but expected %lld",
                bias->ndim ? (long long)bias->shape[0] : 0LL, (long long)w->shape[0]);
        return;
    }
    int64_t shape[CFX_MAX_DIMS], rows = 1;
    for (int i = 0; i < n - 1; i++)
        rows *= shape[i] = a->shape[i];
    shape[n - 1] = w->shape[0];
    if (a->numel && b->numel)
        rows = -1; /* as PyTorch has it */
    cfx_tensor *left = cfx_reshape(a, cfx_list(rows, a->shape[n - 1]));
    cfx_tensor *right = cfx_reshape(b, cfx_list(rows, b->shape[n - 1]));
    cfx_tensor *y = cfx_aten__trilinear(left, w, right, cfx_list(1, 3), cfx_list(0), cfx_list(1, 2),
                                        cfx_list(2, 3));
    y = cfx_reshape(y, cfx_ints_value(n, shape));
    c->out[0] = bias ? cfx_add(y, bias) : y;
}

CFX_OP(bilinear) = {
    "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    "torch.bilinear torch.nn.functional.bilinear", .decompose = decompose_bilinear,
    .effects = CFX_COMPOSITE};

/* ---- tensordot, inner, vecdot, kron ---------------------------------------------------------- */

static void decompose_tensordot(cfx_op_call *c) {
    cfx_tensor *t[2] = {arg_tensor(c, 0), arg_tensor(c, 1)};
    int64_t dims[2][CFX_MAX_DIMS], order[2][CFX_MAX_DIMS];
    cfx_value common = cfx_int(1), own[2] = {common, common}, shape[2 * CFX_MAX_DIMS];
    int n = arg_ints(c, 2, dims[0]), nshape = 0;
    const int other = arg_ints(c, 3, dims[1]);
    uint64_t mask[2] = {0, 0};
    if (op_failed())
        return;
    if (n != other) {
        op_fail(c, "both dimension lists should have same length");
        return;
    }
    if (t[0]->dtype != t[1]->dtype) {
        op_fail(c, "both inputs should have same dtype");
        return;
    }
    const cfx_tensor *given[2] = {t[0], t[1]};
    for (int i = 0; i < n; i++) {
        int d[2];
        for (int k = 0; k < 2; k++) {
            d[k] = cfx__shape_wrap_dim(c->at, dims[k][i], given[k]->ndim);
            if (d[k] < 0)
                return;
            if (mask[k] >> d[k] & 1) {
                op_fail(c, "dim %d appears multiple times in the list of dims", d[k]);
                return;
            }
            if (!given[k]->ndim) {
                op_fail_as(INDEX, c, "Dimension specified as %lld but tensor has no dimensions",
                           (long long)dims[k][i]);
                return;
            }
            mask[k] |= (uint64_t)1 << d[k];
        }
        int64_t a = given[0]->shape[d[0]], b = given[1]->shape[d[1]];
        if (b == 1)
            t[0] = cfx_sum(t[0], cfx_list(d[0]), cfx_bool(true));
        else if (a == 1)
            t[1] = cfx_sum(t[1], cfx_list(d[1]), cfx_bool(true));
        else if (a == b)
            common = size_times(common, size_of(given[0], d[0]));
        else
            op_fail(c,
                    "contracted dimensions need to match, but first has size %lld in dim %d and "
                    "second has size %lld in dim %d",
                    (long long)a, d[0], (long long)b, d[1]);
        if (op_failed())
            return;
    }
    for (int k = 0; k < 2; k++) {
        int at = 0, first = k ? 0 : given[0]->ndim - n;
        for (int i = 0; i < given[k]->ndim; i++)
            if (!(mask[k] >> i & 1)) {
                order[k][(k ? n : 0) + at++] = i;
                shape[nshape] = size_of(t[k], i);
                own[k] = size_times(own[k], shape[nshape++]);
            }
        for (int i = 0; i < n; i++)
            order[k][first + i] = dims[k][i];
    }
    if (nshape > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    cfx_tensor *a = cfx_permute(t[0], cfx_ints_value(t[0]->ndim, order[0]));
    a = cfx_reshape(a, cfx_list(own[0], common));
    cfx_tensor *b = cfx_permute(t[1], cfx_ints_value(t[1]->ndim, order[1]));
    b = cfx_reshape(b, cfx_list(common, own[1]));
    c->out[0] = cfx_reshape(cfx_mm(a, b), cfx_list_value(nshape, shape));
}

static void decompose_inner(cfx_op_call *c) {
    cfx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!a->ndim || !b->ndim) {
        c->out[0] = cfx_mul(a, b);
        return;
    }
    if (a->shape[a->ndim - 1] != b->shape[b->ndim - 1]) {
        op_fail(c,
                "inner() the last dimension must match on both input tensors but got shapes %s and "
                "%s",
                cfx__shape_text(a->ndim, a->shape), cfx__shape_text(b->ndim, b->shape));
        return;
    }
    c->out[0] = cfx_tensordot(a, b, cfx_list(-1), cfx_list(-1));
}

static void decompose_kron(cfx_op_call *c) {
    cfx_tensor *t[2] = {arg_tensor(c, 0), arg_tensor(c, 1)};
    const int n = t[0]->ndim > t[1]->ndim ? t[0]->ndim : t[1]->ndim;
    cfx_value wide[2][CFX_MAX_DIMS], shape[CFX_MAX_DIMS];
    if (2 * n > CFX_MAX_DIMS) {
        op_fail(c, "tensor has too many (>%d) dims", CFX_MAX_DIMS);
        return;
    }
    for (int i = 0; i < n; i++) {
        shape[i] = cfx_int(1);
        for (int k = 0; k < 2; k++) {
            int from = i - (n - t[k]->ndim);
            wide[k][2 * i + k] = from >= 0 ? size_of(t[k], from) : cfx_int(1);
            wide[k][2 * i + 1 - k] = cfx_int(1);
            shape[i] = size_times(shape[i], wide[k][2 * i + k]);
        }
        if (cfx_integer(shape[i]) == INT64_MAX) {
            op_fail_large(c, "kron: the result is too large");
            return;
        }
    }
    cfx_tensor *a = cfx_aten__unsafe_view(t[0], cfx_list_value(2 * n, wide[0]));
    cfx_tensor *b = cfx_aten__unsafe_view(t[1], cfx_list_value(2 * n, wide[1]));
    c->out[0] = cfx_reshape(cfx_mul(a, b), cfx_list_value(n, shape));
}

CFX_OP(tensordot) = {
    "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    "torch.tensordot", .decompose = decompose_tensordot, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(inner) = {"aten::inner(Tensor self, Tensor other) -> Tensor", "torch.inner Tensor.inner",
                 .decompose = decompose_inner, .effects = CFX_COMPOSITE, .out = "out"};
CFX_OP(kron) = {"aten::kron(Tensor self, Tensor other) -> Tensor", "torch.kron Tensor.kron",
                .decompose = decompose_kron, .effects = CFX_COMPOSITE, .out = "out"};

/* ---- chains ---------------------------------------------------------------------------------- */

enum { CHAIN_MOST = 64 };

/* The product of matrices i..j in the order that `split` says. */
static cfx_tensor *chain(cfx_tensor **m, int (*split)[CHAIN_MOST], int i, int j) {
    if (i == j)
        return m[i];
    return cfx_mm(chain(m, split, i, split[i][j]), chain(m, split, split[i][j] + 1, j));
}

/* The cheapest order of products. */
static cfx_tensor *best_chain(cfx_tensor **m, int n) {
    double cost[CHAIN_MOST][CHAIN_MOST];
    int split[CHAIN_MOST][CHAIN_MOST];
    for (int i = 0; i < n; i++)
        cost[i][i] = 0;
    for (int len = 1; len < n; len++)
        for (int i = 0, j = len; j < n; i++, j++) {
            cost[i][j] = -1;
            for (int k = i; k < j; k++) {
                double here =
                    cost[i][k] + cost[k + 1][j] +
                    (double)m[i]->shape[0] * (double)m[k]->shape[1] * (double)m[j]->shape[1];
                if (cost[i][j] < 0 || here <= cost[i][j]) /* of equals, the left product first */
                    cost[i][j] = here, split[i][j] = k;
            }
        }
    return chain(m, split, 0, n - 1);
}

static void decompose_multi_dot(cfx_op_call *c) {
    const int64_t n = arg_count(c, 0);
    cfx_tensor *m[CHAIN_MOST];
    if (n < 2 || n > CHAIN_MOST) {
        op_fail(c, "multi_dot(): expected at least 2 tensors but got %lld", (long long)n);
        return;
    }
    for (int i = 0; i < n; i++) {
        cfx_tensor *t = arg_item(c, 0, i);
        const bool end = i == 0 || i == n - 1;
        if (end && t->ndim != 1 && t->ndim != 2) {
            op_fail(c, "multi_dot(): the %s tensor must be 1D or 2D but got %dD",
                    i ? "last" : "first", t->ndim);
            return;
        }
        if (!end && t->ndim != 2) {
            op_fail(c, "multi_dot(): tensor %d must be 2D but got %dD", i, t->ndim);
            return;
        }
        if (t->dtype != arg_item(c, 0, 0)->dtype) {
            op_fail(c,
                    "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and "
                    "tensor %d %s",
                    cfx__dtype_title(arg_item(c, 0, 0)->dtype), i, cfx__dtype_title(t->dtype));
            return;
        }
        m[i] = t->ndim == 2 ? t : cfx_unsqueeze(t, i ? 1 : 0);
        if (op_failed())
            return;
        if (i && m[i - 1]->shape[1] != m[i]->shape[0]) {
            op_fail(c, "multi_dot(): tensors %d and %d with shapes %s and %s cannot be multiplied",
                    i - 1, i, cfx__shape_text(m[i - 1]->ndim, m[i - 1]->shape),
                    cfx__shape_text(m[i]->ndim, m[i]->shape));
            return;
        }
    }
    cfx_tensor *y = best_chain(m, (int)n);
    if (op_failed())
        return;
    int64_t shape[2];
    int ndim = 0;
    if (arg_item(c, 0, 0)->ndim == 2)
        shape[ndim++] = y->shape[0];
    if (arg_item(c, 0, n - 1)->ndim == 2)
        shape[ndim++] = y->shape[1];
    c->out[0] = cfx_view(y, cfx_ints_value(ndim, shape));
}

static void decompose_chain_matmul(cfx_op_call *c) {
    const int64_t n = arg_count(c, 0);
    if (!n) {
        op_fail(c, "chain_matmul(): Expected one or more matrices");
        return;
    }
    for (int i = 0; i < n; i++)
        if (arg_item(c, 0, i)->ndim != 2) {
            op_fail(c,
                    "Tensor of dimension %d passed to argument #%d (named 'matrices') in call to "
                    "chain_matmul: Expected 2-dimensional tensor",
                    arg_item(c, 0, i)->ndim, i);
            return;
        }
    c->out[0] = n == 1 ? cfx_clone(arg_item(c, 0, 0)) : cfx_linalg_multi_dot(c->args[0]);
}

CFX_OP(linalg_multi_dot) = {"aten::linalg_multi_dot(Tensor[] tensors) -> Tensor",
                            "torch._C._linalg.linalg_multi_dot torch.linalg.multi_dot",
                            .decompose = decompose_multi_dot, .effects = CFX_COMPOSITE,
                            .out = "out"};
CFX_OP(chain_matmul) = {"aten::chain_matmul(Tensor[] matrices) -> Tensor",
                        "torch.functional.chain_matmul torch.chain_matmul",
                        .decompose = decompose_chain_matmul, .effects = CFX_COMPOSITE,
                        .out = "out"};
