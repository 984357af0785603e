/* Lowering: declarations shared by its passes. Each pass is a function on the plan being made
 * (passes.c has the table); false means that the graph cannot be planned, with an error if
 * something failed. */
#ifndef CFX__PLAN_H
#define CFX__PLAN_H

#include "description.h"

/* Steps that go through the same elements: one loop kernel. */
typedef struct cfx__plan_group {
    int ndim;
    int64_t shape[CFX_MAX_DIMS];
    int row;          /* how many of the last dims are a row that some member folds; 0: none */
    VEC(int) members; /* slots */
} cfx__plan_group;

typedef struct cfx__plan_member cfx__plan_member;

/* A plan being made. */
typedef struct cfx__lowering {
    cfx__plan *plan;
    const cfx__plan_target *target;
    const cfx_execution *e;
    int *first, *readers; /* by slot: readers[first[k]] .. readers[first[k + 1] - 1] read slot k */
    bool *varies; /* by slot: differs from run to run */
    bool *passed; /* by slot: gives its argument again, which is read instead */
    bool *joins;  /* by slot: a concatenation whose parts have their home there */
    bool *taken;  /* by slot: inside a kernel already */
    bool *ordered; /* by slot: lies in memory that is written to where it stands, or whose storage
                      is looked at; see memory.c */
    bool *written; /* by slot: lies in memory that the graph writes to, where it stands or not */
    bool *put_off; /* by slot: constant, but computed only where a kernel asks for it */
    int *object;  /* by slot: the first slot of those that an in-place form makes one */
    int *group;   /* by slot: the group that it is a member of; -1: none */
    cfx__plan_member **members; /* by slot: how it is part of a loop; in the plan's arena */
    VEC(cfx__plan_group) groups;
    cfx__arena arena; /* of the arrays above */
} cfx__lowering;


/* Whether somebody wants to see the value of a node. */
bool cfx__plan_wants(const cfx_execution *e, const cfx_node *n);
/* The functional operator of a step, in-place forms included; NULL: none. */
cfx_op *cfx__plan_op(const cfx__run_step *s);
/* The tensor that a slot gives, fake or constant; NULL where it gives something else. */
cfx_tensor *cfx__plan_tensor(const cfx__lowering *l, int slot);
/* The step of a slot. */
static inline const cfx__run_step *cfx__plan_step(const cfx__lowering *l, int slot) {
    return &l->plan->steps->steps[slot];
}
/* The tensor that an argument is known to be before anything runs; NULL where it is not; and
 * whether it is nothing but zeros: None, the number or such a tensor. */
cfx_tensor *cfx__plan_known(const cfx__lowering *l, cfx_value v);
bool cfx__plan_is_zero(const cfx__lowering *l, cfx_value v);
/* The only step that reads a slot, or -1. */
int cfx__plan_only_user(const cfx__lowering *l, int slot);
/* Whether a step gives its first argument as it is: by what it is, or for such arguments. */
bool cfx__plan_passes(const cfx__lowering *l, int slot);
bool cfx__plan_is_same(const cfx__lowering *l, int slot);
/* The step that may be done in one go with a slot, whose value goes unseen: one step reads it and
 * nobody looks on; -1: none. */
int cfx__plan_next(const cfx__lowering *l, int slot);
/* Whether step k does to each number of a slot what an epilogue can. */
bool cfx__plan_is_activation(const cfx__lowering *l, int k, int slot);
/* Calls fn for each slot in a template, and for each that a step reads; whether it reads one. */
void cfx__plan_each_slot(cfx_value v, cfx__plan_slot_fn *fn, void *user);
void cfx__plan_each_read(const cfx__run_step *s, cfx__plan_slot_fn *fn, void *user);
bool cfx__plan_reads(const cfx__run_step *s, int slot);
/* Whether a template has, or a step reads, what is only known when the plan runs. */
bool cfx__plan_has_unknown(const cfx__plan *p, cfx_value v);
bool cfx__plan_reads_unknown(const cfx__plan *p, const cfx__run_step *s);
/* A template with the tensors that the plan gives, fake or constant, in its slots; scope. */
cfx_value cfx__plan_filled(const cfx__plan *p, cfx_value v);
/* Whether a kernel can be given v for argument i as it is: the dispatcher makes tensors of numbers,
 * a plan does not. */
