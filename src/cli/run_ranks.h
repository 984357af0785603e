/* ranks: what `cfx run` does where several processes, or simulated ranks, run one program. */
#ifndef CFX__CLI_RUN_RANKS_H
#define CFX__CLI_RUN_RANKS_H

#include "look.h"

typedef struct cli_ranks {
    const char *model, *inputs;
    bool random;
    int stages;        /* 0: the program has collectives of its own, or is a folder */
    int micro_batches; /* 0: 1 */
    int threads;       /* of each rank, as asked for; 0: its share of the cores */
    cfx_program *program; /* filled on rank 0: whose results these are; counted */
    cfx_value result;     /* the same; counted */
} cli_ranks;

/* Runs this rank's part, or all where they are simulated. CLI_DONE: all went well on all ranks, and
 * *rank is the number of this one; rank 0 has the result. Else a sentence was printed. */
int cli_run_ranks(cli_ranks *r, int *rank);
void cli_ranks_end(cli_ranks *r);

#endif
