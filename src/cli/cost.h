/* Costs as subcommands show them: numbers where all sizes are known, and otherwise polynomials in
 * the symbols; see cost.c. */
#ifndef CFX__CLI_COST_H
#define CFX__CLI_COST_H

#include "look.h"

enum { CLI_SYMBOLS = 3, CLI_POINTS = 28 }; /* 3 values of each symbol, and one more point */

/* The costs of a program at one or several points: values of its symbols. */
typedef struct cli_costs {
    const cfx_program *program;
    int nsymbols, npoints;
    const char *symbols[CLI_SYMBOLS];
    cfx_cost *at[CLI_POINTS];
} cli_costs;

/* A number at each point; sums are sums of polynomials too. */
typedef struct cli_sum {
    int64_t at[CLI_POINTS];
} cli_sum;

/* Costs with the sizes that words say ("s0=8"); false, with an error, where they cannot be told. */
bool cli_costs_of(cli_costs *c, cfx_program *p, const char *const *words, int nwords);
/* Adds what node number i costs, `times` times. */
typedef enum cli_what { CLI_FLOPS, CLI_BYTES } cli_what;
void cli_sum_node(const cli_costs *c, cli_sum *sum, cli_what what, int i);
void cli_sum_add(cli_sum *sum, const cli_sum *other, int64_t times);
/* "4.09 G" or "1.18 M*s0^2 + 3.2 k"; scope. */
const char *cli_sum_text(const cli_costs *c, const cli_sum *sum);
/* The same for other programs: a number, or a text with all digits; None: not known. */
cfx_value cli_sum_value(const cli_costs *c, const cli_sum *sum);
/* The tables by operator and of all; and the same as an answer, with columns by node. */
void cli_print_costs(const cli_costs *c);
void cli_note_costs(const cli_costs *c);

#endif
