/* Names of tensors in a program and in a file that are the same but for what stands in front. */
#ifndef CFX__WEIGHTS_H
#define CFX__WEIGHTS_H

#include <cfx/pack.h>

#include "../tensor/tensor.h"

/* How a name of the program becomes one of the file: so many letters less in front, then these. */
typedef struct cfx__renaming {
    size_t drop;
    const char *add;
} cfx__renaming;

/* The renaming by which most names of the program are in the file; scope. */
cfx__renaming cfx__weights_renaming(const cfx_dict *program, const cfx_dict *file);
/* A name of the program as the file has it; scope. NULL: too short. */
const char *cfx__weights_renamed(const char *name, cfx__renaming r);
/* Adds to a list of a report. */
void cfx__weights_note(cfx_dict *report, const char *list, const char *name);
bool cfx__weights_ends(const char *text, const char *end);

#endif
