/* A way to run a random program that is dearer than the others: as C. */
#ifndef CFX_TEST_COMPILED_H
#define CFX_TEST_COMPILED_H

#include "agree.h"

/* Holds what a program gives as C against the eager run; one that has no form in C is left. */
void compiled_check(subject *s, cfx_program *p, const char *way);

#endif
