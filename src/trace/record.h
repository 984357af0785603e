/* Recording: operators that run on fake tensors become the nodes of an ATen graph.
 *
 * Invariant: while a recorder is active in a thread, each tensor that it knows stands for a node.
 * If the graph is to be functional, the recorded program handles outer tensors. An outer tensor is
 * a view (or all) of a base and holds an inner tensor as its current value. When the base is
 * written to through another view, the outer tensor becomes stale, and is brought up to date at its
 * next use. An inner tensor stands for the same node forever.
 *
 * Why two kinds? A functional graph has no writes, but the recorded program does: after `y =
 * x.view(-1)`, `y.add_(1)` changes x. One handle cannot represent both the program's tensor,
 * which changes, and the result of a node, which does not. So a write makes a new inner value of
 * the base (with the view written back into it, view_steps.c), all outer tensors of that base
 * become stale, and nothing else happens: an alias that is never read again costs no node.
 * PyTorch functionalises the same way, which is why nodes come out in PyTorch's order. */
#ifndef CFX__RECORD_H
#define CFX__RECORD_H

#include "branch.h"
#include "marks.h"
#include "record_log.h"
#include "trace.h"

enum { CFX__REFUSED_NUMBERS = 24 };

struct cfx__body;

typedef struct cfx__recorder {
    cfx_graph *graph;     /* where nodes are made */
    cfx__record_log *log; /* NULL: nobody asks */
    cfx__branch *branch;  /* not NULL: that is the graph of a sub-graph */
    bool functional;    /* writes become new values */
    bool numbers;       /* arithmetic of plain numbers becomes nodes too */
    /* What an operator is made of, which is recorded in its place; NULL: it is left whole. Asked
     * `early`, before functionalisation, and after it. */
    cfx_op_fn *(*decomposition_for)(struct cfx__recorder *r, cfx_op *op, bool early);
    /* The recorded tensor for one that the recorder does not know; the bad tensor, with an error,
     * where there can be none. */
    cfx_tensor *(*unknown_tensor)(struct cfx__recorder *r, cfx_site at, cfx_tensor *t);
    /* A symbol as an argument of a node; NULL: as it is. */
    cfx_value (*scalar)(struct cfx__recorder *r, cfx_value v);
    /* How many there are where only data could tell; -1: no one knows. NULL: the same. */
    int64_t (*data_size)(struct cfx__recorder *r);
    /* The size of a part of a dimension that seems to be n. NULL: it is. */
    int64_t (*part_size)(struct cfx__recorder *r, int64_t n);
    /* Whether a number is a size that varies. NULL: none does. */
    bool (*varies)(struct cfx__recorder *r, int64_t n);
    /* A while_loop of a decomposition as a node. NULL: there are none. */
    cfx_value (*loop)(struct cfx__recorder *r, cfx_site at, struct cfx__body *test,
                      struct cfx__body *body, cfx_value carried, cfx_value rest);
    /* A number of the kind of `like` that only running can tell, which node n gives (NULL: an input
     * of a body); and one that is a or b, as one of two branches gives it. Marked (marks.h). */
    cfx_value (*unknown)(struct cfx__recorder *r, cfx_value like, cfx_node *n);
    cfx_value (*either)(struct cfx__recorder *r, int64_t a, int64_t b);
    /* Whether the tensor, which has data, is one of the module's. NULL: none is. */
    bool (*holds)(struct cfx__recorder *r, const cfx_tensor *t);
    cfx__marks *marks; /* numbers that are not known; NULL: none is marked */
    /* Notes that node n gave the sizes that data_size and part_size were asked for. NULL: no one
     * asks. */
    void (*sized)(struct cfx__recorder *r, cfx_node *n);
    /* Adds metadata to a new node. */
    void (*note)(struct cfx__recorder *r, cfx_site at, cfx_node *n);
    /* By what PyTorch orders the inputs of sub-graphs: where the module has the tensor that node n
     * is; NULL for other nodes. Scope. */
    const char *(*place)(struct cfx__recorder *r, const cfx_node *n);
    cfx_node *like;     /* the node that is being run again, or NULL */
    void *user;
    cfx_op *asked_of;   /* the question that is being answered; NULL: none is */
    bool inside;        /* below functionalisation */
    /* Sizes and integers among the arguments of the first call that was refused. */
    int64_t refused[CFX__REFUSED_NUMBERS];
    int n_refused;
    bool fake_before;
    cfx__modes modes_before;
    cfx__mode_fn *mode_before;
    struct cfx__recorder *outer;
} cfx__recorder;

/* A number that is data: as one that nobody knows, which a node gives (unknown.c). False where op
 * does not read one, or it is known. */
bool cfx__unknown_item(cfx__recorder *r, cfx_site at, cfx_op *op, const cfx_value *args,
                       cfx_value *result);
