/* Random programs that are well typed by construction, and the oracle for them.
 *
 * A program is drawn from a seed call by call: operators with arguments that their schemas and
 * shape rules take, over views of every kind (strided, overlapping, of views, of weights), writes
 * in place to whatever may be written, several outputs, halves, integers, bools, empty and 0-d
 * tensors, NaN, infinities, denormals, normalisation in training mode, random numbers, caches with
 * a position counter, branches and loops, inputs that share memory. programs_check then runs it in
 * every way there is, also with the state that a run left, and compares results, what is left in
 * inputs and buffers, and the value of every node. */
#ifndef CFX_TEST_PROGRAMS_H
#define CFX_TEST_PROGRAMS_H

#include <cfx.h>

#include "draw.h"

/* Programs of seeds from here on have more in them: long rows, inputs that are views of something,
 * complex numbers, calls whose results have sizes that data tells, recurrent layers, control flow
 * in control flow. Those below are what they were, so that what was found once stays found. */
enum { PROGRAMS_WIDE = 100000000 };
/* From here on also inputs that share memory, out= and every form in place, more layers. */
enum { PROGRAMS_DEEP = 1000000000 };
/* From here on also calls of any operator on tensors that are made to fit it: gradients, matrices,
 * windows, losses, recurrent layers of several layers and directions. */
#define PROGRAMS_FITTED UINT64_C(200000000000)

/* From here on also tensors that are worth several threads, on one to four of them. */
#define PROGRAMS_LARGE UINT64_C(2000000000000)

/* From here on also sizes of operands as arguments, and what is computed with them; weights that
 * lie otherwise in memory, or in that of others; calls under autocast; results in lists and
 * dicts. */
#define PROGRAMS_VARIED UINT64_C(20000000000000)

/* A drawn program: what the calls are, and what they are called on. */
typedef struct random_program {
    cfx_module *root;  /* has the parameters and buffers that the graph reads */
    cfx_graph *graph;  /* placeholders, get_attr, overloads of ATen, one output */
    cfx_value inputs;  /* a list of tensors, one for each placeholder */
    cfx_dict *state;   /* name to tensor: as they are before a run */
    bool random;       /* it draws random numbers */
    bool shared;       /* inputs share memory, or parts of buffers */
    int threads;       /* that runs have; 0: as many as there are */
    bool sizes;        /* calls are given sizes of operands */
    bool sized;        /* a call has out=, which would be resized where sizes are others */
} random_program;

/* The program of a seed; scope. */
random_program programs_draw(uint64_t seed);

/* What a way of running found out about a program. */
typedef struct program_finding {
    bool any;
    char text[1 << 15];
} program_finding;

/* How often programs were run in a way: "decomposed", "planned again". */
typedef struct program_way {
    char name[56];
    long programs, compared, last; /* last: the number of the program that it was counted for */
} program_way;

enum { PROGRAM_WAYS = 192 };

/* Counts over many programs, so that a generator that makes nothing of interest is noticed. */
typedef struct program_counts {
    long drawn, ran, refused, exported, compared, resized, fixed, built;
    int n_ways;
    program_way ways[PROGRAM_WAYS];
    bool few;             /* beside the program itself, few of the other ways, by its seed */
    const char *compiler; /* programs are compiled to C and built by this command, "cc -O1", and not
                             run in the other ways; NULL: they are */
} program_counts;

/* Runs the program of a seed in all ways, or a few; the first disagreement, if any. */
program_finding programs_check(uint64_t seed, program_counts *counts);

#endif
