/* plan: a plan prepared for a card.
 *
 * It is a list of steps in the order of the plan's kernels: launches of rendered kernels and of
 * those in src/cuda/kernels, calls of cuBLASLt and cuDNN, and calls without a GPU form, which run
 * on the host between copies. All addresses are fixed when the plan is made, so sequences of steps
 * without host work are CUDA graphs, which are replayed in each run.
 *
 * Invariant: one thread at a time uses a prepared plan and holds the card (cfx__cuda_enter).
 * Inputs are copied to their fixed addresses first, and results to new memory last, so no
 * address of the caller is in a graph. */
#ifndef CFX__CUDA_PLAN_H
#define CFX__CUDA_PLAN_H

#include "device.h"
#include "launch.h"
#include "render.h"

struct cfx__cuda_plan;

enum { CFX__CUDA_USES_BLAS = 1, CFX__CUDA_USES_DNN = 2 };

/* Something that a library computes: made once, then run on the stream of the card. */
typedef struct cfx__cuda_job {
    cfx_obj head;
    const char *name;
    int uses;        /* which library */
    int ways, way;   /* algorithms of the library for this, and the one that is taken */
    int64_t scratch; /* bytes */
    int nreads;
    const cfx__c_ref *reads[4]; /* that may be weights */
    bool (*run)(const struct cfx__cuda_job *j, struct cfx__cuda_plan *p);
} cfx__cuda_job;

typedef enum cfx__cuda_step_kind {
    CFX__CUDA_KERNEL, /* a launch */
    CFX__CUDA_JOB,
    CFX__CUDA_HOST /* the kernel of the plan at `slot`, as the host runs it */
} cfx__cuda_step_kind;

typedef struct cfx__cuda_step {
    cfx__cuda_step_kind kind;
    int slot;
    const char *function; /* KERNEL; of the plan's arena */
    void *code;           /* KERNEL: the function on the card */
    unsigned grid[3], block[3], shared;
    bool cooperative; /* its blocks wait for each other */
    bool left_out; /* another way to do the same is faster */
    int nwords;
    uint64_t *words;
    cfx__cuda_job *job; /* counted */
} cfx__cuda_step;

/* Steps [from, to) without the host between them. */
typedef struct cfx__cuda_stretch {
    int from, to;
    void *graph; /* to be launched; NULL: not captured yet, or not worth it */
} cfx__cuda_stretch;

/* A weight on the card, which plans of one program share. */
typedef struct cfx__cuda_held {
    cfx_obj head;
    cfx__cuda_device *device;
    cfx__cuda_address at;
    int64_t bytes;
    cfx_tensor *of;   /* whose memory it was read from; counted; NULL: a plan's own */
    const void *data; /* there */
    uint32_t version;
    struct cfx__cuda_held *next; /* of those that are shared */
} cfx__cuda_held;

/* An input that the plan writes to. */
typedef struct cfx__cuda_state {
    int input;
    bool own; /* a twin of what lies on the host; else the tensor's own memory */
    cfx__cuda_address at;
    int64_t bytes;
    cfx_tensor *of;   /* whose numbers the twin has, as long as nobody writes to it; counted */
    uint32_t version; /* of its storage then */
} cfx__cuda_state;

typedef struct cfx__cuda_plan {
    cfx_obj head;
    cfx__plan *plan; /* counted */
    cfx__cuda_device *device;
    char *failed; /* why it could not be made; NULL: it was */
    cfx_error_kind failure;
    const cfx__c_refs *refs; /* by slot; where they say ARENA, bytes from `arena` on */
    cfx__c_refs *results;    /* by slot of what leaves the plan, in the strides that are wanted */
    cfx__cuda_address arena;
    int64_t arena_bytes, scratch_at, flag_at, counters_at;
    VEC(cfx__cuda_step) steps;
    VEC(cfx__cuda_stretch) stretches;
    VEC(cfx__cuda_held *) weights; /* by number; counted; NULL: nothing reads it */
    VEC(cfx__cuda_code *) codes;   /* counted */
    VEC(cfx__cuda_state) states;
    bool watched;                  /* made for somebody who looks at values */
    bool flags;                    /* some kernel looks whether indices are in range */
    int runs;                      /* that nobody watched */
    cfx__arena memory;
} cfx__cuda_plan;

/* The weight on the card; NULL, with an error. The caller owns a count, which the second takes back
 * (weights.c). */
cfx__cuda_held *cfx__cuda_held_get(cfx__cuda_plan *p, const cfx__c_weight *of);
void cfx__cuda_held_drop(cfx__cuda_held *w);

/* The form of an execution; NULL where it is not for the card (make.c). */
cfx__cuda_plan *cfx__cuda_plan_make(cfx__cuda_device *d, const cfx_execution *e);
/* Where a ref is on the card. */
cfx__cuda_address cfx__cuda_where(const cfx__cuda_plan *p, const cfx__c_ref *r);
/* Runs it (run.c). */
cfx_value cfx__cuda_plan_run(cfx__cuda_plan *p, const cfx_execution *e);

