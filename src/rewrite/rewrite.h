/* rewrite: where a graph becomes a better graph.
 *
 * Invariant: what is given is never changed; a rewritten program is new and computes the same. */
#ifndef CFX__REWRITE_H
#define CFX__REWRITE_H

#include <cfx/rewrite.h>

#include "../run/run.h"
#include "../trace/worlds.h"

/* ---- running a graph again (rerun.c) --------------------------------------------------------- */

typedef struct cfx__rerun {
    cfx__recorder recorder; /* first */
    cfx_module *from, *to;  /* the GraphModule, and what receives children and constants */
    const cfx__worlds *worlds; /* whose sizes are those of world k */
    int k;
    int sizes_used;         /* sizes of the node at hand that depend on data, so far */
    cfx_value *values;      /* by id of the node of the old graph; counted */
    cfx_value keep;         /* operators to leave whole */
    bool whole;             /* that is, all of them */
    const int *order;       /* placeholder number order[i] comes i-th; NULL: as they are */
    VEC(cfx_tensor *) inputs; /* what placeholders gave, NULL where no tensor; by old number */
} cfx__rerun;

/* Runs the graph of run->from on fake tensors; its results, before they are nodes. False, with an
 * error that names the node. */
bool cfx__rerun_graph(cfx__rerun *run, cfx_value *result);
void cfx__rerun_done(cfx__rerun *run);
/* What the recorder is told of sizes that depend on data. */
int64_t cfx__rerun_data_size(cfx__recorder *r);
int64_t cfx__rerun_part_size(cfx__recorder *r, int64_t n);
/* And of numbers: whether the node that is run again is given a size that varies and is n now. */
bool cfx__rerun_varies(cfx__recorder *r, int64_t n);

#endif
