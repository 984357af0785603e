/* A program that is run again in several worlds: what decompose.c, recordings.c and foreign_sizes.c
 * share. */
#ifndef CFX__DECOMPOSE_H
#define CFX__DECOMPOSE_H

#include "rewrite.h"

/* The program in one world. */
typedef struct cfx__recording {
    cfx__rerun run;
    cfx__record_log log;
    cfx_value results, *written; /* nodes */
} cfx__recording;

typedef struct cfx__decomposing {
    const cfx_program *from;
    cfx__worlds worlds;
    const int *order;
    cfx_decompose_options options;
    cfx__own_rows own;
    bool whole, foreign;
    bool bounded;        /* ranges are as far as the program works, not as it says */
    cfx__undivided undivided;
    bool parted;         /* a node was found that is to be one of these */
    const char *refused; /* why there is no program for all sizes; NULL: there is */
    cfx__recording world[CFX__WORLDS];
} cfx__decomposing;

void cfx__recording_forget(cfx__recording *w);
/* Records the program in world k, at the sizes that are chosen for it; false with an error. */
bool cfx__recording_make(cfx__decomposing *d, int k);
/* Records world 0, then the others; false, with an error, when they are too few to tell symbols. */
bool cfx__recordings_make(cfx__decomposing *d);

/* Sizes that a foreign program was not made for are left out of the ranges of its symbols, since a
 * file of another framework need not say them (foreign_sizes.c). */
void cfx__foreign_bound_sizes(cfx__decomposing *d);

#endif