/* Whether a run's inputs that are written to are those of the plan; they go to the card, and back
 * (state.c). */
bool cfx__cuda_states_fit(const cfx__cuda_plan *p, const cfx_execution *e);
bool cfx__cuda_states_in(cfx__cuda_plan *p, const cfx_execution *e);
bool cfx__cuda_states_out(cfx__cuda_plan *p, const cfx_execution *e);
void cfx__cuda_states_free(cfx__cuda_plan *p);

/* ---- work that is not rendered --------------------------------------------------------------- */

enum { CFX__CUDA_OPERANDS = 32 };

/* A launch of a text of its own, and the memory that it is given. */
typedef struct cfx__cuda_called {
    cfx__cuda_launch launch;
    int code; /* number of its text among those that were asked for */
    cfx__c_ref refs[CFX__CUDA_OPERANDS];
} cfx__cuda_called;

/* Two ways to do one thing: steps [a, b) and [b, c). */
typedef struct cfx__cuda_trial {
    int a, b, c;
    const char *key; /* of the first */
} cfx__cuda_trial;

/* A weight and the number of it in bfloat16. */
typedef struct cfx__cuda_rounded {
    int of, is;
} cfx__cuda_rounded;

/* A plan being made ready. */
typedef struct cfx__cuda_making {
    cfx__cuda_plan *p;
    const cfx_execution *e;
    cfx__c c;
    cfx__c_unit unit;
    cfx__cuda_pen text;
    int64_t scratch;               /* bytes, the most that a step needs */
    cfx__cuda_codes codes;
    VEC(cfx__cuda_called *) calls; /* by step, from its nwords; in c's memory */
    VEC(cfx__cuda_trial) trials;
    VEC(cfx__cuda_rounded) rounded;
    bool *wide;  /* by slot: its kernel takes float32 alone; NULL: nothing is halved */
    int done;    /* the last slot that has its steps: a product may bring others with it */
    int way;     /* of a library: the one that was found before; -1: none was */
    bool few;    /* the product of this slot is one that no library is tried for */
    bool apart;  /* somebody looks at values: each slot has steps of its own */
    bool kept;   /* something that is written to leaves the plan */
    bool again;  /* a slot was found to be wide */
    bool halves; /* some results lie in bfloat16 */
} cfx__cuda_making;

/* Whether a slot has something to be computed. */
bool cfx__cuda_computes(const cfx__plan *p, int slot);
/* Where steps and kernels end: to go back there, from a way that could not be gone to its end. */
typedef struct cfx__cuda_mark {
    size_t steps, made, calls;
} cfx__cuda_mark;
cfx__cuda_mark cfx__cuda_mark_of(const cfx__cuda_making *m);
void cfx__cuda_go_back(cfx__cuda_making *m, cfx__cuda_mark to);
/* Bytes from where the memory of a ref begins, which is a multiple of 256. */
int64_t cfx__cuda_offset(const cfx__c_ref *r);
/* Bytes from the first to the last that a ref reaches; whether two have none in common. */
int64_t cfx__cuda_bytes(const cfx__c_ref *r);
bool cfx__cuda_are_apart(const cfx__c_ref *a, const cfx__c_ref *b);
/* A text of the plan's own. */
const char *cfx__cuda_own_text(cfx__cuda_making *m, const char *text);
/* Makes one kernel of several small ones that follow each other (join.c); elements of each. */
enum { CFX__CUDA_SMALL = 4096 };
void cfx__cuda_join(cfx__cuda_making *m);
/* A place of its own for what lies like a ref. */
const cfx__c_ref *cfx__cuda_room_like(cfx__cuda_making *m, const cfx__c_ref *r);
/* Launches of a piece of work, whose operands are these refs. False where the card cannot launch
 * them: too much shared memory, or more blocks that wait for each other than run at a time. */
bool cfx__cuda_add_work(cfx__cuda_making *m, int slot, const cfx__cuda_work *w, int n,
                        const cfx__c_ref *const *refs);
/* Finds places for inputs that are written to, and for what calls in place give; false where that
 * is for the host. Then such a call, and the functional form of an operator, or the operator itself
 * (state.c). */
bool cfx__cuda_place_states(cfx__cuda_making *m);
bool cfx__cuda_try_update(cfx__cuda_making *m, int slot);
cfx_op *cfx__cuda_functional(cfx_op *op);
/* The call at a slot, rendered (make.c). */
bool cfx__cuda_add_call(cfx__cuda_making *m, int slot);
/* Elements whose places are told by others, read or written (builtin_index.c). */
bool cfx__cuda_try_index(cfx__cuda_making *m, int slot);
/* Lets activations lie in bfloat16 where kernels take them so (halves.c). */
void cfx__cuda_halve(cfx__cuda_making *m);
/* Whether the text that is rendered for a slot may read and write what is halved. */
bool cfx__cuda_can_render(const cfx__cuda_making *m, int slot);
/* A ref in the dtype that the others of a kernel at the slot have: itself, or, where one of both is
 * halved, a copy, which is a step. NULL where that cannot be. And a constant, in memory of the
 * host's; scope. */
