/* Sizes that are symbols, while shape rules know plain integers. */
#ifndef CFX__SYMBOLS_H
#define CFX__SYMBOLS_H

#include <cfx/program.h>

#include "record.h"

/* A program whose sizes are symbols is run at sizes that are unlike any other number in it, so that
 * every integer which depends on them can be identified by its value. */
typedef struct cfx__symbols {
    VEC(struct cfx__symbols_assigned {
        const char *name; /* of the source program */
        int64_t value;
    })
    assigned;
    VEC(struct cfx__symbols_size {
        int64_t value;
        cfx_node *node;   /* the integer itself; NULL: to be made of */
        cfx_node *tensor; /* dimension `dim` of this */
        int dim;
    })
    sizes;
    cfx_dict *plain; /* integers that the program names itself; counted */
} cfx__symbols;

/* Chooses sizes for all symbols in the graphs of p. Without it: cfx__symbols_begin. */
void cfx__symbols_begin(cfx__symbols *s);
void cfx__symbols_choose(cfx__symbols *s, const cfx_program *p);
void cfx__symbols_free(cfx__symbols *s);
/* An expression at the chosen sizes; other values as they are. A symbol that is new gets a size. */
cfx_value cfx__symbols_value(cfx__symbols *s, cfx_value v);
/* The tensor that metadata describes, at the chosen sizes; None where it describes none. Scope. */
cfx_value cfx__symbols_tensor(cfx__symbols *s, cfx_value val);
/* From now on `value` is what node n gives, or dimension dim of the tensor n. */
void cfx__symbols_know(cfx__symbols *s, int64_t value, cfx_node *n, int dim);
/* The integer as an argument: a node where it depends on symbols; made in r where needed. */
cfx_value cfx__symbols_arg(cfx__symbols *s, cfx__recorder *r, int64_t value);
/* The expression that an integer stands for; itself where it depends on no symbol. Scope. */
cfx_value cfx__symbols_expression(cfx__symbols *s, int64_t value);
/* Metadata of a tensor, with the expressions of its sizes. Scope. */
cfx_value cfx__symbols_describe(cfx__symbols *s, const cfx_tensor *t);
/* Gives a symbol a size within a range; the number that it has where it is known already. */
int64_t cfx__symbols_add(cfx__symbols *s, const char *name, int64_t least, int64_t most);
/* The number that PyTorch gives a symbol that comes from `source`: 77 of "L['x'].size()[0]". */
int cfx__symbol_number(const char *source);

#endif
