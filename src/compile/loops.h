/* A loop that is being written: its values (loop_values.c), and how they become text (loop.c). */
#ifndef CFX__COMPILE_LOOPS_H
#define CFX__COMPILE_LOOPS_H

#include "compile.h"

typedef enum { LOAD, NUMBER, EACH, CONVERT, FOLD, TEXT } cfx__c_loop_kind;

/* A value of the loop, and what makes it: steps, with those of whole rows taken apart. */
typedef struct {
    cfx__c_loop_kind kind;
    cfx_dtype dtype;
    bool narrow;
    int level; /* the pass that computes it; of a narrow one, the first that can use it */
    int n, in[CFX__LOOP_OPERANDS];
    int lane;                   /* LOAD */
    const char *number;         /* NUMBER: its text */
    const cfx__loop_step *step; /* EACH */
    cfx__loop_fold fold;        /* FOLD */
    const char *text;           /* TEXT: $0, $1, ... are the operands */
    int until;                  /* the last pass that reads it from a row; 0: it is not kept */
    int row;                    /* of scratch, where it is kept */
    const char *name;           /* while a pass is written; NULL: not there */
} cfx__c_loop_value;

/* A row of scratch, which values have one after the other. */
typedef struct {
    const char *type;
    int value; /* the one that has it last */
} cfx__c_loop_row;

enum { CFX__C_LOOP_MOST = 4 * CFX__LOOP_VALUES };

typedef struct {
    cfx__c_unit *u;
    cfx__c *c;
    const cfx__loop *l;
    const cfx__c_ref *lanes[CFX__LOOP_LANES];
    const char *pointers[CFX__LOOP_LANES];
    int n;
    cfx__c_loop_value v[CFX__C_LOOP_MOST];
    int of[CFX__LOOP_VALUES]; /* value of the description to one here */
    int passes;
    cfx__c_walk outer, inner;
    int in_outer[CFX__LOOP_LANES], in_inner[CFX__LOOP_LANES], in_row;
    int nrows;
    cfx__c_loop_row rows[CFX__C_LOOP_MOST];
    bool wrong;
} cfx__c_loop_writer;

/* Fills w->v: steps become values, those of whole rows (softmax, norms) several. numbers: by lane,
 * as in cfx__c_loop_put. */
void cfx__c_loop_add_values(cfx__c_loop_writer *w, const char *const *numbers);

#endif