bool cfx__plan_takes(const cfx__run_step *s, int i, cfx_value v);
/* Whether the operator gives a view of its first argument with its elements in their order, in
 * other sizes; and whether it gives a view of it or a copy in order. */
bool cfx__plan_reshapes(const cfx_op *op);
bool cfx__plan_moves(const cfx_op *op);
/* Whether the operator gives memory of its own, never that of an argument. */
bool cfx__plan_makes_own(cfx_op *op);
/* By slot, whether a kernel that is made already reads it (to be freed); and, with that, whether
 * anything in the plan does, a step that is in no kernel yet among them. */
bool *cfx__plan_kernel_reads(const cfx__lowering *l);
bool cfx__plan_is_read(const cfx__lowering *l, const bool *by_kernels, int slot);
/* Whether a slot is the same in every run, be it computed already or put off. */
static inline bool cfx__plan_is_constant(const cfx__lowering *l, int slot) {
    return l->put_off[slot] || !cfx_is_bad(l->plan->constants[slot]);
}
/* Whether a step calls a higher-order operator whose sub-graphs write to nothing. */
bool cfx__plan_is_higher(const cfx__lowering *l, const cfx__run_step *s);
/* Finds which slots share memory and which of it is written to where it stands: l->ordered and
 * l->object; steps then read the slot that has an object as it is now. False where the graph does
 * what is not planned. */
bool cfx__plan_find_memory(cfx__lowering *l);
/* Lets a step read slot now[object[k]] instead of k; object may be NULL, for k itself. */
void cfx__plan_renew(const int *object, const int *now, cfx__run_step *s);
/* Which slots differ from run to run. False where a constant would be drawn from the generator, or
 * where something is printed or timed: that is for the interpreter. */
bool cfx__plan_find_variation(cfx__lowering *l);
/* Whether a step reads or gives an ordered slot: it is a kernel of its own, at its own place. */
bool cfx__plan_is_ordered(const cfx__lowering *l, int slot);
/* What a step calls: the functional form of an operator in place, unless what it writes to is
 * ordered. NULL: no operator. */
cfx_op *cfx__plan_op_called(const cfx__lowering *l, const cfx__run_step *s);
/* Lets steps read past those that only give their argument again. */
bool cfx__plan_pass_by(cfx__lowering *l);
/* Lets one step be what several spell out; none inside is read by others. */
bool cfx__plan_find_spelled(cfx__lowering *l);
/* Fills l->first and l->readers. */
bool cfx__plan_find_readers(cfx__lowering *l);
/* Makes a layer of step `slot` and what can follow it in one go; the slot that has the result, or
 * -1 where there is no kernel for it. */
int cfx__plan_fuse(cfx__lowering *l, int slot);
/* Makes views of calls whose result lies in the memory of an argument. */
bool cfx__plan_find_views(cfx__lowering *l);
/* Finds again where the view at a slot lies, in a copy of the plan that has the kernel `was`; false
 * where it is none, or of another slot. */
bool cfx__plan_view_again(cfx__plan *p, const cfx__plan_kernel *was, int slot);
/* The CPU's kernel for a layer, with the one before it where they are one; the caller owns a count.
 * NULL, with an error, without memory; without one, where they are not one any more. */
cfx__ready *cfx__plan_ready(const cfx__plan *p, const cfx__plan_kernel *k);
/* Notes a layer, which is copied: it reads slot x, adds slot `add` (-1: none) and computes n slots,
 * in order, of which the last has the result. */
void cfx__plan_put_layer(cfx__lowering *l, const cfx__layer *layer, int x, int add, int n,
                         const int *slots);
/* Makes step k, which calls op, part of a loop kernel; false where it cannot be. What it gives is
 * known already. */
bool cfx__plan_group_step(cfx__lowering *l, int k, cfx_op *op);
/* Makes the kernels of all groups. */
bool cfx__plan_make_loops(cfx__lowering *l);
/* The loop of a kernel at the sizes of l->plan, a copy of the plan `of` that has the old one;
 * value: one for each slot, to be used. NULL where its steps do not fit those sizes. */
