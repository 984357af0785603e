/* plan: lowers whole programs. This header documents a plan for everything that runs it or
 * generates code from it: the target, whose decisions lowering asks for, and the plan itself.
 *
 * A plan has one kernel for each step of a graph, in order; slot k is the result of step k. Kernels
 * say what they compute, never how: a LAYER is a record (src/ops/ready.h), a LOOP computes steps
 * over elements (loop.h), a VIEW is an offset and strides, a CALL is an operator with its
 * arguments. What a target prepares in order to run a kernel (cfx__plan_kernel.ready,
 * cfx__loop.schedule) is private to the target. docs/ADD_AN_EXECUTOR.md explains all of it.
 *
 * Invariant: a plan is made for one version of a graph, one set of weights, one number of
 * threads and inputs of one shape, and is immutable afterwards, so many threads may run it at
 * once. Each node is computed by one kernel, is part of another kernel's epilogue, is constant,
 * or passes a value on. Results have the sizes and values that the interpreter computes, but may
 * have other strides until they leave the plan. */
#ifndef CFX__PLAN_DESCRIPTION_H
#define CFX__PLAN_DESCRIPTION_H

#include "../ops/ready.h"
#include "../run/run.h"
#include "loop.h"

struct cfx__lowering;

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
    bool between;        /* VIEW: read by other views alone, which look into its root */
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

/* What lowering asks of the machine that a plan is for. */
typedef struct cfx__plan_target {
    const char *name;
    cfx_memory_format images; /* how images lie from one layer to the next */
    int64_t row_most;         /* elements of a row that a loop can fold or normalise */
    int64_t own_most;         /* bytes: results of up to so many share memory with no other, so that
                                 they may be read later than planned; 0: all may share */
    bool updates;             /* a functional update of an input is written to the input itself */
    int least;                /* fused kernels that make a plan worth it, at least */
    /* Whether one kernel computes a layer, with its epilogue and layouts. */
    bool (*takes)(const cfx__layer *l);
    /* Whether a loop is one kernel; NULL: each is. Its schedule is made here. */
    bool (*schedule)(cfx__loop *l);
    /* Whether write `out` of a loop may go to the memory of read `in`; NULL: never. */
    bool (*in_place)(const cfx__loop *l, int in, int out);
    /* Whether the result of a CALL, one tensor, is written where the plan says; NULL: never. */
    bool (*places)(const cfx__plan_kernel *k);
    /* Makes kernels ready to run; NULL: the plan is a description alone. False, with an error,
     * without memory. */
    bool (*bind)(struct cfx__lowering *l);
} cfx__plan_target;

/* The threads and vector units of this machine. */
extern const cfx__plan_target cfx__plan_cpu;

/* A weight that the plan was made of. */
typedef struct cfx__plan_weight {
    int input;         /* the number of the input; -1: `node` reads it from the module */
    const cfx_node *node;
    cfx_tensor *tensor; /* counted */
    uint32_t version;
} cfx__plan_weight;

/* Heads of keys or values that are repeated for the queries that share them; attention reads those
 * that are repeated. Slots. */
typedef struct cfx__plan_repeat {
    int x, wide, heads; /* what is repeated, expanded, and put together */
} cfx__plan_repeat;

typedef struct cfx__plan {
    cfx_obj head;
    const cfx__plan_target *target;
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
    VEC(cfx__plan_repeat) repeats; /* that are left out; they hold at the sizes of the plan */
    int ninputs;
    cfx_value *inputs;         /* what they were, fake, counted; bad where it is a weight */
    int *sharing;              /* by input: the memory that it was found to lie in, where the plan
                                  writes to that; -1: nowhere */
    int nbecomes, *becomes;    /* as told of the run that it was made for, where an input is
                                  written to because of it; else none */
    int threads;
    cfx_precision precision;
    int64_t scratch;           /* bytes, the most that a kernel needs */
    int64_t *offset;           /* by slot: where its result lies in a block; -1: not in one */
    int64_t room_bytes;        /* of those results */
    int *home;                 /* by slot: the JOIN whose part it is; -1: none's */
    int64_t *home_at;          /* by slot: where along the dimension that part begins */
    struct cfx__plan_blocks *blocks; /* memory of runs on the CPU; counted */
    struct cfx__plan_again *again;   /* what is known of it for other sizes; NULL: not asked yet */
    cfx__arena arena;
} cfx__plan;

/* ---- looking --------------------------------------------------------------------------------- */

typedef void cfx__plan_slot_fn(void *user, int slot);
/* Calls fn for each slot that a kernel reads, or stores beside its own. */
void cfx__plan_each_kernel_read(const cfx__plan_kernel *k, cfx__plan_slot_fn *fn, void *user);
/* How the result of a layer or a loop lies when it is made; fake. */
const cfx_tensor *cfx__plan_made(const cfx__plan *p, int slot);
/* How what a layer reads has to lie; fake. */
const cfx_tensor *cfx__plan_read(const cfx__plan *p, const cfx__plan_kernel *k);
/* The slot whose memory a slot looks into, through whichever views; itself where it is none. */
int cfx__plan_root(const cfx__plan *p, int slot);
/* Whether it depends on where its argument lies in a storage, which differs from run to run, if
 * there is such a view: it is called in every run then. */
bool cfx__plan_view_may_fail(const cfx__plan *p, int slot);
/* What a view gives, planned as v (a tensor or several), over the memory of a tensor that was
 * planned as `from`; scope. */
cfx_value cfx__plan_view(cfx_value v, const cfx_tensor *from, cfx_tensor *now);
/* Bytes from the start of the whole to a part. */
int64_t cfx__plan_home_offset(const cfx__plan *p, int slot);
/* Whether t has the strides of another tensor of its shape. */
bool cfx__plan_lies_like(const cfx_tensor *t, const cfx_tensor *like);
/* What a kernel is called, for the eye; "" for what only passes values on. Scope. */
const char *cfx__plan_kernel_name(const cfx__plan *p, const cfx__plan_kernel *k);

/* What places depend on beside sizes. By slot. */
typedef struct cfx__plan_lives {
    int *last;     /* the kernel that reads it last, through whichever view */
    int *root;     /* whose memory it is; -1: not known */
    bool *escapes; /* the caller gets it */
} cfx__plan_lives;
cfx__plan_lives *cfx__plan_lives_of(const cfx__plan *p); /* to be freed */

/* ---- making ---------------------------------------------------------------------------------- */

/* A plan for a run; the caller owns a count. NULL where the graph does what plans do not, with an
 * error where it fails on such inputs. */
cfx__plan *cfx__plan_make(const cfx__plan_target *target, const cfx_execution *e);
/* What lowering has after the pass of this name, as text; scope. "" where the graph is not planned;
 * NULL, with an error, where there is no such pass. */
const char *cfx__plan_after(const cfx__plan_target *target, const cfx_execution *e,
                            const char *pass);

#endif
