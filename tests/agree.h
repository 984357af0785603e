/* Between eager.c, which has the run that all others are held against, agree.c, which compares, and
 * ways.c, which has the ways in which a program is run. */
#ifndef CFX_TEST_AGREE_H
#define CFX_TEST_AGREE_H

#include "programs.h"

#include "dispatch/dispatch.h"

/* What a run gave, or why it gave nothing. */
typedef struct {
    bool ran;
    bool limited;      /* it gave nothing for want of memory or time */
    char why[256];
    cfx_node *refused; /* eager runs: the node that did */
    cfx_node *sharing; /* eager runs: one that gave an argument's memory, which its row denies */
    cfx_list *leaves;  /* copies: results, then inputs and state as they are afterwards */
    cfx_dict *taps;    /* copies of the values of nodes by name; NULL: not asked for */
} outcome;

/* Copies of tensors; other values as they are. Scope. */
cfx_value eager_copy(cfx_value v);
cfx_value eager_copies(cfx_value list);
/* Copies of named tensors, which share memory where those do. */
cfx_dict *eager_state(const cfx_dict *state);
cfx_args eager_args(cfx_value list);
/* What the last call gave, or why not: the error is forgotten. */
outcome eager_outcome(cfx_value result, cfx_value inputs, const cfx_dict *state);
/* The calls of the graph one by one, by the dispatcher alone. noise: 0, or which last digits
 * change. each: those of calls that compute every element by itself change by its size alone, and
 * of calls that compute nothing none. */
outcome eager_run(const random_program *p, uint64_t noise, bool each);

/* Changes the last digits of a float result in place, as another order of a sum would: those of the
 * number, or in half of the calls as many of the largest one. */
void eager_disturb(cfx_value v, uint64_t *lot);
/* The same of a sum, which loses the last digits of its terms, that may be larger than what is left
 * of them: those of products and sums of the arguments without their signs. */
void eager_disturb_sums(const cfx_node *n, cfx_value args, cfx_value v, uint64_t *lot);

/* ---- agreement (agree.c) --------------------------------------------------------------------- */

/* What rounding does to the leaves of eager runs, so far. */
typedef struct {
    int turns;
    cfx_list *most;
} apart_spread;

/* A drawn program that is being checked. */
typedef struct {
    const random_program *drawn;
    program_finding found;
    program_counts *counts;
    outcome first;     /* the eager run */
    double coarse;     /* how far floats may be apart beside what their dtype allows */
    apart_spread spread[2]; /* by whether elements are held against themselves */
    cfx_program *now;  /* the program that is run */
    cfx_program *last; /* the program that was found to do something else */
} subject;

/* Whether a way that is one of many is gone: always, or in one program of so many. */
bool agree_goes(const subject *s, uint32_t in);

/* Notes what was refused, unless the error, which is forgotten, says that it may be. */
void agree_unless(subject *s, const char *way, const char *may);
/* Notes what disagrees; the first one stays. */
void agree_found(subject *s, const char *fmt, ...) CFX_PRINTF(2, 3);

/* Whether a changed program, or a decomposed one, may run where eager refuses, as in PyTorch. */
bool agree_may_run(const outcome *eager);
bool agree_may_run_decomposed(const outcome *eager);

/* Copies of what a program holds under the drawn names, which begin each run; back to these; and
 * what a run left there. */
cfx_dict *agree_held(const cfx_program *p, const random_program *drawn);
void agree_restore(cfx_program *p, const cfx_dict *held);
cfx_dict *agree_state(const cfx_program *p, const random_program *drawn, const cfx_dict *held);

/* What a run shows of each node, and how its numbers are disturbed; 0: not. */
typedef struct {
    cfx_dict *seen;
    uint64_t noise;
} agree_taps;

/* spare: the bytes that the run may take beside those that are held; 0: any. */
outcome agree_run(cfx_program *p, const random_program *drawn, const cfx_dict *held,
                  const cfx_executor *x, agree_taps *shown, size_t spare);
/* Holds what a way gave against the eager run. */
void agree_on(subject *s, const outcome *o, const char *way);

/* ---- distances (apart.c) --------------------------------------------------------------------- */

/* How far floats of a dtype may be apart, as a part of them. */
double agree_allowed(cfx_dtype dtype);

/* Where two values differ in kind: "", or what differs. */
const char *apart_kind(cfx_value a, cfx_value b);
/* Whether two tensors have the same numbers: of complex ones both parts, which may be NaN alone. */
bool apart_none(cfx_value a, cfx_value b);
/* A complex tensor with one form of what is not finite. */
cfx_value apart_one_form(cfx_value v);

/* How far leaf i of the eager run, as `want` has it, and what a way gave are apart where neither
 * what is allowed nor rounding explains it; 0: nowhere. each: every number is held against itself,
 * not against the largest of its tensor. */
double apart_excess(subject *s, int64_t i, cfx_value got, cfx_value want, bool each);

/* The same of two values of a kind: `again` gives what `want` is with other last digits, or
 * None. */
typedef cfx_value apart_again(void *of, uint64_t noise);
double apart_excess_in(cfx_value got, cfx_value want, apart_again *again, void *of);

/* Whether the eager run is refused with other last digits, or other numbers where PyTorch leaves
 * them open: what is an index then may be out of range. */
bool apart_may_refuse(const subject *s);

/* `got` with the numbers of `want` where those are infinite or NaN. */
cfx_value agree_where_finite(cfx_value got, cfx_value want);
/* Runs a program by the interpreter and by plans. */
void agree_all(subject *s, cfx_program *p, const char *name);
/* The same of what a change gave; one that failed counts as a refusal. */
void agree_changed(subject *s, cfx_program *p, const char *name);
/* Quantized in a way that is drawn: held against itself. */
void agree_quantized(subject *s, cfx_program *p);

cfx_value agree_tuple(cfx_value list);

/* ---- changes (turns.c) ----------------------------------------------------------------------- */

/* The program out of a file of a kind, ".pt2"; NULL or bad, with an error. */
cfx_program *agree_reopened(cfx_program *p, const char *kind);
/* A pass that keeps what is computed; NULL where the one drawn does not. */
const cfx_pass *agree_any_pass(void);
/* The program after two to four changes, each of what the one before gave. */
void agree_in_turn(subject *s, cfx_program *p);

#endif
