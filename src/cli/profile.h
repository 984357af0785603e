/* When each node of a run ran, and what was alive then; see profile.c and memory.c. */
#ifndef CFX__CLI_PROFILE_H
#define CFX__CLI_PROFILE_H

#include "look.h"

typedef struct cli_times {
    const cfx_node *node;
    double start, end;  /* microseconds from the start of the run */
    const char *result; /* "f32[3, 4]"; in `texts` */
} cli_times;

typedef struct cli_profile {
    cfx_program *program;
    cfx_cost *cost;   /* at the sizes of this run; NULL: not known */
    VEC(cli_times) rows;
    cfx__arena texts;
} cli_profile;

/* Gets ready for a run on these inputs, all of the program's. */
void cli_profile_start(cli_profile *p, cfx_program *program, cfx_value inputs);
void cli_profile_add(cli_profile *p, const cfx_node *n, double start, double end, cfx_value v);
/* Prints time by operator, by module, and the slowest nodes with their share of what the machine
 * can do, as a product of large matrices measures it. */
void cli_profile_print(const cli_profile *p);
/* Writes a Chrome trace with the node's times as a column; `columns` are more of them. */
bool cli_profile_write(const cli_profile *p, const char *path, const cfx_dict *columns);
/* Draws the bytes alive over the program, and what is alive at the peak. */
bool cli_memory_write(const cli_profile *p, const char *path);
void cli_profile_end(cli_profile *p);

#endif
