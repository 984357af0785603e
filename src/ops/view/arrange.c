/* Arrangements made of other operators: one-hot vectors, combinations, Vandermonde matrices; and
 * numbers written along diagonals. */
#include <cfx/ops.h>

#include "../sizes.h"
#include "../views.h"

CFX_FAMILY(INDEX);

/* ---- one_hot --------------------------------------------------------------------------------- */

/* The number of classes: given, or one more than the largest index. -1 with an error. */
static int64_t class_count(cfx_op_call *c, const cfx_tensor *t) {
    int64_t n = arg_int(c, 1);
    if (t->dtype != CFX_I64) {
        op_fail(c, "one_hot is only applicable to index tensor of type LongTensor.");
        return -1;
    }
    if (t->numel == 0) {
        if (n > 0)
            return n;
        op_fail(c, "Can not infer total number of classes from empty tensor.");
        return -1;
    }
    if (!t->data) {
        if (n < 0)
            cfx__fail_unknown(c->at, "one_hot: the number of classes depends on data, which a fake "
                                     "tensor has not");
        return n < 0 ? -1 : n;
    }
    const int64_t *index = (const int64_t *)cfx__tensor_contiguous(t)->data;
    int64_t least = 0, most = 0;
    for (int64_t i = 0; index && i < t->numel; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
    }
    if (least < 0)
        op_fail(c, "Class values must be non-negative.");
    else if (n >= 0 && most >= n)
        op_fail(c, "Class values must be smaller than num_classes.");
    else if (most == INT64_MAX)
        op_fail_large(c, "Storage size calculation overflowed with sizes=[%lld]", (long long)most);
    return op_failed() ? -1 : n >= 0 ? n : most + 1;
}

static void decompose_one_hot(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t n = class_count(c, t);
    if (n < 0)
        return;
    cfx_tensor *classes =
        cfx_arange(n, CFX_KW(dtype, cfx_i64), CFX_KW(device, cfx_device_value(t->device)));
    c->out[0] = cfx_to(cfx_eq(cfx_unsqueeze(t, -1), classes), cfx_i64);
}

CFX_OP(one_hot) = {"aten::one_hot(Tensor self, int num_classes=-1) -> Tensor",
                   "torch._C._nn.one_hot torch.nn.functional.one_hot",
                   .decompose = decompose_one_hot,
                   .effects = CFX_COMPOSITE};

/* ---- combinations ---------------------------------------------------------------------------- */

/* How many ways there are to take r of n; -1 where they are more than a tensor holds. */
static int64_t choose(int64_t n, int64_t r) {
    __int128 ways = 1;
    if (r > n)
        return 0;
    r = r > n - r ? n - r : r;
    for (int64_t k = 1; k <= r; k++) {
        ways = ways * (n - r + k) / k;
        if (ways > (int64_t)1 << 40)
            return -1;
    }
    return (int64_t)ways;
}

/* Rows of ascending indices, in lexicographic order. */
static void list_combinations(int64_t *out, int64_t rows, int64_t n, int64_t r, bool repeated) {
    for (int64_t k = 0; k < r && rows; k++)
        out[k] = repeated ? 0 : k;
    for (int64_t row = 1; row < rows; row++, out += r) {
        memcpy(out + r, out, (size_t)r * sizeof *out);
        int64_t *next = out + r, k = r - 1;
        while (k > 0 && next[k] == (repeated ? n - 1 : n - r + k))
            k--;
        next[k]++;
        for (int64_t j = k + 1; j < r; j++)
            next[j] = repeated ? next[k] : next[j - 1] + 1;
    }
}

static void decompose_combinations(cfx_op_call *c) {
    cfx_tensor *t = arg_tensor(c, 0);
    int64_t r = arg_int(c, 1), size;
    bool repeated = arg_bool(c, 2);
    if (t->ndim != 1) {
        op_fail(c, "Expect a 1D vector, but got shape %s", cfx__shape_text(t->ndim, t->shape));
        return;
    }
    if (r < 0) {
        op_fail(c, "Expect a non-negative number, but got %lld", (long long)r);
        return;
    }
    if (r == 0) {
        c->out[0] = cfx_new_empty(t, cfx_list(0));
        return;
    }
    int64_t n = t->numel, pool = n;
    if (repeated && n && __builtin_add_overflow(n, r - 1, &pool)) {
        op_fail_large(c, "Storage size calculation overflowed with sizes=[%lld, %lld]",
                      (long long)n, (long long)r);
        return;
    }
    int64_t rows = n && pool >= n ? choose(pool, r) : 0;
    if (rows < 0 || __builtin_mul_overflow(rows, r, &size)) {
        op_fail_large(c, "Storage size calculation overflowed with sizes=[%lld, %lld]",
                      (long long)n, (long long)r);
        return;
    }
    cfx_tensor *index = cfx__tensor_empty(c->at, CFX_I64, false, 1, &size, NULL);
    if (!index->data)
        return;
    list_combinations((int64_t *)index->data, rows, n, r, repeated);
    c->out[0] = cfx_view(cfx_index_select(t, 0, index), cfx_list(rows, r));
}

