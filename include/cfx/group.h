/* Ranks: processes, or threads of one process, that run a program together.
 *
 * A group is the communicator of one rank: its number, the number of ranks, and a connection to
 * each. Operators of _c10d_functional, pipelines and data-parallel training use the group of the
 * calling thread. A group comes from MPI (cfx_group_open_mpi) or from the simulator
 * (cfx_group_simulate); both give the same bits, because reductions sum in rank order.
 *
 * Nothing hangs: if a rank fails, ends or sends an unexpected message, the ranks that wait for
 * it fail with an error that names the rank and its machine. */
#ifndef CFX_GROUP_H
#define CFX_GROUP_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_group cfx_group;

/* The group of this thread; NULL without one. Borrowed. */
CFX_API cfx_group *cfx_group_current(void);
/* Sets the group of this thread (NULL: none); it must live until another is set. Returns the
 * previous one. */
CFX_API cfx_group *cfx_set_group(cfx_group *g);
/* The number of this rank, from 0 on; 0 without a group. */
CFX_API int cfx_group_rank(const cfx_group *g);
/* How many ranks there are; 1 without a group. */
CFX_API int cfx_group_size(const cfx_group *g);
/* The name of the machine that a rank runs on; "" where there is no such rank. Borrowed. */
CFX_API const char *cfx_group_node(const cfx_group *g, int rank);

/* ---- messages -------------------------------------------------------------------------------- */

/* Sends a tensor, a number or None to another rank. v may be changed after the return. False,
 * with an error. */
CFX_API bool cfx_group_send(cfx_group *g, int to, cfx_value v);
/* Receives the next value from rank `from`. The announced dtype and sizes are checked against
 * the data and the limits of this thread. Scope; bad, with an error. */
CFX_API cfx_value cfx_group_recv(cfx_group *g, int from);
/* A barrier: waits for all ranks. False, with an error. */
CFX_API bool cfx_group_wait(cfx_group *g);
/* Checks that `fact`, such as the hash of a file or a number of steps, is equal on all ranks.
 * False, with an error that names the first rank with another ("rank 2 on node7 has another file
 * than rank 0"). */
CFX_API bool cfx_group_agree(cfx_group *g, const char *what, uint64_t fact);

/* ---- where groups come from ------------------------------------------------------------------ */

/* The function of a rank; true on success. */
typedef bool cfx_rank_fn(cfx_group *g, void *user);
/* The simulator: runs fn on n ranks, which are threads of this process, each with its group set.
 * They inherit limits, precision and a share of the caller's threads; the rest of their contexts
 * is new and freed at the end, so results must be kept (cfx_keep). False, with the error of the
 * first failing rank, if one returned false or left an error. */
CFX_API bool cfx_group_simulate(int n, cfx_rank_fn *fn, void *user);

/* The number of ranks if this process was started by mpirun (or another MPI launcher), for
 * cfx_group_open_mpi; otherwise 0. */
CFX_API int cfx_mpi_ranks(void);
/* Joins the ranks that mpirun started. Opens libcfx_mpi.so beside the library or the command, or
 * where the system looks for libraries. Once for each process. From here on SIGTERM, by which
 * mpirun ends ranks, becomes an error that calls report. The caller owns the group:
 * cfx_group_end. NULL, with an error, without MPI. */
CFX_API cfx_group *cfx_group_open_mpi(void);
/* Sets a function for the loss of a rank: if this rank computes and does not notice the loss for
 * most of a second, calls fn with the error text on another thread. mpirun will end this process
 * soon, so fn should report the error and end it. Called once; NULL: no function. */
typedef void cfx_loss_fn(const char *sentence, void *user);
CFX_API void cfx_group_on_loss(cfx_group *g, cfx_loss_fn *fn, void *user);
/* Ends the group of cfx_group_open_mpi, after which this process cannot use MPI. Waits for all
 * ranks. If an error is recorded, or `sentence` is not NULL, tells the other ranks that this one
 * failed with it, and waits only for their acknowledgement. False, with an error, unless all
 * ranks succeeded. */
CFX_API bool cfx_group_end(cfx_group *g, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
