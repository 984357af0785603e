/* plan: where a program is lowered as a whole.
 *
 * Invariant: a plan is made for one version of a graph, one set of weights, one number of threads
 * and inputs of one shape; it is never changed afterwards, so that many threads may run it at once.
 * Each node is computed by one kernel, is part of another's epilogue, is constant, or passes a
 * value on. What a node gives has the sizes and the numbers that the interpreter gives, but may lie
 * in another order of dimensions until it leaves the plan. */
#ifndef CFX__PLAN_H
#define CFX__PLAN_H

#include "../ops/ready.h"
#include "../run/run.h"
#include "loop.h"

typedef enum cfx__plan_kind {
    CFX__PLAN_NONE,  /* constant, or inside another kernel */
    CFX__PLAN_INPUT,
    CFX__PLAN_PASS,  /* the value of slot x as it is */
    CFX__PLAN_ITEM,  /* item `index` of slot x */
    CFX__PLAN_VIEW,  /* a look into the memory of slot x, or several: see cfx__plan.given */
    CFX__PLAN_CALL,  /* an operator as the dispatcher runs it */
    CFX__PLAN_LAYER, /* a call with what follows it; see src/ops/ready.h */
    CFX__PLAN_LOOP,  /* steps of several nodes, block by block */
    CFX__PLAN_HIGHER, /* a higher-order operator as the interpreter runs it */
    CFX__PLAN_JOIN,  /* a concatenation: parts that are not in their place yet are copied there */
    CFX__PLAN_OUTPUT
} cfx__plan_kind;

/* What is done at a node. */
typedef struct cfx__plan_kernel {
    cfx__plan_kind kind;
    const cfx__run_step *step;
    cfx_op *op;          /* CALL, VIEW: what is called, never an in-place form */
    cfx__layer *layer;   /* LAYER; counted. NONE too, where the layer behind it computes it */
    int first;           /* LAYER: the slot of the layer that is computed in the same go, whose
                            result is not stored; -1: none */
    cfx__ready *ready;   /* LAYER: the CPU's kernel; counted */
    int x, add;          /* LAYER: slots that are read and added (-1: none); PASS, ITEM, VIEW: x */
    int64_t index;       /* of an ITEM; JOIN: the dimension */
    int list;            /* VIEW: item `index` of the views at this slot; -1: of none */
    bool same;           /* VIEW: the tensor of slot x itself */
    int input;           /* the number of an INPUT */
    bool reorder;        /* tensors read are brought to the strides of `wanted` first */
    int nchain, *chain;  /* LAYER, LOOP: the slots that it computes, in order; the last has its
                            own result */
    cfx__loop *loop;     /* LOOP; counted */
    int nreads, *reads;  /* LOOP: slots that it reads, in the order of the loop's */
    cfx_tensor **read_like; /* LOOP: how those have to lie; fake or constant, counted */
    int nwrites, *writes; /* LOOP: slots that it stores, the same */
    bool stored;         /* NONE: the loop that has it stores its value all the same */
    int nfrees, *frees;  /* slots whose last use this is */
} cfx__plan_kernel;

/* A weight that the plan was made of. */
typedef struct cfx__plan_weight {
    int input;         /* the number of the input; -1: `node` reads it from the module */
    const cfx_node *node;
    cfx_tensor *tensor; /* counted */
    uint32_t version;
} cfx__plan_weight;

/* Memory of a run: the results of layers and loops, and views of them. */
typedef struct cfx__plan_room {
    cfx_obj head;
    cfx_tensor *memory; /* counted */
    int n;
    cfx_value *values;  /* by slot: a tensor in the memory, or views of such; counted; bad: none */
    struct cfx__plan_room *next;
} cfx__plan_room;