CFX_FAMILY(VIEW);
CFX_OP(combinations) = {
    "aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    "torch.combinations", .decompose = decompose_combinations, .effects = CFX_COMPOSITE};

/* ---- powers of a vector ---------------------------------------------------------------------- */

static void decompose_vander(cfx_op_call *c) {
    cfx_tensor *x = arg_tensor(c, 0);
    int64_t n = arg_is_none(c, 1) ? x->numel : arg_int(c, 1);
    if (x->ndim != 1)
        op_fail(c, "x must be a one-dimensional tensor.");
    else if (n < 0)
        op_fail(c, "N must be non-negative.");
    if (op_failed())
        return;
    cfx_value dtype = cfx_dtype_value(cfx__dtype_promote(x->dtype, CFX_I64));
    if (n < 2) {
        c->out[0] = cfx_ones(cfx_list(x->numel, n), CFX_KW(dtype, dtype));
        return;
    }
    cfx_tensor *ones = cfx_ones(cfx_list(x->numel, 1), CFX_KW(dtype, dtype));
    cfx_tensor *base = cfx_expand(cfx_unsqueeze(cfx_to(x, dtype), 1), cfx_list(x->numel, n - 1));
    cfx_tensor *powers = cfx_cat(cfx_list(ones, cfx_cumprod(base, 1)), 1);
    c->out[0] = arg_bool(c, 2) ? powers : cfx_flip(powers, cfx_list(1));
}

CFX_OP(vander) = {"aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
                  "torch.vander", .decompose = decompose_vander, .effects = CFX_COMPOSITE};

/* ---- diagonals written in place -------------------------------------------------------------- */

/* From the first element on, wherever in a storage the tensor lies when it runs. */
static void fill_line(cfx_tensor *t, cfx_value n, int64_t stride, cfx_value v) {
    cfx_fill_(cfx_as_strided(t, cfx_list(n), cfx_list(stride)), v);
}

/* A diagonal that begins again in the row after the next to the one that it ends in: element (i, j)
 * is on it where i % (cols + 1) is j. Holds for any number of rows, where they are not known. */
static void fill_wrapped(cfx_tensor *t, cfx_value v) {
    cfx_value where = cfx_device_value(t->device), step = size_plus(size_of(t, 1), 1);
    cfx_tensor *row = cfx_arange(size_of(t, 0), CFX_KW(device, where));
    cfx_tensor *col = cfx_arange(size_of(t, 1), CFX_KW(device, where));
    cfx_masked_fill_(t, cfx_eq(cfx_remainder(cfx_unsqueeze(row, 1), step), col), v);
}

/* The diagonal of what lies below the row after the first one: of rows without gaps it begins again
 * and again. By views of the tensor, which hold wherever that lies in a storage. */
static void fill_again(cfx_tensor *t, int64_t stride, cfx_value v) {
    const int64_t cols = t->shape[1], step = cols + 1, more = (t->numel + step - 1) / step - cols;
    cfx_tensor *rest = cfx_slice(t, 0, step);
    if (cfx__tensor_is_contiguous(t))
        cfx_fill_(cfx_slice(cfx_view(rest, cfx_list(-1)), 0, 0, cfx_none(), step), v);
    else if (more <= cols)
        cfx_fill_(cfx_diagonal(rest), v);
    else /* between the rows: that may leave the storage, which is an error */
        cfx_fill_(cfx_as_strided(t, cfx_list(more), cfx_list(stride),
                                 t->offset + t->stride[0] * step), v);
}

static void decompose_fill_diagonal_(cfx_op_call *c) {
    cfx_tensor *t = c->out[0] = arg_tensor(c, 0);
    if (t->ndim < 2) {
        op_fail(c, "dimensions must larger than 1");
        return;
    }
    int64_t rows = t->shape[0], cols = t->shape[1], n = rows < cols ? rows : cols, stride = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->ndim > 2 && t->shape[d] != rows) {
            op_fail(c, "all dimensions of input must be of equal length");
            return;
        }
        stride += t->stride[d];
    }
    bool unknown = size_varies(rows) || size_varies(cols);
    if (unknown && arg_bool(c, 2) && t->ndim == 2) {
        if (cfx__tensor_is_contiguous(t))
            fill_wrapped(t, c->args[1]);
        else /* which elements it comes to depends on sizes and strides: no expression tells */
            op_fail_as(NOT_IMPLEMENTED, c,
                       "a wrapped diagonal of a matrix that is not contiguous cannot be taken "
                       "apart where its sizes vary");
        return;
    }
    cfx_value least = unknown ? size_do("torch.sym_min", size_of(t, 0), size_of(t, 1)) : cfx_int(n);
    fill_line(t, least, stride, c->args[1]);
    if (op_failed() || !arg_bool(c, 2) || t->ndim != 2 || rows <= cols + 1)
        return;
    fill_again(t, stride, c->args[1]);
}

CFX_OP(fill_diagonal_) = {
    "aten::fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
    "Tensor.fill_diagonal_", .decompose = decompose_fill_diagonal_, .effects = CFX_COMPOSITE};
