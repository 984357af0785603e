/* Several samples in one run: files of a folder, pictures, texts; see samples.c. */
#ifndef CFX__CLI_SAMPLES_H
#define CFX__CLI_SAMPLES_H

#include "look.h"

enum { CLI_TEXTS = 1024 };

/* What the command line gives to run on. */
typedef struct cli_given {
    const char *inputs;    /* as for cli_read_tensors; NULL: none */
    const char *tokenizer; /* a tokenizer.json */
    const char *texts[CLI_TEXTS];
    int ntexts, batch;
} cli_given;

typedef struct cli_samples {
    cfx_program *program;
    cfx_list *names, *leaves; /* of each: what it is called, its inputs in flattened order */
    int64_t each;             /* samples of one run */
    int64_t rows;             /* of one sample in the first dimension of inputs */
    cfx_list *results;        /* flattened, of each run */
} cli_samples;

/* Whether the word says what to run on. */
bool cli_given_option(cli_words *w, cli_given *g);
/* Reads all of it; false with an error. */
bool cli_samples_read(cli_samples *s, cfx_program *p, const cli_given *g);
int64_t cli_samples_runs(const cli_samples *s);
/* The inputs of run i, in flattened order; scope. */
cfx_value cli_samples_inputs(const cli_samples *s, int64_t i);
/* Notes what a run gave, flattened. */
void cli_samples_add(cli_samples *s, cfx_value flat);
/* The results of all samples, one behind the other in the first dimension; of sample i alone. */
cfx_value cli_samples_all(const cli_samples *s);
cfx_value cli_samples_of(const cli_samples *s, int64_t i);

#endif
