/* Computation on several ranks: pipelines of the stages of a program, and data-parallel training of
 * a module.
 *
 * Both use a group (cfx/group.h), of MPI or of simulated ranks. All ranks must make the same
 * calls in the same order; if one fails, the others fail too. */
#ifndef CFX_RANKS_H
#define CFX_RANKS_H

#include <cfx/group.h>
#include <cfx/optim.h>
#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pipelines ------------------------------------------------------------------------------- */

/* A pipeline: rank i runs stage i. A reference-counted object, for one thread.
 *
 *     cfx_pipeline *line = cfx_pipeline_new(group, stage, whole->out_spec);
 *     cfx_pipeline_run(line, next_batch, take_result, &mine);
 *
 * A stage sends its results to the next rank, which works on them while this one runs the next
 * batch; the last results return to rank 0 in the order of batches. A stage keeps the state that
 * its program mutates (caches). */
typedef struct cfx_pipeline cfx_pipeline;

/* This rank's part of a pipeline over all ranks of the group. `stage` is its program, which
 * takes the results of the previous stage by position (as cfx_program_stages makes them).
 * out_spec is the tree of the whole program's results, by which rank 0 unflattens them, or None
 * for a flat tuple. Keeps both; the group must live longer. Scope; NULL with an error. */
CFX_API cfx_pipeline *cfx_pipeline_new(cfx_group *g, cfx_program *stage, cfx_value out_spec);
/* Sets the most batches in flight; 0: four for each rank. Use 1 if the next batch depends on the
 * last result, as in token-by-token generation. */
CFX_API void cfx_pipeline_set_depth(cfx_pipeline *l, int batches);
/* Resets the mutable state of all stages before the next batch, for a new text. */
CFX_API void cfx_pipeline_reset(cfx_pipeline *l);

/* Returns the arguments of the next batch, a list or tuple by position; None ends the run. */
typedef cfx_value cfx_next_batch_fn(void *user);
/* Receives the result of the oldest batch in flight. False ends the run, with the recorded
 * error. */
typedef bool cfx_take_result_fn(cfx_value result, void *user);
/* Runs until `next` returns None. Both functions are called on rank 0 only, and may be NULL on
 * the others. False, with an error, if any rank failed. */
CFX_API bool cfx_pipeline_run(cfx_pipeline *l, cfx_next_batch_fn *next, cfx_take_result_fn *take,
                              void *user);

/* ---- data parallel training ------------------------------------------------------------------ */

/* A module trained by all ranks: gradients are averaged over the ranks in buckets during the
 * backward pass, so all ranks take the same steps. With equal shares of a batch
 * (cfx_loader_options.ranks), N ranks train like one with a batch N times as large, up to rounding,
 * and with the same bits in every run.
 *
 *     cfx_data_parallel *dp = cfx_data_parallel_new(group, model, 0);
 *     cfx_backward(loss);
 *     cfx_data_parallel_finish(dp);
 *     cfx_optim_step(optim); */
typedef struct cfx_data_parallel cfx_data_parallel;

/* Copies the parameters and buffers of rank 0 to all ranks, and observes gradients from now on.
 * `bytes` is the size of a bucket (0: 25 MiB, as in PyTorch); buckets are filled from the last
 * parameter to the first. Keeps the module; scope. NULL, with an error, where parameters differ
 * between ranks. */
CFX_API cfx_data_parallel *cfx_data_parallel_new(cfx_group *g, cfx_module *m, int64_t bytes);
/* To be called after each backward pass: waits until all gradients are averaged. A gradient that
 * a rank did not compute counts as zeros. False, with an error. */
CFX_API bool cfx_data_parallel_finish(cfx_data_parallel *d);

/* cfx_checkpoint_write on rank 0; the other ranks wait until the file exists. False, with an
 * error. */
CFX_API bool cfx_ranks_checkpoint_write(cfx_group *g, const char *path, cfx_value what);
/* cfx_checkpoint_read on all ranks, which must find the same file. Scope; bad, with an error. */
CFX_API cfx_value cfx_ranks_checkpoint_read(cfx_group *g, const char *path);

/* The hash of a file, by which ranks detect different files: of its size and all bytes; for
 * archives (.pt2) larger than 64 MiB, of their end, which contains the checksums of all parts.
 * False, with an error, where it cannot be read. */
CFX_API bool cfx_file_hash(const char *path, uint64_t *hash);

#ifdef __cplusplus
}
#endif
#endif