typedef struct cfx__plan {
    cfx_obj head;
    cfx__steps *steps; /* counted */
    cfx_module *lowered; /* the graph in ATen that it was made of; counted; NULL: the run's own */
    const cfx_graph *source; /* the graph that one was made of; borrowed */
    int n;
    cfx__plan_kernel *kernels; /* by slot */
    cfx_value *constants;      /* by slot, counted; bad where it is none */
    cfx_value *wanted;         /* by slot, counted: what the interpreter gives, fake */
    cfx_value *given;          /* by slot, counted: what the plan gives, fake; the offset of a view
                                  is from the first element of its root */
    VEC(cfx__plan_weight) weights;
    int ninputs;
    cfx_value *inputs;         /* what they were, fake, counted; bad where it is a weight */
    int *sharing;              /* by input: the memory that it was found to lie in, where the plan
                                  writes to that; -1: nowhere */
    int nbecomes, *becomes;    /* as told of the run that it was made for, where an input is
                                  written to because of it; else none */
    int threads;
    cfx_precision precision;
    int64_t scratch;           /* bytes, the most that a kernel needs */
    int64_t *offset;           /* by slot: where its result lies in a room; -1: not in one */
    int64_t room_bytes;        /* of those results */
    int *home;                 /* by slot: the JOIN whose part it is; -1: none's */
    int64_t *home_at;          /* by slot: where along the dimension that part begins */
    bool rooms_lock;
    int nrooms;
    cfx__plan_room *rooms;     /* that no run has; counted */
    cfx__arena arena;
} cfx__plan;

/* ---- lowering -------------------------------------------------------------------------------- */

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
    const cfx_execution *e;
    int *first, *readers; /* by slot: readers[first[k]] .. readers[first[k + 1] - 1] read slot k */
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
} cfx__lowering;

/* What a kernel is called, for the eye; "" for what only passes values on. Scope. */
const char *cfx__plan_kernel_name(const cfx__plan *p, const cfx__plan_kernel *k);

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
typedef void cfx__plan_slot_fn(void *user, int slot);
void cfx__plan_each_slot(cfx_value v, cfx__plan_slot_fn *fn, void *user);
void cfx__plan_each_read(const cfx__run_step *s, cfx__plan_slot_fn *fn, void *user);
bool cfx__plan_reads(const cfx__run_step *s, int slot);
/* A template with the tensors that the plan gives, fake or constant, in its slots; scope. */
cfx_value cfx__plan_filled(const cfx__plan *p, cfx_value v);
/* Whether a kernel can be given v for argument i as it is: the dispatcher makes tensors of numbers,
 * a plan does not. */
bool cfx__plan_takes(const cfx__run_step *s, int i, cfx_value v);
/* Whether the operator gives memory of its own, never that of an argument. */
bool cfx__plan_makes_own(cfx_op *op);
/* Calls fn for each slot that a kernel reads, or stores beside its own. */
void cfx__plan_each_kernel_read(const cfx__plan_kernel *k, cfx__plan_slot_fn *fn, void *user);
/* By slot, whether a kernel that is made already reads it (to be freed); and, with that, whether
 * anything in the plan does, a step that is in no kernel yet among them. */
bool *cfx__plan_kernel_reads(const cfx__lowering *l);
bool cfx__plan_is_read(const cfx__lowering *l, const bool *by_kernels, int slot);
/* Whether a slot is the same in every run, be it computed already or put off. */
static inline bool cfx__plan_is_constant(const cfx__lowering *l, int slot) {
    return l->put_off[slot] || !cfx_is_bad(l->plan->constants[slot]);
}
/* Whether t has the strides of another tensor of its shape. */
bool cfx__plan_lies_like(const cfx_tensor *t, const cfx_tensor *like);
/* How the result of a layer or a loop lies when it is made; fake. */
const cfx_tensor *cfx__plan_made(const cfx__plan *p, int slot);
/* How what a layer reads has to lie; fake. */
const cfx_tensor *cfx__plan_read(const cfx__plan *p, const cfx__plan_kernel *k);
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
bool cfx__plan_find_variation(cfx__lowering *l, bool *varies);
/* Whether a step reads or gives an ordered slot: it is a kernel of its own, at its own place. */
bool cfx__plan_is_ordered(const cfx__lowering *l, int slot);
/* What a step calls: the functional form of an operator in place, unless what it writes to is
 * ordered. NULL: no operator. */