/* Whether the results of an operator are as long as there are true elements in its argument. */
bool cfx__unknown_counts(const cfx_op *op);
/* Notes whose elements alone the call counts: they may be counted already. */
void cfx__unknown_count(cfx__recorder *r, cfx_op *op, const cfx_value *args);
/* Notes the numbers among the arguments of the first call whose result is bad (implied.c). */
void cfx__implied_note(cfx__recorder *r, cfx_value result, cfx_args a);
/* Makes r the calling thread's recorder until it ends; everything made meanwhile is fake. */
void cfx__record_begin(cfx__recorder *r);
void cfx__record_end(cfx__recorder *r);
/* Meanwhile nothing is recorded: calls run on fake tensors that stand for no node. */
typedef struct cfx__record_pause {
    cfx__recorder *recorder;
    cfx__mode_fn *mode;
} cfx__record_pause;
cfx__record_pause cfx__record_pause_begin(void);
void cfx__record_pause_end(cfx__record_pause p);
/* The active recorder, or NULL. */
cfx__recorder *cfx__recorder_now(void);
/* Until it ends, calls are recorded in a branch of the present graph. */
void cfx__record_branch_begin(cfx__recorder *r, cfx__branch *b);
void cfx__record_branch_end(cfx__recorder *r);
/* Steps out of all branches, to the graph of the whole; what goes back in is returned. */
cfx__branch *cfx__record_leave(cfx__recorder *r);
void cfx__record_return(cfx__recorder *r, cfx__branch *inside);

/* A fake tensor that lies in memory as another does, in a storage as long as that one's:
 * as_strided may reach all of it. Scope. */
cfx_tensor *cfx__record_outline(const cfx_tensor *like);
/* A fake tensor like t that stands for n: what a placeholder gives; scope. */
cfx_tensor *cfx__recorded_tensor(cfx__recorder *r, cfx_node *n, const cfx_tensor *like);
/* The node that v stands for now; NULL when v is no recorded tensor. Brings v up to date first. */
cfx_node *cfx__recorded_node(cfx__recorder *r, cfx_value v);
/* Whether the tensor, or another view of its base, was written to. */
bool cfx__recorded_written(const cfx_tensor *t);
/* v as an argument of a node: tensors become nodes, also inside containers. Scope. */
cfx_value cfx__record_arg(cfx__recorder *r, cfx_site at, cfx_value v);
/* A node for a call, called `name` by torch.fx's rules. */
cfx_node *cfx__record_node(cfx__recorder *r, cfx_site at, cfx_target target, cfx_value args,
                           cfx_value kwargs, const char *name);
/* What a node gives, in the shape of `like`: each tensor in it becomes one that stands for the
 * node or for an item of it. Scope. */
cfx_value cfx__record_results(cfx__recorder *r, cfx_site at, cfx_node *n, cfx_value like);

/* ---- functionalisation (functional.c) ------------------------------------------------------- */

/* What hangs on a tensor that the recorder knows. */
typedef struct cfx__record_shadow {
    cfx_obj head;
    cfx_node *node;          /* inner tensors; else NULL */
    cfx_tensor *value;       /* outer tensors: the inner one; counted */
    struct cfx__functional_base *base;  /* what it is a view of; counted */
    struct cfx__functional_step
        *view;               /* the last step from the base to it; NULL: the base itself */
    uint32_t version;        /* of the base that value was taken from */
} cfx__record_shadow;

/* The shadow of a recorded tensor; NULL for others. */
cfx__record_shadow *cfx__record_shadow_of(const cfx_tensor *t);
/* A new shadow on t, which takes it over. */
cfx__record_shadow *cfx__record_shadow_new(cfx_tensor *t);
/* An outer tensor that is a base of its own; scope. */
cfx_tensor *cfx__functional_new(cfx_tensor *inner);
/* Calls op on inner values: writes become values, views remember where they come from. */
cfx_value cfx__functional_call(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args);
/* The inner tensor of an outer one, up to date. */
cfx_tensor *cfx__functional_value(cfx__recorder *r, cfx_tensor *t);
/* The same for all tensors in a value; results as outer tensors, each the base of its own. */
cfx_value cfx__functional_unwrapped(cfx__recorder *r, cfx_value v);
cfx_value cfx__functional_wrapped(cfx_value v);
/* The value of a base, inner; another one, of which its views are taken again when they are used.
 */
cfx_tensor *cfx__functional_base_value(const struct cfx__functional_base *b);
void cfx__functional_base_assign(struct cfx__functional_base *b, cfx_tensor *value);
/* A fake tensor that lies in the memory of its base as t does; scope. */
cfx_tensor *cfx__functional_geometry(cfx__recorder *r, const cfx_tensor *t);
/* Whether two tensors are views of one base. */
bool cfx__functional_same_base(const cfx_tensor *t, const cfx_tensor *other);
/* The base of t lies in memory so that t, as it was before t_() and its like, has the strides of
 * `like`, wherever its storage is read: its value is brought to that order then. An error where t
 * is a view that has other strides. */
void cfx__functional_lies_as(cfx__recorder *r, cfx_site at, const cfx_tensor *t, cfx_tensor *like);
/* t, or a copy of it with the strides of `like`, which has its shape; scope. */
cfx_tensor *cfx__functional_laid_as(cfx__recorder *r, cfx_tensor *t, const cfx_tensor *like);
/* Whether an operator of the caller's that writes can be a value by auto_functionalized_v2, and the
 * call of one: a node that gives the bases of what is written, too (auto_functional.c). */
bool cfx__functional_can_auto(cfx_op *op);
cfx_value cfx__functional_auto(cfx__recorder *r, cfx_site at, cfx_op *op, cfx_value *args);

#endif
