/* tie_weights and untie_weights: parameters that are equal become one, and one that is used in
 * several places becomes one for each. */
#include <cfx/ops.h>
#include <string.h>

#include "pass.h"

/* ---- tie ------------------------------------------------------------------------------------- */

typedef struct weight {
    cfx_node *node;
    cfx_tensor *tensor;
    uint64_t hash;
} weight;

static int by_hash(const void *a, const void *b) {
    const weight *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->node == y->node ? 0 : cfx_node_precedes(x->node, y->node) ? -1 : 1;
}

static size_t bytes_of(const cfx_tensor *t) {
    return (size_t)t->numel * (size_t)cfx_dtype_size((cfx_dtype)t->dtype);
}

/* To the bit, which tells -0 from 0 and holds for NaN. */
static bool are_equal(const weight *a, const weight *b) {
    const cfx_tensor *x = a->tensor, *y = b->tensor;
    bool same = x->dtype == y->dtype && x->ndim == y->ndim;
    for (int i = 0; same && i < x->ndim; i++)
        same = x->shape[i] == y->shape[i];
    return same && (x->data == y->data || !memcmp(x->data, y->data, bytes_of(x)));
}

/* Lets what uses `from` use `to`, and takes the tensor of `from` out of the program. */
static void tie(cfx_program *p, cfx_node *from, cfx_node *to) {
    const cfx_input_spec *s = cfx_program_input(p, from);
    cfx_dict_remove(cfx__program_tensors(p, s), cfx_string_value(s->target));
    cfx_node_replace(from, to);
}

static int run_tie(cfx_program *p, const cfx_dict *options) {
    VEC(weight) all = {0};
    VEC(cfx_node *) gone = {0}; /* erased at once: the signature is read anew after that */
    int64_t least = cfx__pass_int(options, "least");
    int changes = 0;
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n) {
        cfx_tensor *t = cfx__program_constant(p, &a, n);
        if (t && t->numel >= least && cfx_tensor_is_contiguous(t))
            VEC_PUSH(all, ((weight){n, t, cfx__text_hash(t->data, bytes_of(t))}));
    }
    if (all.len)
        qsort(all.data, all.len, sizeof *all.data, by_hash);
    for (size_t i = 1, first = 0; i < all.len; i++) {
        if (!are_equal(&all.data[first], &all.data[i])) {
            first = i;
            continue;
        }
        tie(p, all.data[i].node, all.data[first].node);
        VEC_PUSH(gone, all.data[i].node);
    }
    for (size_t i = 0; i < gone.len; i++)
        changes += cfx_graph_erase(gone.data[i]);
    cfx__alias_close(&a);
    VEC_FREE(all);
    VEC_FREE(gone);
    return cfx_program_sync(p) ? changes : -1;
}

const cfx_pass cfx__pass_tie_weights = {
    .name = "tie_weights",
    .summary = "keeps one of parameters and constants that are equal to the bit and have at least "
               "so many elements",
    .options = "least=1024",
    .promise = CFX_PASS_EXACT,
    .run = run_tie,
};

/* ---- untie ----------------------------------------------------------------------------------- */

/* Gives each user of n but the first a copy of its tensor. */
static int untie(cfx_program *p, cfx_node *n, cfx_tensor *t) {
    const cfx_input_spec *s = cfx_program_input(p, n);
    cfx_input_kind kind = s->kind;
    const char *target = cfx__text_format("%s", s->target);
    const cfx_list *users = cfx_as_list(cfx_node_users(n));
    int changes = 0;
    for (int64_t i = 1; i < users->len && cfx_ok(); i++) {
        cfx_node *own = cfx_program_add_tensor(p, kind, target, cfx_clone(t));
        if (!own->graph || !cfx_node_replace_input(cfx_as_node(users->items[i]), n, own))
            return changes;
        changes++;
    }
    return changes;
}

static int run_untie(cfx_program *p, const cfx_dict *options) {
    (void)options;
    int changes = 0;
    VEC(cfx_node *) shared = {0};
    cfx__alias a;
    cfx__alias_open(&a, p->module->graph);
    cfx_each_node(p->module->graph, n)
        if (n->num_users > 1 && cfx__program_constant(p, &a, n))
            VEC_PUSH(shared, n);
    for (size_t i = 0; i < shared.len && cfx_ok(); i++)
        CFX_SCOPE changes += untie(p, shared.data[i],
                                   cfx__program_constant(p, &a, shared.data[i]));
    cfx__alias_close(&a);
    VEC_FREE(shared);
    return cfx_ok() ? changes : -1;
}

const cfx_pass cfx__pass_untie_weights = {
    .name = "untie_weights",
    .summary = "gives every use of a parameter, buffer or constant a copy of its own",
    .promise = CFX_PASS_EXACT,
    .run = run_untie,
};
