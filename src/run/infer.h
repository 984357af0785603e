/* What nodes compute, by the shape rules of their operators on tensors without numbers. Sizes that
 * are symbols are numbers meanwhile, in several worlds: see trace/worlds.h. */
#ifndef CFX__INFER_H
#define CFX__INFER_H

#include "../trace/worlds.h"

#include "run.h"

typedef struct cfx__inference {
    const cfx_program *program;
    cfx_module *module; /* whose graph is looked at */
    uint64_t seen;      /* the version of that graph */
    struct cfx__in_place *in_place; /* by id of the node; NULL: no node of that graph writes */
    const cfx_node *region; /* the autocast that it is called in; NULL: none */
    cfx_dict *regions;      /* module to that; counted */
    cfx__worlds worlds;
    cfx__exprs exprs;
    int k;         /* the world in which shape rules run */
    bool begun;    /* symbols have sizes */
    uint32_t few;  /* worlds that are wanted, by number; 0: all */
    bool on;       /* past nodes of which it cannot be told */
    const cfx_node *node; /* whose shape rule runs */
    int64_t told[8];      /* sizes that only data could tell, as noted of it */
    int ntold, asked;     /* how many there are, and were asked for */
    int told_dim;         /* where there are none: which size of the first result it is, */
    bool supposed;        /* that was asked for */
    struct {
        const cfx_node *node;
        cfx_value v;
    } given[4];           /* tensors that it was given, the first ones: x.copy_(x) sees one */
    int ngiven;
    bool foreign;  /* the node is of a foreign operator, or takes a result of one */
    bool *changed; /* by id of the node: its result is not what it was */
    struct cfx__alike *alike; /* calls whose results are known; NULL: none yet (infer_alike.c) */
    cfx_node **place;         /* where the call that was asked for last goes there; or NULL */
} cfx__inference;

/* Gives symbols sizes, once; and lets go of all. */
void cfx__infer_begin(cfx__inference *f);
void cfx__infer_end(cfx__inference *f);
/* Gives them sizes in all worlds, where they have some in a few. */
void cfx__infer_widen(cfx__inference *f);
/* Gives them sizes that are further apart; false where that cannot be. */
bool cfx__infer_coarser(cfx__inference *f);
/* Gives them any sizes again. */
void cfx__infer_finest(cfx__inference *f);
/* What tells expressions from numbers in all worlds. */
cfx__exprs *cfx__infer_exprs(cfx__inference *f);
/* From now on the graph of m is looked at. */
void cfx__infer_enter(cfx__inference *f, cfx_module *m);
/* Whether the graph of a module that was entered is one that the program runs: a pass may have left
 * out the call, and in which precision it computes is not known then. */
bool cfx__infer_reaches(const cfx__inference *f, cfx_module *m);
/* Finds the in-place operators of a graph (cfx__infer_enter does it); the first argument of one,
 * NULL where n is none; and the node whose result says what the tensor of n is for a reader. */
void cfx__infer_find_in_place(cfx__inference *f, const cfx_graph *g);
cfx_node *cfx__infer_written(const cfx_node *n);
cfx_node *cfx__infer_latest(const cfx__inference *f, cfx_node *n, const cfx_node *reader);
/* A call before n whose shape rule gives what that of n gives, and which was learned; NULL: none.
 * And that the result which is noted of n, asked for last, is the right one. */
cfx_node *cfx__infer_alike(cfx__inference *f, cfx_node *n);
void cfx__infer_learned(cfx__inference *f, cfx_node *n);
/* Whether there is such a call, and the same is noted of both. */
bool cfx__infer_is_known(cfx__inference *f, cfx_node *n);
/* Whether what a node computes may be a part of what another one did. */
bool cfx__infer_is_view(const cfx_node *n);
/* Whether two results are alike, of which sizes are numbers. What is not known is like anything. */
bool cfx__infer_same(const cfx_result *a, const cfx_result *b);

typedef enum cfx__verdict {
    CFX__AS_NOTED, /* or it cannot be told */
    CFX__OTHERWISE,
    CFX__REFUSED
} cfx__verdict;

/* What n computes in world f->k, by its shape rule; expressions among its arguments are numbers.
 * Scope; bad, with an error. And what it computes in all worlds, v[k] in each, as metadata has it.
 */
cfx_value cfx__infer_computed(cfx__inference *f, cfx_node *n);
cfx_value cfx__infer_described(cfx__inference *f, const cfx_node *n, const cfx_value *v);
/* Whether nothing can be told of a call but what is noted: sub-graphs, what the registry does not
 * have, numbers that are read from tensors. */
bool cfx__infer_untold(const cfx_node *n);

/* Whether n computes in world f->k what is noted; *got and *noted, of the scope, are set where it
 * does otherwise. Where its operator refuses the inputs, an error says why. */
cfx__verdict cfx__infer_compare(cfx__inference *f, cfx_node *n, cfx_result *got, cfx_result *noted);

#endif
