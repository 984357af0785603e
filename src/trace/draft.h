/* Draft export: where forward decides by data, it is told what the data of the example says.
 *
 * Forward runs once on the example, and the numbers that it takes out of tensors (item, tolist, how
 * many are not zero) are noted in their order, which is that of the symbols u0, u1, ... and zuf0,
 * zuf1, ... of a recording. Where C then looks at a number that is data, which an export refuses,
 * the answer is what it was in the example; that is assumed, asserted by the program, and told. */
#ifndef CFX__DRAFT_H
#define CFX__DRAFT_H

#include <cfx/export.h>

#include "../value/value.h"

struct cfx__export;

typedef struct cfx__draft {
    VEC(int64_t) numbers; /* of u0, u1, ... */
    VEC(double) reals;    /* of zuf0, zuf1, ... */
    cfx_list *failures;   /* counted; dicts: see cfx_draft_failures */
} cfx__draft;

/* Runs forward on copies of the example and notes the numbers; false with an error. */
bool cfx__draft_begin(cfx__draft *d, cfx_module *m, cfx_value args, cfx_value kwargs);
void cfx__draft_end(cfx__draft *d);
/* A nested value with copies of its tensors; scope. */
cfx_value cfx__draft_copied(cfx_value v);
/* What a number is that C looks at, by the example; false where nobody knows, or there is no draft.
 */
bool cfx__draft_decide(struct cfx__export *e, cfx_site at, cfx_value v, cfx_value *out);
/* The same of a size that C looked at and that is data: from now on it is what it was. False where
 * it cannot be. text: what it is called; NULL: as it is known. */
bool cfx__draft_fix(struct cfx__export *e, cfx_site at, cfx_value size, const char *text);
/* Notes something else that an export refuses: the kind of it, and its words. */
void cfx__draft_note(cfx__draft *d, const char *kind, const char *text, const char *line,
                     cfx_value value);

/* cfx_export_from, with a draft or without one (src/run/export.c). */
cfx_program *cfx__export_program(cfx_site at, cfx_module *m, cfx_value args, cfx_value kwargs,
                                 cfx_value dynamic, cfx_export_options options,
                                 cfx__draft *draft);

#endif
