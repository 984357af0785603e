/* Types of the caller's in trees of values: NamedTuples and nodes of one's own, as
 * torch.utils._pytree has them. */
#ifndef CFX_TREE_H
#define CFX_TREE_H

#include <cfx/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A type. Its values are tuples in all that can be done with them, but print as Point(x=1, y=2),
 * have a spec of their own in trees, and come out of traced, exported and saved programs again as
 * what they were. */
typedef struct cfx_tree_type {
    const char *name;          /* "Point" */
    const char *path;          /* "mine.Point": what code and files call it */
    const char *const *fields; /* of a NamedTuple, ended by NULL; NULL: a node of one's own */
} cfx_tree_type;

/* Registers a type, for all threads; the struct must stay. False, with an error, where another has
 * its path. */
CFX_API bool cfx_tree_register(const cfx_tree_type *type);
/* A value of a type: cfx_tree_of(&point, x, y); scope. Bad, with an error, where the type is not
 * registered or has another number of fields. */
CFX_API cfx_value cfx_tree_value(const cfx_tree_type *type, int64_t n, const cfx_value *items);
#define cfx_tree_of(type, ...) cfx_tree_make(type, CFX_ARGS(__VA_ARGS__))
static inline cfx_value cfx_tree_make(const cfx_tree_type *type, cfx_args a) {
    return cfx_tree_value(type, a.n, a.v);
}
/* The type of a value; NULL: none of the caller's. */
CFX_API const cfx_tree_type *cfx_tree_type_of(cfx_value v);
/* v.x of a NamedTuple, borrowed; bad, with an AttributeError, where it has no such field. */
CFX_API cfx_value cfx_field(cfx_value v, const char *name);

#ifdef __cplusplus
}
#endif
#endif