const cfx__c_ref *cfx__cuda_as(cfx__cuda_making *m, int slot, const cfx__c_ref *r, cfx_dtype d);
cfx_tensor *cfx__cuda_weight_as(cfx_tensor *t, cfx_dtype d);
/* Images of four dims in a dtype, with their channels beside each other: as they lie, or a copy.
 * NULL: there can be none (calls.c). */
const cfx__c_ref *cfx__cuda_images(cfx__cuda_making *m, int slot, const cfx__c_ref *x,
                                   cfx_dtype d);
/* What a slot computes by kernels written by hand; false where there are none (builtin.c). */
bool cfx__cuda_try_builtin(cfx__cuda_making *m, int slot);
/* What steps [from, to) are, in words that other plans have for the same sizes; scope. And which
 * way was found to be the fastest before: 'a' those steps, 'b', 'c' and so on those of a library,
 * 0: it is not known (autotune.c). */
const char *cfx__cuda_way_key(const cfx__cuda_making *m, int from, int to);
char cfx__cuda_way_kept(const char *key);
/* Memory for everything but weights; then the functions of all steps and the words that they are
 * given, with the weights that they read. False, with an error (resolve.c). */
bool cfx__cuda_allocate(cfx__cuda_making *m);
bool cfx__cuda_resolve(cfx__cuda_making *m);
enum { CFX__CUDA_LINE = 256 }; /* bytes: what places of our own are aligned to */
/* Leaves out the slower of two ways to do the same. False, with an error. */
bool cfx__cuda_autotune(cfx__cuda_making *m);
/* Starts a step; overlaps: a kernel, while the kernel before it in the stream ends (run.c). */
bool cfx__cuda_start(cfx__cuda_plan *p, const cfx__cuda_step *s, bool overlaps);
/* A copy of what lies at a ref. */
bool cfx__cuda_add_copy(cfx__cuda_making *m, int slot, const cfx__c_ref *to,
                        const cfx__c_ref *from);
/* Elements whose places are told by others, rendered: see cfx__cuda_render_index. */
struct cfx__cuda_index_call;
bool cfx__cuda_add_index(cfx__cuda_making *m, int slot, const struct cfx__cuda_index_call *call,
                         const cfx__c_ref *x, const cfx__c_ref *y, const cfx__c_ref *const *by);
/* A step that a library computes, which takes over the count of the job. */
void cfx__cuda_add_job(cfx__cuda_making *m, int slot, cfx__cuda_job *job);
/* The product or convolution at a slot, be it a layer or a call, by a library; false where none
 * takes it (products.c, convolutions.c). */
bool cfx__cuda_try_product(cfx__cuda_making *m, int slot);
bool cfx__cuda_try_convolution(cfx__cuda_making *m, int slot);
/* Whether one of them may: whether it is a product or convolution (calls.c). */
bool cfx__cuda_has_library(const cfx__cuda_making *m, int slot);

/* The product or convolution at a slot, matmul too: its operator and what it is of; NULL: none
 * (calls.c). */
struct cfx__c_work;
const cfx_op *cfx__cuda_work_of(cfx__cuda_making *m, int slot, struct cfx__c_work *k);
/* The dims of a ref before its last `keep` as one: how many elements, and how far they are apart (0
 * where there is one); false where they are not evenly apart. */
bool cfx__cuda_flatten(const cfx__c_ref *r, int keep, int64_t *size, int64_t *stride);
/* How many posts cuBLASLt and cuDNN do themselves: an addition of what lies like the result (*add,
 * or NULL), then relu. */
int cfx__cuda_library_posts(const struct cfx__c_work *k, const cfx__c_ref **add, bool *relu);
/* What follows a product from post number `from` on, as a kernel over its result; false where it
 * cannot be written. */
bool cfx__cuda_posts(cfx__cuda_making *m, int slot, const struct cfx__c_work *k, int from);

/* Bytes of results that no other shares its memory with: work on them may be put off. */
enum { CFX__CUDA_OWN = 32 << 10 };
/* What is done while the driver makes a context; ends when the plan is made, or NULL (ahead.c). */
struct cfx__cuda_ahead *cfx__cuda_ahead_begin(cfx__cuda_device *d, const cfx__plan *p);
void cfx__cuda_ahead_end(struct cfx__cuda_ahead *a, const cfx__cuda_plan *made);
/* The second leaves functional updates of inputs what they are: where one cannot be written to on
 * the card, the result goes to it when the run is over (target.c). */
extern const cfx__plan_target cfx__plan_cuda, cfx__plan_cuda_apart;
/* Rows of a product that is bound by reading its weight, and up to which no library is tried. */
enum { CFX__CUDA_SKINNY = 16, CFX__CUDA_FEW = 8 };

#endif