cfx_op *cfx__plan_op_called(const cfx__lowering *l, const cfx__run_step *s);
/* Lets steps read past those that only give their argument again. */
void cfx__plan_pass_by(cfx__lowering *l);
/* Lets one step be what several spell out; none inside is read by others. */
void cfx__plan_find_spelled(cfx__lowering *l);
/* Fills l->first and l->readers. */
void cfx__plan_find_readers(cfx__lowering *l);
/* Makes a layer of step `slot` and what can follow it in one go; the slot that has the result, or
 * -1 where there is no kernel for it. */
int cfx__plan_fuse(cfx__lowering *l, int slot);
/* Makes views of calls whose result lies in the memory of an argument. */
void cfx__plan_find_views(cfx__lowering *l);
/* The slot whose memory a slot looks into, through whichever views; itself where it is none. */
int cfx__plan_root(const cfx__plan *p, int slot);
/* What a view gives, planned as v (a tensor or several), over the memory of a tensor that was
 * planned as `from`; scope. */
cfx_value cfx__plan_view(cfx_value v, const cfx_tensor *from, cfx_tensor *now);
/* Notes a layer, which is copied: it reads slot x, adds slot `add` (-1: none) and computes n slots,
 * in order, of which the last has the result. */
void cfx__plan_put_layer(cfx__lowering *l, const cfx__layer *layer, int x, int add, int n,
                         const int *slots);
/* Makes the kernels of layers ready, two as one where there is such. False, with or without an
 * error, where there is no memory. */
bool cfx__plan_bind(cfx__lowering *l);
/* Makes step k, which calls op, part of a loop kernel; false where it cannot be. What it gives is
 * known already. */
bool cfx__plan_group_step(cfx__lowering *l, int k, cfx_op *op);
/* Makes the kernels of all groups. */
void cfx__plan_make_loops(cfx__lowering *l);
/* Makes kernels in integers of layers that stand between bytes. */
void cfx__plan_find_islands(cfx__lowering *l);
/* Lets steps that give what an input becomes write to it. */
void cfx__plan_update_in_place(cfx__lowering *l);
/* Lets attention read heads that are shared as they are, before they are repeated; then, when it is
 * known what reads what, leaves out what nothing reads and only moves numbers. */
void cfx__plan_share_heads(cfx__lowering *l);
void cfx__plan_leave_unread(cfx__lowering *l);
/* Finds constants that are dequantized weights, which need not be computed: l->put_off. */
void cfx__plan_put_off(cfx__lowering *l, const bool *varies);
/* Makes kernels of calls that take weights of 8 and 4 bits; then what was put off is left out, or
 * computed where something else asks for it. */
void cfx__plan_find_narrow(cfx__lowering *l);
/* The weight of step `slot` in integers, where it is dequantized; tensors are the scope's. */
bool cfx__plan_narrow(const cfx__lowering *l, int slot, cfx__narrow *to);
/* Whether sums of integers times such scales, a contiguous tensor, are sums of the floats: none is
 * so large or small that products overflow earlier or later. */
bool cfx__plan_are_scales(const cfx_tensor *t);
/* Leaves step k, whose result is known, to the dispatcher. */
void cfx__plan_call(cfx__lowering *l, int k);

/* Finds concatenations and the homes of their parts: p->home, and how the whole lies. */
void cfx__plan_find_homes(cfx__lowering *l);
/* How a result that has a home lies there; NULL where it has none. Scope. */
cfx_tensor *cfx__plan_home_like(const cfx__lowering *l, int slot);
/* Bytes from the start of the whole to a part. */
int64_t cfx__plan_home_offset(const cfx__plan *p, int slot);
/* Finds places for the results of layers and loops; false where they are too large. */
bool cfx__plan_place(cfx__lowering *l);
/* A room that no other run has, and back. NULL, with an error, when out of memory. */
cfx__plan_room *cfx__plan_room_take(cfx__plan *p, cfx_site at);
void cfx__plan_room_give(cfx__plan *p, cfx__plan_room *r);

/* A plan for a run; the caller owns a count. NULL where the graph does what plans do not, with an
 * error where it fails on such inputs. */
cfx__plan *cfx__plan_make(const cfx_execution *e);

#endif