cfx__loop *cfx__plan_loop_again(cfx__lowering *l, const cfx__plan *of, const cfx__plan_kernel *k,
                                int *value);
/* Makes kernels in integers of layers that stand between bytes. */
bool cfx__plan_find_islands(cfx__lowering *l);
/* Lets steps that give what an input becomes write to it. */
bool cfx__plan_update_in_place(cfx__lowering *l);
/* Lets attention read heads that are shared as they are, before they are repeated; then, when it is
 * known what reads what, leaves out what nothing reads and only moves numbers. */
bool cfx__plan_share_heads(cfx__lowering *l);
bool cfx__plan_is_repeated(const cfx__lowering *l, cfx__plan_repeat r);
bool cfx__plan_leave_unread(cfx__lowering *l);
/* Finds constants that are dequantized weights, which need not be computed: l->put_off. */
bool cfx__plan_put_off(cfx__lowering *l);
/* Makes kernels of calls that take weights of 8 and 4 bits; then what was put off is left out, or
 * computed where something else asks for it. */
bool cfx__plan_find_narrow(cfx__lowering *l);
/* The weight of step `slot` in integers, where it is dequantized; tensors are the scope's. */
bool cfx__plan_narrow(const cfx__lowering *l, int slot, cfx__narrow *to);
/* Whether a slot is float32 rounded to int8 in blocks and back, by choose_qparams_per_token of its
 * rows cut so: the size of the blocks and the slot x that it was; else 0. */
int64_t cfx__plan_rounded(const cfx__lowering *l, int slot, int *x);
/* Whether sums of integers times such scales, a contiguous tensor, are sums of the floats: none is
 * so large or small that products overflow earlier or later. */
bool cfx__plan_are_scales(const cfx_tensor *t);
/* Makes step k, whose result is known, a call, or one whose arguments are brought in order first;
 * given[k] then says how the result lies. */
bool cfx__plan_lower_call(cfx__lowering *l, int k);
/* Leaves step k, whose result is known, to the dispatcher. */
void cfx__plan_call(cfx__lowering *l, int k);

/* Finds concatenations and the homes of their parts: p->home, and how the whole lies. */
bool cfx__plan_find_homes(cfx__lowering *l);
/* How a result that has a home lies there; NULL where it has none. Scope. */
cfx_tensor *cfx__plan_home_like(const cfx__lowering *l, int slot);
/* Finds places for the results of layers and loops, by those; false where they are too large. */
bool cfx__plan_place_by(cfx__lowering *l, const cfx__plan_lives *v);
bool cfx__plan_place(cfx__lowering *l);
struct cfx__plan_blocks *cfx__plan_blocks_new(void); /* none yet; the caller owns a count */
/* Runs the graph on fake inputs: sizes of everything, and the values of what is constant. Then
 * notes the weights, and the numbers that follow from sizes. */
bool cfx__plan_run_fake(cfx__lowering *l);
bool cfx__plan_find_weights(cfx__lowering *l);
/* Finds the kernel of each step that has none: what passes values on, layers, steps of loops,
 * calls. */
bool cfx__plan_lower_steps(cfx__lowering *l);
/* Finds which kernel frees which slot. */
bool cfx__plan_find_lifetimes(cfx__lowering *l);

/* By input, whether a program writes to it: in place by the graph, or by a result that the
 * signature says it becomes; to be freed (session.c). */
bool *cfx__program_writes(const cfx_program *p);

/* Frees what resize.c knows of a plan. */
void cfx__plan_again_free(struct cfx__plan_again *a);

/* Whether a run may use a plan whose inputs are like these, as p->inputs has them. */
bool cfx__plan_fits(const cfx__plan *p, const cfx_value *inputs, const cfx_execution *e);

/* Writes a plan as text, with what lowering knows of each slot while it goes on (l; NULL: it is
 * done). */
void cfx__plan_put(cfx__text *t, const cfx__plan *p, const cfx__lowering *l);

#endif
