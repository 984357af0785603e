/* fuzz: harnesses that make things of arbitrary bytes and use them in every way.
 *
 *     make fuzz                                                  builds them for libFuzzer (clang)
 *     build/fuzz/fuzz/fuzz_text -max_total_time=60 fuzz/corpus/text      searches
 *     build/release/fuzz/fuzz_text -n 1000 fuzz/corpus/text      replays and tries changed copies
 *     build/asan/fuzz/fuzz_kinds -each 0 100000                  goes through those that are listed
 *     build/asan/fuzz/fuzz_kinds -on -seconds 60 -each 0 100000  goes on behind what is found
 *     CFX_FUZZ_SECONDS=0.003 build/asan/fuzz/fuzz_kinds ...      runs out of time somewhere in each
 *
 * Each is one file with LLVMFuzzerTestOneInput. Nothing may crash, hang or leak; and what is said
 * twice must agree: fuzz_wrong ends the process where it does not. */
#ifndef CFX_FUZZ_H
#define CFX_FUZZ_H

#include <cfx.h>

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Input i of a harness that can list what it tries; its size. */
enum { FUZZ_LISTED = 64 };
size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]);

/* What a harness does before the first input and after the last, where it has something to count:
 * not by libFuzzer. */
void fuzz_start(void);
void fuzz_report(void);
/* Memory of zeros that processes forked from here on share. */
void *fuzz_shared(size_t size);

/* The input, read from the front; zeros follow its end. */
typedef struct fuzz_bytes {
    const uint8_t *at, *end;
} fuzz_bytes;

uint32_t fuzz_below(fuzz_bytes *b, uint32_t n); /* from 0 to n - 1 */
int64_t fuzz_int(fuzz_bytes *b);                /* small, or one of those that hurt */
double fuzz_float(fuzz_bytes *b);
cfx_tensor *fuzz_tensor(fuzz_bytes *b);         /* small, of any dtype and layout, or empty */
cfx_value fuzz_value(fuzz_bytes *b, int depth); /* of any kind */
/* An operator. The same number stands for the same one when others are added. */
cfx_op *fuzz_op(uint64_t number);
/* Something of the type that an argument of an operator asks for; a tensor where it asks for one. */
struct cfx__schema_arg;
cfx_value fuzz_fitting(const struct cfx__schema_arg *a, cfx_value tensor);

/* Around each input: limits are set; everything is freed. */
void fuzz_begin(void);
int fuzz_end(void);
/* A file of the repository, by its path from there; ends the process where it is not to be had:
 * a harness that found nothing to change would say that all is well. */
const char *fuzz_file(const char *path);
/* A file of this process's own, until the next call. */
const char *fuzz_path(const char *suffix);
/* Whether the last step went well; the error, which must be a sentence, is forgotten. */
bool fuzz_fine(void);
/* Whether it failed for a limit's sake; asked before fuzz_fine. */
bool fuzz_limited(void);
/* Something contradicts itself: says what and stops. */
void fuzz_wrong(const char *fmt, ...) CFX_PRINTF(1, 2);

/* Inputs as a program describes them, small; a list; scope. */
cfx_value fuzz_inputs(cfx_program *p);
/* Where a program and the module it was exported from both run on inputs, they give the same. */
void fuzz_same(cfx_program *p, cfx_module *m, cfx_value inputs);
/* Shows, draws, runs, decomposes, saves and reopens a program; NULL is fine. */
void fuzz_use(cfx_program *p);

#endif
