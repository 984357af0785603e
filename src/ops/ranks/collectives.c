/* Collectives, the operators of _c10d_functional. Every name of a group means the group of the
 * thread; sizes of groups that programs name are held against it. They have effects, since every
 * rank has to come to each in the same order. */
#include <cfx/ops.h>

#include "../../group/group.h"
#include "../views.h"

CFX_FAMILY(OTHER);

/* The group of the thread; NULL, with an error, where there is none or it has another size. */
static cfx_group *group_of(cfx_op_call *c, int64_t size) {
    cfx_group *g = cfx_group_current();
    if (!g)
        op_fail(c,
                "%s runs on several ranks: 'mpirun -n N cfx run', or simulated ones "
                "(cfx_group_simulate)",
                op_title(c));
    else if (size >= 0 && size != cfx_group_size(g))
        op_fail(c, "%s was made for %lld ranks, and here are %d", op_title(c), (long long)size,
                cfx_group_size(g));
    return op_failed() ? NULL : g;
}

static void run(cfx_op_call *c, cfx__collective_call call, int64_t ranks) {
    cfx_group *g = group_of(c, ranks);
    if (g)
        cfx__collective_run(g, c->at, call, cfx__tensor_contiguous(arg_tensor(c, 0)), c->out[0]);
}

static cfx__reduction arg_reduction(cfx_op_call *c, int i) {
    cfx__reduction op = cfx__reduction_named(arg_text(c, i));
    if (op == CFX__REDUCTIONS)
        op_fail(c, "Unrecognized reduce_op: %s", arg_text(c, i));
    return op;
}

/* ---- all_reduce, broadcast, wait_tensor ------------------------------------------------------ */

static void shape_same(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    out_new(c, 0, t->dtype, t->ndim, t->shape);
}

static void kernel_all_reduce(cfx_op_call *c) {
    cfx__reduction op = arg_reduction(c, 1);
    if (!op_failed())
        run(c, (cfx__collective_call){.kind = CFX__MESSAGE_REDUCE, .op = op}, -1);
}

static void kernel_broadcast(cfx_op_call *c) {
    const int64_t root = arg_int(c, 1);
    cfx_group *g = group_of(c, -1);
    if (g && (root < 0 || root >= cfx_group_size(g)))
        op_fail(c, "broadcast from rank %lld, and there are %d", (long long)root,
                cfx_group_size(g));
    else if (g)
        run(c, (cfx__collective_call){.kind = CFX__MESSAGE_SPREAD, .root = (int)root}, -1);
}

/* Collectives are done when they return, so there is nothing to wait for. */
static void view_waited(cfx_op_call *c) { c->out[0] = aliased(arg_tensor(c, 0)); }

/* ---- all_gather_into_tensor, reduce_scatter_tensor ------------------------------------------- */

/* Whether a number of ranks is one. */
static bool ranks_fit(cfx_op_call *c, int64_t ranks) {
    if (ranks < 1)
        op_fail(c, "%s over %lld ranks", op_title(c), (long long)ranks);
    return !op_failed();
}

static void shape_gather(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    const int64_t ranks = arg_int(c, 1);
    int64_t shape[CFX_MAX_DIMS];
    if (!ranks_fit(c, ranks))
        return;
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    if (!t->ndim)
        shape[0] = 1;
    if (__builtin_mul_overflow(shape[0], ranks, &shape[0])) {
        op_fail(c, "%s of %lld ranks has too many elements", op_title(c), (long long)ranks);
        return;
    }
    out_new(c, 0, t->dtype, t->ndim ? t->ndim : 1, shape);
}

static void kernel_gather(cfx_op_call *c) {
    run(c, (cfx__collective_call){.kind = CFX__MESSAGE_GATHER}, arg_int(c, 1));
}

static void shape_scatter(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    const int64_t ranks = arg_int(c, 2);
    int64_t shape[CFX_MAX_DIMS];
    if (!ranks_fit(c, ranks))
        return;
    if (!t->ndim || t->shape[0] % ranks) {
        op_fail(c,
                "reduce_scatter_tensor: the first of the sizes %s is not divisible by %lld ranks",
                cfx__shape_text(t->ndim, t->shape), (long long)ranks);
        return;
    }
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[0] /= ranks;
    out_new(c, 0, t->dtype, t->ndim, shape);
}

static void kernel_scatter(cfx_op_call *c) {
    cfx__reduction op = arg_reduction(c, 1);
    if (!op_failed())
        run(c, (cfx__collective_call){.kind = CFX__MESSAGE_SCATTER, .op = op}, arg_int(c, 2));
}

/* ---- all_to_all_single ----------------------------------------------------------------------- */

/* The sum of a list of sizes; -1, with an error, where one is negative or they are too many. */
static int64_t sum_of(cfx_op_call *c, int i) {
    int64_t sum = 0;
    const cfx_list *sizes = cfx_as_list(c->args[i]);
    for (int64_t k = 0; k < sizes->len && !op_failed(); k++) {
        const int64_t size = cfx_integer(sizes->items[k]);
        if (size < 0 || __builtin_add_overflow(sum, size, &sum))
            op_fail(c, "all_to_all_single: split sizes are %s", cfx_repr(c->args[i]));
    }
    return op_failed() ? -1 : sum;
}

