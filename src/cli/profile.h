/* When each kernel of a run ran, and what was alive then; see profile.c and memory.c. */
#ifndef CFX__CLI_PROFILE_H
#define CFX__CLI_PROFILE_H

#include "look.h"

typedef struct cli_times {
    const cfx_node *node; /* the first that it computes */
    double start, end;    /* microseconds from the start of the run */
    int64_t flops, live;  /* of all its nodes, and bytes alive at them; -1: not known */
    const char *kernel, *nodes, *result; /* "product in tiles", "linear, relu", "f32[3, 4]"; in
                                            `texts` */
} cli_times;

typedef struct cli_profile {
    cfx_program *program;
    cfx_cost *cost;   /* at the sizes of this run; NULL: not known */
    cfx__map at;      /* by name: the number of a node's cost, and one */
    VEC(cli_times) rows;
    cfx__arena texts;
} cli_profile;

/* Gets ready for a run on these inputs, all of the program's. */
void cli_profile_start(cli_profile *p, cfx_program *program, cfx_value inputs);
/* Takes down what ended now, `end` microseconds after the start of the run. */
void cli_profile_add(cli_profile *p, const cfx_ran *r, double end);
/* Prints time by kernel, by module, and the slowest ones with their share of what the machine can
 * do, as a product of large matrices measures it. */
void cli_profile_print(const cli_profile *p);
/* Writes a Chrome trace with the times of kernels as a column; `columns` are more of them. */
bool cli_profile_write(const cli_profile *p, const char *path, const cfx_dict *columns);
/* Draws the bytes alive over the program, and what is alive at the peak. */
bool cli_memory_write(const cli_profile *p, const char *path);
void cli_profile_end(cli_profile *p);

#endif
