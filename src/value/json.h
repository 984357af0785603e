/* JSON: text to a tree and on to values, and back.
 *
 * Invariant: integers that fit an int64 stay exact; larger ones become floats. What is read has at
 * most CFX__JSON_DEPTH levels, and no key twice in an object. A tree is one block of items in the
 * order of the text, so that a file of megabytes costs a few allocations; values are made of it
 * where they are wanted. */
#ifndef CFX__JSON_H
#define CFX__JSON_H

#include "../value/value.h"

enum { CFX__JSON_DEPTH = 512 };

/* ---- trees ---------------------------------------------------------------------------------- */

typedef enum cfx__json_kind {
    CFX__JSON_NULL,
    CFX__JSON_BOOL,
    CFX__JSON_INT,
    CFX__JSON_FLOAT,
    CFX__JSON_TEXT,
    CFX__JSON_ARRAY,
    CFX__JSON_OBJECT
} cfx__json_kind;

/* One item. The items of an array follow it; an object is followed by its keys (texts), each with
 * its value behind it. */
typedef struct cfx__json {
    uint32_t kind;
    uint32_t len;       /* bytes of a text; items of an array, pairs of an object */
    union {
        bool b;
        int64_t i;
        double f;
        const char *text; /* ends with a zero byte; may hold others */
        size_t size;    /* arrays and objects: all items below, itself included */
    };
} cfx__json;

/* Owns a tree. Zero is empty. */
typedef struct cfx__json_tree {
    VEC(cfx__json) items;
    cfx__arena texts;
} cfx__json_tree;

/* Reads a text; the root is tree->items.data[0]. NaN, Infinity and -Infinity are floats, as Python
 * writes them. False, with a FileError that names `what`, line
 * and column, when it is no JSON. The text is not needed any more. The caller releases the tree
 * either way. Here and below `what` may be NULL: then no error is recorded. */
bool cfx__json_read(cfx__json_tree *tree, const char *text, size_t len, const char *what);
void cfx__json_release(cfx__json_tree *tree);

/* ---- parts ----------------------------------------------------------------------------------- */

/* A list or an object in a text, its brackets included. A tree has some twenty times the items that
 * a graph is worth, so that the large lists of a model are left out of the tree and read one item
 * after the other. */
typedef struct cfx__json_part {
    const char *text; /* NULL: there is none */
    size_t len;
} cfx__json_part;

/* The lists and objects called names[] in the object that the keys of path lead to. Nothing is
 * checked but brackets and quotes: what cannot be followed is not found. */
void cfx__json_find_parts(const char *text, size_t len, const char *const *path, int npath,
                          const char *const *names, int nnames, cfx__json_part *parts);
/* The first of the words NaN, Infinity and -Infinity from `at` on that is in no string, and what it
 * stands for; `at` is in no string itself. False: there is none. */
bool cfx__json_find_bare(const char *at, const char *end, cfx__json_part *word, double *f);
/* cfx__json_read, with each of the parts, in the order of the text, being empty in the tree. */
bool cfx__json_read_but(cfx__json_tree *tree, const char *text, size_t len, int nparts,
                        const cfx__json_part *parts, const char *what);
/* Reads a part of the text. Each item is given to fn, those of an object with their keys (else
 * NULL), and is gone after that; keys that stand twice are fn's to find. False, with an error, when
 * it is no JSON, or fn gives false. */
typedef bool cfx__json_item_fn(const cfx__json *key, const cfx__json *item, void *user);
bool cfx__json_stream(const char *text, cfx__json_part part, const char *what,
                      cfx__json_item_fn *fn, void *user);
/* Gives the pairs of an object to fn as they are written: plain keys without their quotes, values
 * unread. False where fn gives false, or a pair is not so plain: cfx__json_stream tells. */
typedef bool cfx__json_pair_fn(const char *key, size_t klen, const char *value, size_t vlen,
                               void *user);
bool cfx__json_walk(cfx__json_part part, cfx__json_pair_fn *fn, void *user);

/* ---- looking --------------------------------------------------------------------------------- */

/* The item behind j and all that is in it. */
static inline const cfx__json *cfx__json_next(const cfx__json *j) {
    return j + (j->kind >= CFX__JSON_ARRAY ? j->size : 1);
}
/* for each item v of an array; for each pair of an object: key k, value v. */
#define cfx__json_each(array, v)                                                                   \
    for (const cfx__json *v = (array) + 1, *v##_end = cfx__json_next(array); v < v##_end;          \
         v = cfx__json_next(v))
#define cfx__json_pairs(object, k, v)                                                              \
    for (const cfx__json *k = (object) + 1, *v = k + 1, *k##_end = cfx__json_next(object);         \
         k < k##_end; k = cfx__json_next(v), v = k + 1)
/* The value of a key; NULL where j is NULL, no object or lacks it. For objects of a few keys: it
 * looks at each. */
const cfx__json *cfx__json_get(const cfx__json *j, const char *key);
/* Whether it is there and of this kind. */
static inline bool cfx__json_is(const cfx__json *j, cfx__json_kind kind) {
    return j && j->kind == (uint32_t)kind;
}

/* ---- values --------------------------------------------------------------------------------- */

/* A tree as dicts, lists, strings, ints, floats, bools and None; scope. */
cfx_value cfx__json_to_value(const cfx__json *j);
/* Both at once, from text; scope. */
cfx_value cfx__json_parse(const char *text, size_t len, const char *what);

/* Adds a string with its quotes; text that is not ASCII stays as it is. */
void cfx__json_string(cfx__text *out, const char *text, size_t len);
void cfx__json_characters(cfx__text *out, const char *text, size_t len); /* without the quotes */
/* Adds a value without blanks. False, with an error, for what JSON has no form for: numbers that
 * are not finite, keys that are no strings, tensors. */
bool cfx__json_value(cfx__text *out, cfx_value v);
/* Adds a tree without blanks. */
void cfx__json_write(cfx__text *out, const cfx__json *j);

#endif
