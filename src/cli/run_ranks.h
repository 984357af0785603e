/* ranks: what `cfx run` does where several processes, or simulated ranks, run one program. */
#ifndef CFX__CLI_RUN_RANKS_H
#define CFX__CLI_RUN_RANKS_H

#include "../group/group.h"
#include "generate.h"

/* A stretch of a rank's time: seconds since the runs began. */
typedef struct cli_stretch {
    cfx__stretch what;
    double from, to;
} cli_stretch;

/* What a rank did with its time, in seconds of all runs. */
typedef struct cli_rank_times {
    char node[64];
    double working, talking, waiting;
    double memory; /* bytes at most */
    VEC(cli_stretch) stretches;
} cli_rank_times;

typedef struct cli_ranks {
    const char *model, *inputs;
    bool random;
    int stages;        /* 0: the program has collectives of its own, or is a folder */
    int micro_batches; /* 0: 1 */
    int generate;      /* tokens to go on with `text`; 0: a program runs on inputs */
    const cli_given *given; /* where the text is */
    cli_generation text;    /* rank 0's */
    int threads;       /* of each rank, as asked for; 0: its share of the cores */
    cfx_program *program; /* filled on rank 0: whose results these are; counted */
    cfx_value result;     /* the same; counted */
    bool profile;         /* runs it more often, warm, and takes down times: */
    int runs;             /* so often; 0: 5 */
    int ntimes;           /* and on rank 0, by rank, */
    cli_rank_times *times;
    double seconds, median; /* of all runs, and of one */
    double link, latency; /* between two ranks; 0: not known */
} cli_ranks;

/* Runs this rank's part, or all where they are simulated. CLI_DONE: all went well on all ranks, and
 * *rank is the number of this one; rank 0 has the result. Else a sentence was printed. */
int cli_run_ranks(cli_ranks *r, int *rank);
void cli_ranks_end(cli_ranks *r);

/* Keeps this process on the cores of one of `here` ranks that share a machine, number `mine`, and
 * returns how many those are; 1, and it runs on any, where there are fewer cores than ranks.
 * (cores.c) */
int cli_share_cores(int mine, int here);

/* Every rank's part of --profile: calls `once` so often, which runs it all one more time. False,
 * with an error. (ranks_profile.c) */
bool cli_ranks_profile(cli_ranks *r, cfx_group *g, bool (*once)(void *), void *user);
/* Tables of what was taken down, and the same as a Chrome trace; rank 0's. */
void cli_ranks_print(cli_ranks *r);
bool cli_ranks_trace(const cli_ranks *r, const char *path);
void cli_ranks_forget(cli_ranks *r);

#endif
