/* Faults on purpose, for tests: the n-th allocation fails, alone or with all that follow; the time
 * is up at the n-th look at the clock.
 *
 * In plain builds the allocator of the whole process is in between, so that the libraries below
 * fail too; in sanitizer builds, which have an allocator of their own, that of libcfx alone. */
#ifndef CFX_FAULTS_H
#define CFX_FAULTS_H

#include <stdbool.h>

/* From now on: the n-th allocation fails, n from 1; with `all`, every one after it too. */
void faults_begin(long n, bool all);
/* Ends that. Returns whether the n-th came. */
bool faults_end(void);

/* From now on the monotonic clock is years ahead from the n-th look on, n from 1. */
void faults_clock_begin(long n);
/* Ends that. Returns whether the n-th look came. */
bool faults_clock_end(void);

#endif
