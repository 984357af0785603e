/* A text that a language model goes on with; see generate.c. */
#ifndef CFX__CLI_GENERATE_H
#define CFX__CLI_GENERATE_H

#include <cfx/session.h>
#include <cfx/tokenizer.h>

#include "samples.h"

typedef struct cli_generation {
    VEC(int64_t) ids;  /* the tokens so far */
    size_t given;      /* of them, at the start */
    size_t seen;       /* that the program was given */
    int tokens;        /* to be made */
    bool single;       /* the program takes one token at a time, */
    bool keeps;        /* keeps what it saw, */
    bool places;       /* and wants to know where tokens are */
    int ndim, places_ndim;
    cfx_dtype dtype, places_dtype;
    cfx_tokenizer *tokenizer; /* counted; NULL: tokens are all there is */
} cli_generation;

/* Reads the text; false, with an error, where the program is no language model. Ended in any case.
 */
bool cli_generation_begin(cli_generation *g, const cfx_program *p, const cli_given *from,
                          int tokens);
void cli_generation_again(cli_generation *g);
void cli_generation_end(cli_generation *g);
/* The arguments of the next call, None at the end; and what it gave, by which the text goes on. As
 * cfx_next_batch_fn and cfx_take_result_fn. */
cfx_value cli_generation_next(void *generation);
bool cli_generation_take(cfx_value result, void *generation);
/* All of it in this process; false with an error. */
bool cli_generation_run(cli_generation *g, cfx_session *s, cfx_program *p);
/* The tokens that were made, a tensor; scope. */
cfx_value cli_generation_made(const cli_generation *g);
/* Prints the text, where there is a tokenizer. */
void cli_generation_print(const cli_generation *g);

#endif
