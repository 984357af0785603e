/* A regular expression as a program; see regex.c (runs it) and regex_parse.c (makes it). */
#ifndef CFX__REGEX_H
#define CFX__REGEX_H

#include "tokenizer.h"

typedef enum cfx__inst_op {
    CFX__INST_CHAR,      /* x */
    CFX__INST_FOLD,      /* any case of x, which is folded */
    CFX__INST_ANY,
    CFX__INST_SET,       /* set x */
    CFX__INST_SPLIT,     /* goes on at x, else at y */
    CFX__INST_JUMP,      /* x */
    CFX__INST_BEGIN,
    CFX__INST_END,
    CFX__INST_AHEAD,     /* what follows, to a MATCH; then x */
    CFX__INST_NOT_AHEAD,
    CFX__INST_ATOMIC,
    CFX__INST_MATCH
} cfx__inst_op;

typedef struct cfx__inst {
    cfx__inst_op op;
    uint32_t x, y;
} cfx__inst;

typedef enum cfx__range_kind {
    CFX__RANGE_CODES,
    CFX__RANGE_CATEGORIES, /* a mask in low */
    CFX__RANGE_SPACE,
    CFX__RANGE_WORD
} cfx__range_kind;

typedef struct cfx__range {
    cfx__range_kind kind;
    bool negated;
    uint32_t low, high;
} cfx__range;

typedef struct cfx__set {
    uint32_t first, len; /* of ranges */
    bool negated, fold;
} cfx__set;

struct cfx__regex {
    VEC(cfx__inst) code;
    VEC(cfx__set) sets;
    VEC(cfx__range) ranges;
};

#endif
