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

/* What is compared with a recorded call. */
typedef enum cli_check_way {
    CLI_CHECK_CALLS,    /* the same call, on real and on fake tensors */
    CLI_CHECK_GRAD,     /* its gradients */
    CLI_CHECK_COMPILED, /* the call as a program that is compiled to C */
    CLI_CHECK_CORE,     /* the call as a program that is decomposed to Core ATen */
    CLI_CHECK_ONNX      /* the call as a program that is written as ONNX and read back */
} cli_check_way;

typedef struct cli_check_session {
    cfx_dict *tensors;
    const char *pattern;
    bool fake; /* what decode makes */
    cli_check_way way;
    bool keep; /* files of calls stay in the folder */
    int passed, failed, refused;
    char folder[4096]; /* of the files of calls; "": none yet */
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

/* Whether calls are programs; their arguments are contiguous then. */
static inline bool cli_check_programs(const cli_check_session *s) {
    return s->way == CLI_CHECK_COMPILED || s->way == CLI_CHECK_CORE || s->way == CLI_CHECK_ONNX;
}

/* ---- calls as programs (check_written.c) ----------------------------------------------------- */

/* The call as a program, and its inputs; scope. NULL, with an error. */
cfx_program *cli_check_program(cli_check_session *s, cfx_op *op, cfx_value call, cfx_list *inputs);
/* Makes the folder for files of calls, once; false, with an error. */
bool cli_check_folder(cli_check_session *s);
/* The file of a call in it; scope. */
const char *cli_check_path(const cli_check_session *s, int number, const char *suffix);
/* Tells that a call was refused and why, which is the last error, and counts it. */
void cli_check_refused(cli_check_session *s, cfx_op *op, int number);

/* Decomposes a call to Core ATen and compares what that gives. */
void cli_check_core(cli_check_session *s, cfx_op *op, cfx_value call, int number);
/* Writes a call as ONNX, reads it back and compares what it gives. */
void cli_check_written(cli_check_session *s, cfx_op *op, cfx_value call, int number);
/* check_compiled.c: writes a call as C, and builds those that wait once there are many; the rest.
 */
void cli_check_compiled(cli_check_session *s, cfx_op *op, cfx_value call, int number);
void cli_check_built(cli_check_session *s);

/* ---- the whole ------------------------------------------------------------------------------- */

/* Replays DIR/calls.jsonl (see cfx ops --help); keep: the folder in which files of calls stay, or
 * NULL. Returns an exit code. */
int cli_check(const char *dir, const char *pattern, cli_check_way way, const char *keep);
/* The same for a folder of ONNX's test cases, and whether it is one (check_onnx.c). */
bool cli_has_onnx_cases(const char *dir);
int cli_check_onnx(const char *dir, const char *pattern);

#endif
