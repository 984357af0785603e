/* rules: patterns with what they become, and where they are applied.
 *
 * Invariant: rules are never changed once they are read, so that threads may share them; what an
 * application counts and remembers is its own. */
#ifndef CFX__RULES_H
#define CFX__RULES_H

#include "match.h"

typedef struct cfx__rule {
    const char *name;
    cfx__rule_text text;      /* where it stands */
    cfx__pattern *pattern;
    cfx_graph *result;        /* NULL: the row makes it */
    cfx_graph *conditions[8]; /* all have to hold */
    int nconditions;
    const cfx_rule *row;      /* of a table, or NULL */
    bool writes;              /* the pattern writes in place */
    uint64_t argument[2];     /* keys of the root's first arguments; 0: anything */
    bool commutes;            /* ... in either order */
} cfx__rule;

typedef struct cfx__rule_entry {
    uint64_t key; /* of the root */
    int rule;
} cfx__rule_entry;

struct cfx_rules {
    cfx_obj head;
    VEC(cfx__rule) rules;
    VEC(cfx__rule_entry) index; /* by key, then in the order of the rules */
    cfx__arena arena;
};

/* The entries for a key: where they start in the index, and how many there are. */
void cfx__rules_for(const cfx_rules *r, uint64_t key, int *first, int *n);

/* cfx_rewrite_in_place that counts how often each rule was applied. */
int cfx__rewrite_counted(cfx_program *p, const cfx_rules *r, int *counts);

#endif
