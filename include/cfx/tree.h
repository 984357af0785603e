/* User-defined container types in trees of values: NamedTuples and registered nodes, as in
 * torch.utils._pytree. */
#ifndef CFX_TREE_H
#define CFX_TREE_H

#include <cfx/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A container type. Its values behave as tuples, but print as Point(x=1, y=2), have their own
 * spec in trees, and keep their type through traces, exports and files. */
typedef struct cfx_tree_type {
    const char *name;          /* "Point" */
    const char *path;          /* "mine.Point": what code and files call it */
    const char *const *fields; /* of a NamedTuple, ended by NULL; NULL: a node of one's own */
    /* Of a struct of the caller's, for cfx_tree_pack and cfx_tree_unpack; else NULL. flatten puts
     * the parts of an object in a list: tensors, numbers, words, and trees of those. unflatten
     * fills an object from such parts, which belong to the scope; false, with an error, where it
     * cannot. */
    void (*flatten)(const void *object, cfx_list *parts);
    bool (*unflatten)(void *object, const cfx_list *parts);
} cfx_tree_type;

/* Registers a type for all threads; the struct must stay valid. False, with an error, where
 * another type has its path. */
CFX_API bool cfx_tree_register(const cfx_tree_type *type);
/* A value of a type: cfx_tree_of(&point, x, y); scope. Bad, with an error, where the type is not
 * registered or has another number of fields. */
CFX_API cfx_value cfx_tree_value(const cfx_tree_type *type, int64_t n, const cfx_value *items);
#define cfx_tree_of(type, ...) cfx_tree_make(type, CFX_ARGS(__VA_ARGS__))
static inline cfx_value cfx_tree_make(const cfx_tree_type *type, cfx_args a) {
    return cfx_tree_value(type, a.n, a.v);
}
/* Converts a user struct to a value, by `flatten` of its type; scope. Bad, with an error, where
 * the type has none. cfx_tree_unpack fills `object` from a value of that type, such as a
 * program's result; false, with an error, where the type differs or `unflatten` fails. */
CFX_API cfx_value cfx_tree_pack(const cfx_tree_type *type, const void *object);
CFX_API bool cfx_tree_unpack(const cfx_tree_type *type, cfx_value v, void *object);
/* The type of a value; NULL: none of the caller's. */
CFX_API const cfx_tree_type *cfx_tree_type_of(cfx_value v);
/* v.x of a NamedTuple, borrowed; bad, with an AttributeError, where it has no such field. */
CFX_API cfx_value cfx_value_field(cfx_value v, const char *name);

#ifdef __cplusplus
}
#endif
#endif
