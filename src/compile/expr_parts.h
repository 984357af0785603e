/* Parts of expressions that have been read, and their text (expr.c). */
#ifndef CFX__COMPILE_EXPR_PARTS_H
#define CFX__COMPILE_EXPR_PARTS_H

#include "compile.h"

/* Types that expressions have. */
typedef enum { INT, I64, U64, F32, F64, C64, C128 } type;

static const char *const type_names[] = {"int",    "int64_t",        "uint64_t",       "float",
                                         "double", "float _Complex", "double _Complex"};

/* A part that has been read: its text, how tightly that binds, and what is known of it. */
typedef struct {
    type type;
    int level;    /* of the operator that is outermost; ATOM: none */
    bool literal; /* a number: `f`, or where the type is an integer's `i` */
    double f;
    int64_t i;
    const char *text; /* scope; NULL for literals */
} part;

enum { CHOICE = -1, LEVELS = 10, UNARY = LEVELS, ATOM = LEVELS + 1 };

static inline bool is_float(type t) { return t >= F32; }

static inline bool is_complex(type t) { return t >= C64; }

/* The type of the parts of complex numbers; another type itself. */
static inline type part_type(type t) { return t == C64 ? F32 : t == C128 ? F64 : t; }

static inline part literal_of(type t, double f, int64_t i) {
    return (part){.type = t, .level = ATOM, .literal = true, .f = f, .i = i};
}

static inline const char *shown(part p) {
    if (!p.literal)
        return p.text ? p.text : "0";
    return cfx__c_number(p.type == F32 ? CFX_F32 : p.type == F64 ? CFX_F64 : CFX_I64, p.f, p.i);
}

static inline part converted(part p, type to) {
    if (p.type == to)
        return p;
    if (is_complex(to) && p.literal) /* compilers convert it */
        return converted(p, part_type(to));
    const bool below = to == U64 && p.i < 0; /* compilers warn of it unless it is a cast */
    if (p.literal && (is_float(to) || !is_float(p.type)) && !below) {
        const double f = is_float(p.type) ? p.f : (double)p.i;
        return literal_of(to, to == F32 ? (double)(float)f : f, p.i);
    }
    return (part){
        .type = to,
        .level = UNARY,
        .text = cfx__text_format(p.level < ATOM ? "(%s)(%s)" : "(%s)%s", type_names[to], shown(p))};
}

/* The text as an operand of an operator of a level: && among ||, shifts and the like always have
 * parentheses, which compilers ask for. */
static inline const char *operand(part p, int level) {
    const bool bare = p.level >= ATOM || (p.level == UNARY && level < UNARY) ||
                      (p.level == 9 && level == 8) || (p.level >= 7 && level <= 6 && level >= 5) ||
                      (p.level >= 5 && p.level <= 6 && level <= 1);
    return cfx__text_format(bare ? "%s" : "(%s)", shown(p));
}

static inline type common(type a, type b) {
    const type t = a > b ? a : b;
    return t == C64 && (a == F64 || b == F64) ? C128 : t;
}

static inline bool is_one(part p) { return p.literal && (is_float(p.type) ? p.f == 1 : p.i == 1); }

static inline bool is_zero(part p) { return p.literal && !is_float(p.type) && !p.i; }

static inline bool truth(part p) { return is_float(p.type) ? p.f != 0 : p.i != 0; }

#endif
