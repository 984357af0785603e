/* player: runs what would be launched on a card by tests/play.h, and compiles it by NVRTC where
 * that is found. */
#ifndef CFX_TEST_PLAYER_H
#define CFX_TEST_PLAYER_H

#include "test.h"

#include "cuda/launch.h"

/* Parameters that a kernel may have where it is played (play_all in play.h): pointers and integers,
 * and doubles. */
enum { PLAYED_WORDS = 48, PLAYED_REALS = 8 };

/* Memory that a kernel is given: pages that end where the bytes do, to 16 bytes, so that reading
 * behind them is a crash. It is filled with 0xff, and freed when the process ends. */
void *player_memory(size_t bytes);

/* The elements of a tensor as it lies, copied to such memory, and how it lies. */
void *player_copy(const cfx_tensor *t);
cfx__cuda_array player_array(int operand, const cfx_tensor *t);
/* No operand, where one may be left out. */
#define PLAYER_NONE ((cfx__cuda_array){.operand = -1})
/* Holds when the memory of an array that lies as `want` has its numbers: |got - want| <= tol *
 * (1 + |want|), and nan where it has nan. */
bool player_near(const void *got, const cfx_tensor *as, const cfx_tensor *want, double tol,
                 cfx_site at);
#define PLAYED(got, as, want, tol) player_near(got, as, want, tol, CFX_HERE)

/* Whether kernels can be played: a compiler is there. Says "not run" where there is none. */
bool player_runs(void);

/* Runs the launches of a work; operand: where each begins. A check fails where a kernel does not
 * compile, does what a card leaves undefined, or leaves counters that are not 0. flag: the word
 * that is set where an index is out of range; NULL: it must not be set. */
bool player_run(const cfx__cuda_work *work, void *const *operand, int *flag, cfx_site at);
#define PLAY(work, ...) player_run(work, (void *[]){__VA_ARGS__}, NULL, CFX_HERE)

#endif
