/* form: the size-dependent part of a plan, as the CPU runs it for inputs of one shape.
 *
 * Lowering takes microseconds a node, more than a run of a small program, and most of its result
 * does not depend on sizes: which nodes form a kernel, who reads what, what is constant. So a
 * dynamic program has one plan, and a form for each shape: sizes and strides of results, numbers
 * derived from sizes, kernels prepared for them, arena offsets. The first form is made by lowering;
 * resize.c makes the others by walking the plan again with other sizes, and gives up if a decision
 * changes.
 *
 * Invariant: a form is immutable and contains everything that depends on sizes; a run reads
 * nothing size-dependent from the plan. */
#ifndef CFX__PLAN_FORM_H
#define CFX__PLAN_FORM_H

#include "plan.h"

/* A kernel at these sizes; counted. */
typedef struct cfx__plan_bound {
    cfx__ready *ready;   /* LAYER */
    cfx_tensor *x, *out; /* LAYER: how what it reads and gives lies; fake */
    cfx__loop *loop;     /* LOOP: reads are its first lanes */
} cfx__plan_bound;

/* A value that a form has in place of the plan's; counted. */
typedef struct cfx__plan_other {
    int slot;
    cfx_value v;
} cfx__plan_other;

typedef struct cfx__plan_form {
    cfx_obj head;
    cfx__plan *plan;     /* counted */
    cfx_value *inputs;   /* these three as in the plan, whose own they are in its first form; in */
    cfx_value *given;    /* others, what no run asks for is left out */
    int64_t *offset;
    int nconstants, nwanted;
    cfx__plan_other *constants, *wanted; /* that differ from the plan's, by slot */
    int64_t room_bytes, scratch;
    cfx__plan_bound **bound; /* by slot; NULL: neither a LAYER nor a LOOP */
    cfx__arena arena;
} cfx__plan_form;

/* The form of a plan for the sizes of `sized`, which is the plan or its copy at other sizes; such a
 * copy loses its values and kernels to the form. The caller owns a count. */
cfx__plan_form *cfx__plan_form_new(cfx__plan *p, cfx__plan *sized);
/* As in the plan: what a slot is in every run at these sizes, and what the interpreter gives there,
 * where a run asks for that. */
cfx_value cfx__plan_form_constant(const cfx__plan_form *f, int slot);
cfx_value cfx__plan_form_wanted(const cfx__plan_form *f, int slot);
/* A form of the plan for a run whose inputs have other sizes; the caller owns a count. NULL where
 * the plan does not serve those, with an error only where there is no memory or time. */
cfx__plan_form *cfx__plan_resized(cfx__plan *p, const cfx_execution *e);
/* Whether a run may use the plan, whatever the sizes of its inputs. */
bool cfx__plan_serves(const cfx__plan *p, const cfx_execution *e);
/* How the result of a layer or a loop lies when it is made; fake. */
const cfx_tensor *cfx__plan_form_made(const cfx__plan_form *f, int slot);

/* ---- other sizes (again.c, resize.c) --------------------------------------------------------- */

/* What is asked of a plan for each new size. */
struct cfx__plan_again {
    bool never;         /* it serves its own sizes alone */
    int *first, *reads; /* by slot: reads[first[k]] .. reads[first[k + 1] - 1] are read by step k */
    bool *live;         /* by slot: what it gives is asked for by some kernel, or may not be */
    bool *member;       /* by slot: it is part of a loop */
    bool *wanted, *given; /* by slot: a run looks at that */
    cfx__plan_lives *lives;
};
/* Found when first asked for; called by one thread at a time. */
const struct cfx__plan_again *cfx__plan_again_of(cfx__plan *p);

/* ---- memory of runs (room.c) ----------------------------------------------------------------- */

/* A form's tensors in a block: the results of layers and loops, and views of them. */
typedef struct cfx__plan_room {
    cfx_obj head;
    const cfx__plan_form *form; /* borrowed: it takes its rooms with it */
    cfx_tensor *memory;         /* the block's */
    int n;
    cfx_value *values;  /* by slot: a tensor in the memory, or views of such; counted; bad: none */
    struct cfx__plan_room *next;
} cfx__plan_room;

/* Memory of a run, and of the next run of any plan of the graph. */
typedef struct cfx__plan_block {
    cfx_obj head;
    cfx_tensor *memory;    /* counted */
    bool busy;             /* a run has it */
    cfx__plan_room *rooms; /* of forms that were here; counted */
    struct cfx__plan_block *next;
} cfx__plan_block;

/* The blocks of a graph, which all plans of it share. */
typedef struct cfx__plan_blocks {
    cfx_obj head;
    bool lock; /* of the list, and of the lists of rooms */
    cfx__plan_block *first; /* counted */
} cfx__plan_blocks;

/* A block that no other run has, with the form's room there, and back. NULL, with an error, when
 * out of memory. */
cfx__plan_block *cfx__plan_room_take(const cfx__plan_form *f, cfx_site at, cfx__plan_room **room);
void cfx__plan_room_give(const cfx__plan_form *f, cfx__plan_block *b);
/* Takes the form's tensors out of all blocks: it is freed. */
void cfx__plan_rooms_leave(const cfx__plan_form *f);

#endif
