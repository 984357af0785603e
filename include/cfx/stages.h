/* Pipeline stages: cuts a program into programs that run one after the other, each in a process or
 * on a machine of its own.
 *
 *     cfx_stages *s = cfx_program_stages(p, (cfx_stage_options){.n = 4});
 *     for (int i = 0; i < s->n; i++)
 *         cfx_save(s->stages[i].program, names[i]);
 *
 * The stages form a chain. The first has the inputs of the whole program, in the same tree; each
 * other stage takes the results of the stage before it by position, a tuple; the last has the
 * results of the whole. A value needed by a later stage passes through those in between. */
#ifndef CFX_STAGES_H
#define CFX_STAGES_H

#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The performance of a machine, for estimates; 0 in a field means a default. */
typedef struct cfx_machine {
    double flops;     /* operations that a rank does in a second */
    double bandwidth; /* bytes of its own memory that a rank moves in a second */
    double link;      /* bytes that go from one rank to another in a second */
    double latency;   /* seconds before the first of them arrives */
    double call;      /* seconds that an operator takes however small it is */
    double memory;    /* bytes that a rank has; 0: as many as are needed */
    int cores;        /* of a rank, for those who read it */
} cfx_machine;

/* The machine with defaults in place of zeros. */
CFX_API cfx_machine cfx_machine_usual(cfx_machine m);
/* Reads a machine from a text file: lines of a field's name and a number, "link 25G"; # begins a
 * comment. False, with an error that names the line, where the text is invalid. */
CFX_API bool cfx_machine_read(const char *path, cfx_machine *out);

typedef struct cfx_stage_options {
    int n;                   /* how many stages */
    const cfx_dict *sizes;   /* what symbols are, as for cfx_program_cost; NULL: as exported */
    const cfx_dict *seconds; /* measured: name of a node to seconds; NULL: estimated */
    int64_t memory;          /* bytes of tensors that a stage may hold; 0: as many as it needs */
    cfx_machine machine;     /* for estimates */
} cfx_stage_options;

/* A value passed from a stage to the next. */
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

/* Cuts a program into stages. Minimises the time of the slowest stage, including its
 * communication, then the bytes that cross. A parameter that several stages read is in each of
 * them; a mutated buffer or input belongs to one stage. Tensors are shared with p. Scope. Bad,
 * with an error, where there are too few possible cuts, or `memory` is too small. */
CFX_API cfx_stages *cfx_program_stages(const cfx_program *p, cfx_stage_options options);

/* A copy of the program for drawing: the calls of each stage are in a module stage0, stage1 and
 * so on, around their own modules ("nn_module_stack"), so stages are drawn as frames. Scope;
 * bad, with an error. */
CFX_API cfx_program *cfx_stages_framed(const cfx_program *p, const cfx_stages *s);

/* ---- ranks that share every layer ------------------------------------------------------------ */

/* The tensor parallel program of one rank: layers are cut by output or input features, attention
 * by heads, embeddings and output heads by vocabulary, stacked experts by expert, with
 * collectives of torch.ops._c10d_functional, of the default group. Its inputs and results are
 * those of the whole program; it contains only its part of the weights. What cannot be cut is
 * computed by every rank. `report`, or NULL, is filled: "cut", a list of the calls that are cut,
 * and "whole", a dict from the other layers to the reason. Scope; bad, with an error. */
CFX_API cfx_program *cfx_tensor_parallel(const cfx_program *p, int rank, int ranks,
                                         cfx_dict *report);

#ifdef __cplusplus
}
#endif
#endif
