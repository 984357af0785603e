/* cursor: a place in a short text that is being read, for schemas and signatures. */
#ifndef CFX__CURSOR_H
#define CFX__CURSOR_H

#include "value.h"

typedef struct cfx__cursor {
    const char *what; /* "schema": how errors begin */
    cfx_error_kind kind;
    const char *text, *p;
    cfx__arena *arena; /* where what is read is kept */
    bool failed; /* an error was recorded: the first one counts */
} cfx__cursor;

/* Records what is wrong at the cursor, with the text and a caret below the column. */
void cfx__cursor_fail(cfx__cursor *c, const char *wrong);
/* Steps over blanks. */
static inline void cfx__cursor_skip(cfx__cursor *c) {
    while (*c->p == ' ')
        c->p++;
}
/* Steps over blanks and then over `token`; false, where it does not come next. */
bool cfx__cursor_eat(cfx__cursor *c, const char *token);
/* The same; an error where it does not come next. */
void cfx__cursor_need(cfx__cursor *c, const char *token);

#endif
