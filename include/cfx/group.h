/* Ranks: processes, or threads of one, that work on a program together.
 *
 * A group is what one rank sees of all of them: its own number, how many there are, and a way to
 * each. What runs on ranks (the operators of _c10d_functional, pipelines, data-parallel training)
 * asks the group of its thread. Groups come from MPI (cfx_group_open_mpi) or from the simulator
 * (cfx_group_simulate), and give the same numbers bit for bit: sums are taken in rank order.
 *
 * Nothing hangs: where a rank fails, ends or sends something else than what the others are at,
 * whatever waits for it fails with a sentence that names the rank and its machine. */
#ifndef CFX_GROUP_H
#define CFX_GROUP_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_group cfx_group;

/* The group of this thread; NULL: it works alone. Borrowed. */
CFX_API cfx_group *cfx_group_current(void);
/* Makes it the group of this thread, or none where NULL; it has to stay until another is set.
 * Returns the one before. */
CFX_API cfx_group *cfx_set_group(cfx_group *g);
/* The number of this rank, from 0 on; 0 without a group. */
CFX_API int cfx_group_rank(const cfx_group *g);
/* How many ranks there are; 1 without a group. */
CFX_API int cfx_group_size(const cfx_group *g);
/* The name of the machine that a rank runs on; "" where there is no such rank. Borrowed. */
CFX_API const char *cfx_group_node(const cfx_group *g, int rank);

/* ---- messages -------------------------------------------------------------------------------- */

/* Sends a tensor, a number or None to another rank. Returns when v may be changed again; false,
 * with an error. */
CFX_API bool cfx_group_send(cfx_group *g, int to, cfx_value v);
/* What the rank `from` sent next. What it says of dtype and sizes is held
 * against what arrives, and against the limits of this thread. Scope; bad, with an error. */
CFX_API cfx_value cfx_group_recv(cfx_group *g, int from);
/* Waits for all ranks to come here. False, with an error. */
CFX_API bool cfx_group_wait(cfx_group *g);
/* Whether all ranks have the same: a hash of a file, a number of steps. False, with an error that
 * names the first rank that has another ("rank 2 on node7 has another file than rank 0"). */
CFX_API bool cfx_group_agree(cfx_group *g, const char *what, uint64_t fact);

/* ---- where groups come from ------------------------------------------------------------------ */

/* What a rank does; true: all went well. */
typedef bool cfx_rank_fn(cfx_group *g, void *user);
/* The simulator: n ranks as threads of this process, each of which runs fn with its group set.
 * They have the limits, precision and share of threads of the caller; all else of their contexts
 * is new, and freed at their end, so what is to stay is kept (cfx_keep). False, with the error of
 * the first rank that failed, where one returned false or left an error. */
CFX_API bool cfx_group_simulate(int n, cfx_rank_fn *fn, void *user);

/* Whether this process was started by mpirun (or another that MPI is started by), so that
 * cfx_group_open_mpi finds its ranks: 0 where not, else how many. */
CFX_API int cfx_mpi_ranks(void);
/* The ranks that mpirun started, of which this process is one: libcfx_mpi.so is opened, which lies
 * beside the library or the command, or where the system looks for libraries. Once in a process.
 * SIGTERM, by which mpirun ends ranks, is a fault from here on, which calls find out about.
 * The caller owns it: cfx_group_end. NULL, with an error, where there is no MPI. */
CFX_API cfx_group *cfx_group_open_mpi(void);
/* Where a rank was lost and this one has not noticed for most of a second, since it computes, calls
 * fn with the sentence on a thread of its own: mpirun ends the process soon, so this is the time
 * to say why, and to end it. Once; NULL: nobody is called. */
typedef void cfx_loss_fn(const char *sentence, void *user);
CFX_API void cfx_group_on_loss(cfx_group *g, cfx_loss_fn *fn, void *user);
/* Ends what cfx_group_open_mpi gave. Waits for all ranks; where an error is recorded, or
 * `sentence` is not NULL, tells them that this rank failed with it, and waits no longer than it
 * takes them to say so. The process is over for MPI then. False, with an error, unless all ranks
 * ended well. */
CFX_API bool cfx_group_end(cfx_group *g, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