static void shape_shuffle(cfx_op_call *c) {
    const cfx_tensor *t = arg_tensor(c, 0);
    int64_t shape[CFX_MAX_DIMS];
    const int64_t rows = sum_of(c, 1), given = sum_of(c, 2);
    if (op_failed())
        return;
    if (!t->ndim || given != t->shape[0]) {
        op_fail(c, "Split sizes doesn't match total dim 0 size");
        return;
    }
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[0] = rows;
    out_new(c, 0, t->dtype, t->ndim, shape);
}

static int64_t *sizes_of(cfx_op_call *c, int i) {
    const cfx_list *sizes = cfx_as_list(c->args[i]);
    int64_t *all = scratch(c, CFX_I64, sizes->len);
    for (int64_t k = 0; all && k < sizes->len; k++)
        all[k] = cfx_integer(sizes->items[k]);
    return all;
}

static void kernel_shuffle(cfx_op_call *c) {
    cfx_group *g = group_of(c, -1);
    const int64_t ranks = cfx_group_size(g);
    if (g && (arg_count(c, 1) != ranks || arg_count(c, 2) != ranks))
        op_fail(c, "Number of tensor splits not equal to group size");
    if (!op_failed())
        run(c,
            (cfx__collective_call){.kind = CFX__MESSAGE_SHUFFLE, .takes = sizes_of(c, 1),
                                   .gives = sizes_of(c, 2)},
            -1);
}

/* ---- several at once, and into the caller's memory ------------------------------------------- */

/* One call for each tensor of a list, with the same arguments beside it. */
static void each(cfx_op_call *c) {
    cfx_value args[4], all = cfx_list_value(0, NULL);
    memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++) {
        args[0] = cfx_as_list(c->args[0])->items[k];
        cfx_list_append(cfx_as_list(all),
                        cfx_tensor_value(call_bound(c, (cfx_op *)c->op->row, args)));
    }
    c->result = all;
}

static void write_each(cfx_op_call *c) {
    each(c);
    for (int64_t k = 0; k < arg_count(c, 0) && !op_failed(); k++)
        cfx_copy_(arg_item(c, 0, k), cfx_as_list(c->result)->items[k]);
    c->result = c->args[0];
}

/* The last argument is what is written to. */
static void write_out(cfx_op_call *c) {
    cfx_tensor *made = call_bound(c, (cfx_op *)c->op->row, c->args);
    c->out[0] = cfx_copy_(arg_tensor(c, c->nargs - 1), made);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define COLLECTIVE(name)                                                                           \
    .kernel = kernel_##name, .dtypes = CFX_IN_ANY | CFX_IN_SELF, .effects = CFX_SIDE
#define EACH(op) .decompose = each, .row = &cfx_op__c10d_functional_##op, .effects = CFX_SIDE
#define WRITE(fn, op) .decompose = fn, .row = &cfx_op__c10d_functional_##op, .effects = CFX_SIDE

CFX_OP(_c10d_functional_all_reduce) = {
    "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", NULL,
    .shape = shape_same, COLLECTIVE(all_reduce), .inplace = "default"};
CFX_OP(_c10d_functional_broadcast) = {
    "_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor", NULL,
    .shape = shape_same, COLLECTIVE(broadcast), .inplace = "default"};
CFX_OP(_c10d_functional_all_gather_into_tensor) = {
    "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> "
    "Tensor",
    NULL, .shape = shape_gather, COLLECTIVE(gather)};
CFX_OP(_c10d_functional_reduce_scatter_tensor) = {
    "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str "
    "group_name) -> Tensor",
    NULL, .shape = shape_scatter, COLLECTIVE(scatter)};
CFX_OP(_c10d_functional_all_to_all_single) = {
    "_c10d_functional::all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] "
    "input_split_sizes, str group_name) -> Tensor",
    NULL, .shape = shape_shuffle, COLLECTIVE(shuffle)};
CFX_OP(_c10d_functional_wait_tensor) = {"_c10d_functional::wait_tensor(Tensor tensor) -> Tensor",
                                        NULL, .view = view_waited, .effects = CFX_SHARES};

CFX_OP(_c10d_functional_all_reduce_coalesced) = {
    "_c10d_functional::all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> "
    "Tensor[]",
    NULL, EACH(all_reduce)};
CFX_OP(_c10d_functional_all_reduce_coalesced_) = {
    "_c10d_functional::all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, str group_name) "
    "-> Tensor(a!)[]",
    NULL, WRITE(write_each, all_reduce)};
CFX_OP(_c10d_functional_all_gather_into_tensor_coalesced) = {
    "_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str "
    "group_name) -> Tensor[]",
    NULL, EACH(all_gather_into_tensor)};
CFX_OP(_c10d_functional_reduce_scatter_tensor_coalesced) = {
    "_c10d_functional::reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int "
    "group_size, str group_name) -> Tensor[]",
    NULL, EACH(reduce_scatter_tensor)};
CFX_OP(_c10d_functional_all_gather_into_tensor_out) = {
    "_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, "
    "*, Tensor(a!) out) -> Tensor(a!)",
    NULL, WRITE(write_out, all_gather_into_tensor)};
CFX_OP(_c10d_functional_reduce_scatter_tensor_out) = {
    "_c10d_functional::reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str "
    "group_name, *, Tensor(a!) out) -> Tensor(a!)",
    NULL, WRITE(write_out, reduce_scatter_tensor)};
