/* Work on several ranks: a program cut into stages that follow each other (a pipeline), and a
 * module that all ranks train on their own shares of the data (data parallel).
 *
 * All of it goes over a group (cfx/group.h): MPI's, or that of simulated ranks. Every rank makes
 * the same calls in the same order; where one fails, the others do too. */
#ifndef CFX_RANKS_H
#define CFX_RANKS_H

#include <cfx/group.h>
#include <cfx/optim.h>
#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pipelines ------------------------------------------------------------------------------- */

/* A pipeline: rank i runs stage i. It is a counted object, for one thread.
 *
 *     cfx_pipeline *line = cfx_pipeline_new(group, stage, whole->out_spec);
 *     cfx_pipeline_run(line, next_batch, take_result, &mine);
 *
 * What a stage gives goes to the next while that works on what came before; results come back to
 * rank 0 in the order of batches. A stage keeps what its program writes to (caches) with itself. */
typedef struct cfx_pipeline cfx_pipeline;

/* This rank's part of a pipeline over all ranks of the group: `stage` is its program, which takes
 * by position what the one before gives (cfx_program_stages makes such). out_spec is the tree of
 * the whole program's results, or None where they are a flat tuple; rank 0 puts results together
 * by it. Both are kept; the group has to stay. Scope; NULL with an error. */
CFX_API cfx_pipeline *cfx_pipeline_new(cfx_group *g, cfx_program *stage, cfx_value out_spec);
/* Batches may be on their way at once, so many at most; 0: four for each rank. 1 is for those whose
 * next batch depends on the last result, such as a token on the token before: it goes round. */
CFX_API void cfx_pipeline_set_depth(cfx_pipeline *l, int batches);
/* From the next batch on, what stages have written to is forgotten: a new text begins. */
CFX_API void cfx_pipeline_reset(cfx_pipeline *l);

/* Gives the arguments of the next batch, a list or tuple by position; None: there are no more. */
typedef cfx_value cfx_next_batch_fn(void *user);
/* Takes the result of the oldest batch on its way. False ends the run, with the recorded error. */
typedef bool cfx_take_result_fn(cfx_value result, void *user);
/* Runs until there are no more batches. Both functions are called on rank 0 alone, and may be NULL
 * on the others. False, with an error, where any rank failed. */
CFX_API bool cfx_pipeline_run(cfx_pipeline *l, cfx_next_batch_fn *next, cfx_take_result_fn *take,
                              void *user);

/* ---- data parallel training ------------------------------------------------------------------ */

/* A module that all ranks train: gradients are averaged over the ranks while the backward pass goes
 * on, some at a time (buckets), so that all ranks make the same steps. With equal shares of a batch
 * (cfx_loader_options.ranks) N ranks learn what one does with a batch N times as large, to
 * rounding, and bit for bit the same from run to run.
 *
 *     cfx_data_parallel *dp = cfx_data_parallel_new(group, model, 0);
 *     cfx_backward(loss);
 *     cfx_data_parallel_finish(dp);
 *     cfx_optim_step(optim); */
typedef struct cfx_data_parallel cfx_data_parallel;

/* Gives all ranks the parameters and buffers that rank 0 has, and looks at gradients from here on.
 * Buckets have so many bytes (0: 25 MiB, as in PyTorch) and are filled from the last parameter to
 * the first. The module is kept; scope. NULL, with an error, where ranks have other parameters. */
CFX_API cfx_data_parallel *cfx_data_parallel_new(cfx_group *g, cfx_module *m, int64_t bytes);
/* After each backward pass: waits until all gradients are averaged. One that a rank did not compute
 * counts as zeros. False, with an error. */
CFX_API bool cfx_data_parallel_finish(cfx_data_parallel *d);

/* cfx_checkpoint_write by rank 0; the others wait until the file is there. False, with an error. */
CFX_API bool cfx_ranks_checkpoint_write(cfx_group *g, const char *path, cfx_value what);
/* cfx_checkpoint_read by all ranks, which have to find the same file. Scope; bad, with an error. */
CFX_API cfx_value cfx_ranks_checkpoint_read(cfx_group *g, const char *path);

/* A hash of a file, by which ranks find out that they have opened different ones: of its size and
 * all its bytes; of archives (.pt2) that are larger than 64 MiB, of their ends, where the checksums
 * of all that they hold stand. False, with an error, where it cannot be read. */
CFX_API bool cfx_file_hash(const char *path, uint64_t *hash);

#ifdef __cplusplus
}
#endif
#endif
