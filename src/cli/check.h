/* check: recorded calls, for the ways in which cfx ops check replays them. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli.h"

enum { CLI_CHECK_BATCH = 64 };

/* A call that was written as C and waits for others, to be built with them. */
typedef struct cli_check_waiting {
    int number; /* of the line */
    cfx_op *op;
    cfx_value call, inputs;
} cli_check_waiting;

typedef struct cli_check_session {
    cfx_dict *tensors;
    const char *pattern;
    bool fake;     /* what decode makes */
    bool grad;     /* gradients are compared, not results */
    bool compiled; /* calls are programs that are compiled to C; arguments are contiguous */
    int passed, failed, refused;
    char folder[4096]; /* of the files that are built; "": none yet */
    int nwaiting;
    cli_check_waiting waiting[CLI_CHECK_BATCH];
} cli_check_session;

typedef struct cli_check_arguments {
    cfx_list *args;
    cfx_dict *kw;
} cli_check_arguments;

/* The arguments of a call; scope. */
cli_check_arguments cli_check_decode(cli_check_session *s, cfx_value call, bool fake);
/* What is wrong with results, strides aside; NULL: nothing. Scope. */
const char *cli_check_results(cli_check_session *s, cfx_op *op, cfx_value call, cfx_value got);
/* Tells of a failure, and counts it. */
void cli_check_failed(cli_check_session *s, int number, const char *name, const char *how,
                      const char *bad);

/* check_compiled.c: writes a call as C, and those that wait once there are many; the rest. */
void cli_check_compiled(cli_check_session *s, cfx_op *op, cfx_value call, int number);
void cli_check_built(cli_check_session *s);

#endif
