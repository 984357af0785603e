/* later: what rooms ask of later ones. Includes go one way, from later rooms to earlier ones; what
 * has to be asked the other way goes through this table, which is filled in src/later.c, the one
 * file that sees all rooms. tools/lint_link finds every other symbol that an earlier room takes
 * from a later one (the registry names all operators; that is the only exception). */
#ifndef CFX__LATER_H
#define CFX__LATER_H

#include "value.h"

struct cfx_target;
struct cfx_op_call;
struct cfx__optim_work;

/* What a loop asks before a round, and what it does in one. */
typedef cfx_value cfx__round_fn(cfx_args a);

typedef struct cfx__later {
    /* repr() of what the value room cannot look into: tensors, operators, nodes and modules. */
    cfx__repr_fn *repr;
    /* v[i] of a tensor or a node. */
    cfx_value (*item)(cfx_value v, int64_t i);
    /* A call by name with a node among its arguments, or what stands for one, while nothing is
     * traced: appends to the graph of that node. False where there is none. */
    bool (*append)(cfx_site at, const struct cfx_target *target, cfx_args args, cfx_value *result);
    /* The name of a node, or "None". */
    const char *(*node_name)(const cfx_node *n);
    /* print(module); scope. */
    const char *(*module_str)(const cfx_module *m);
    /* "AddBackward0", how the node that made t is called, or NULL; scope. */
    const char *(*grad_fn)(const cfx_tensor *t);
    /* What stands for a tensor, node or module where there is none: see cfx_as_tensor. */
    cfx_tensor *bad_tensor;
    cfx_node *const *bad_node;
    cfx_module *bad_module;
    /* The node that v is or that a traced tensor stands for; NULL where there is none. */
    cfx_node *(*traced_node)(cfx_value v);
    /* A marked number that C looks at, plain; and what it is called, NULL where it is as it is. */
    cfx_value (*read_marked)(cfx_site at, cfx_value v);
    const char *(*marked_text)(cfx_value v);
    /* C looks at the sizes of a tensor that stands for a node, or at what else is not known of a
     * traced one. */
    void (*read_sizes)(cfx_site at, const cfx_tensor *t);
    int64_t (*read_size)(cfx_site at, const cfx_tensor *t, int dim);
    /* Whether C may look at the numbers of a tensor; an error where those are data while a module
     * is exported or traced. */
    bool (*may_read)(cfx_site at, const cfx_tensor *t);
    /* Before the numbers of a tensor that mirrors another are looked at: see cfx__mirror_make. */
    void (*refresh)(const cfx_tensor *t);
    /* A call that has an argument with a gradient: records it. */
    cfx_value (*autograd)(cfx_site at, cfx_op *op, cfx_value *args);
    /* While test(carried, rest) is true, carried = body(carried, rest): lists of tensors, results
     * tuples. The last carried ones; bad, with an error. Scope. */
    cfx_value (*while_loop)(cfx_site at, cfx__round_fn *test, cfx__round_fn *body,
                            cfx_value carried, cfx_value rest);
    /* A copy of t on a card; the bad tensor, with an error, where there is none. Scope. */
    cfx_tensor *(*to_card)(cfx_site at, cfx_tensor *t, int card);
    /* Memory of a card that the host sees too, held by *owner, of which the caller owns a count;
     * NULL, with an error, where there is none. */
    void *(*card_memory)(cfx_site at, int card, size_t bytes, void **owner);
    /* How many cards there are, and threads that a card runs at once; 0 where there is none. */
    int (*cards)(void);
    int64_t (*card_threads)(int card);
    /* Runs a kernel on the card that its results are to lie on. False where the host has to. */
    bool (*card_kernel)(struct cfx_op_call *c, int card);
    /* Steps of optimisers, each on the card where its tensors lie. */
    void (*card_steps)(const struct cfx__optim_work *w, int n);
    /* What runs graphs on a card; NULL, with an error, where there is none. */
    const struct cfx_executor *(*card_executor)(int card);
    /* The executor of GraphModules and programs, unless another is chosen. */
    const struct cfx_executor *executor;
} cfx__later;

extern const cfx__later cfx__later_rooms;

#endif
