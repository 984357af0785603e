/* Stages: a program is cut into programs that run one after the other, each on a machine or in a
 * process of its own.
 *
 *     cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 4});
 *     for (int i = 0; i < s->n; i++)
 *         cfx_save(s->stages[i].program, names[i]);
 *
 * The stages are a chain. The first takes what the whole takes, in the same tree; each other one
 * takes, by position, what the one before it gives, a tuple; the last gives what the whole gives.
 * What a later stage needs is handed on by those between, as a result that is an input. */
#ifndef CFX_STAGES_H
#define CFX_STAGES_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a machine can do, for estimates; a field that is 0 has a usual value. */
typedef struct cfx_machine {
    double flops;     /* operations that a rank does in a second */
    double bandwidth; /* bytes of its own memory that a rank moves in a second */
    double link;      /* bytes that go from one rank to another in a second */
    double latency;   /* seconds before the first of them arrives */
    double call;      /* seconds that an operator takes however small it is */
    double memory;    /* bytes that a rank has; 0: as many as are needed */
    int cores;        /* of a rank, for those who read it */
} cfx_machine;

/* The machine with the usual values in the place of zeros. */
CFX_API cfx_machine cfx_machine_usual(cfx_machine m);
/* A machine that is described in a text: lines of a field's name and a number, "link 25G", and #
 * begins a comment. False, with an error that names the line, where it is none. */
CFX_API bool cfx_machine_read(const char *path, cfx_machine *out);

typedef struct cfx_stage_options {
    int n;                   /* how many stages */
    const cfx_dict *sizes;   /* what symbols are, as for cfx_program_cost; NULL: as exported */
    const cfx_dict *seconds; /* measured: name of a node to seconds; NULL: estimated */
    int64_t memory;          /* bytes of tensors that a stage may hold; 0: as many as it needs */
    cfx_machine machine;     /* for estimates */
} cfx_stage_options;

/* A value that goes from a stage to the next. */
typedef struct cfx_crossing {
    const char *name; /* of the node that computes it, or of the input */
    cfx_value val;    /* what it is, as cfx_result_of reads it */
    int64_t bytes;
} cfx_crossing;

typedef struct cfx_stage {
    cfx_program *program;
    int ncrossings;          /* what it hands to the next, in the order of its results; none of */
    cfx_crossing *crossings; /* the last */
    int64_t bytes;           /* of all of these */
    int nodes;               /* of the whole that it computes */
    double seconds;          /* what they take, measured or estimated */
    int64_t flops;
    int64_t weights;         /* bytes of its parameters, buffers and constants */
    int64_t written;         /* bytes of those that it writes to */
    int64_t alive;           /* bytes of results that are alive at most */
} cfx_stage;

typedef struct cfx_stages {
    cfx_obj head;
    int n;
    cfx_stage *stages;
} cfx_stages;

/* Cuts a program into stages such that the slowest takes as little time as it can, what it waits
 * for included, and, where that leaves a choice, as few bytes cross as can be. A parameter that
 * several stages read is in each of them; a buffer or input that is written to is touched by one
 * stage alone. Tensors are shared with p. Scope. Bad, with an error, where there are not so many
 * places to cut, or `memory` is too little. */
CFX_API cfx_stages *cfx_program_stages(const cfx_program *p, cfx_stage_options options);

/* A copy of the program in which the calls of each stage are in a module of their own, stage0,
 * stage1 and so on, around those that they come from ("nn_module_stack"): drawn, stages are frames.
 * Scope; bad, with an error. */
CFX_API cfx_program *cfx_stages_framed(const cfx_program *p, const cfx_stages *s);

/* ---- ranks that share every layer ------------------------------------------------------------ */

/* The program of one rank of several that compute together: layers are cut by their results or by
 * their inputs, attention by heads, embeddings and heads by vocabulary, stacked experts by expert,
 * and collectives of torch.ops._c10d_functional, of the default group, stand where ranks need each
 * other. It takes and gives what the whole does. Each rank has its part of the weights alone. What
 * cannot be cut is computed by every rank. `report`, or NULL, is filled: "cut", a list of the calls
 * that are cut, and "whole", a dict of layers that are not to the reason. Scope; bad, with an
 * error. */
CFX_API cfx_program *cfx_tensor_parallel(const cfx_program *p, int rank, int ranks,
                                         cfx_dict *report);

#ifdef __cplusplus
}
#endif
#endif
