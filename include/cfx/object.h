/* User objects as values: opaque objects of another language, a binding or an application. They
 * can be arguments of nodes, items of lists and dicts and, if callable, targets of nodes. */
#ifndef CFX_OBJECT_H
#define CFX_OBJECT_H

#include <cfx/value.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_code cfx_code;

/* The operations of an object, on its data. A NULL function has the default given. */
typedef struct cfx_object_type {
    const char *name; /* what error messages call its type: "Point" */
    const char *(*type_name)(void *data); /* the same where it differs by object; borrowed */
    /* What Python's repr() would show, or str(); scope. NULL: "<Point object>". */
    const char *(*text)(void *data, bool repr);
    /* Whether two objects of this type are equal; NULL: where their data is one. Equal ones have
     * one hash; NULL: by the address. */
    bool (*equal)(void *a, void *b);
    uint64_t (*hash)(void *data);
    /* Writes the Python expression for it in generated code (cfx_code_text, cfx_code_global of
     * cfx/emit.h); NULL: its repr. */
    void (*code)(void *data, cfx_code *out);
    /* Calls it; NULL: it cannot be called. The result is a value of the current scope. */
    cfx_value (*call)(void *data, cfx_args args);
    /* Its last count is gone, on whatever thread that was; NULL: nothing is to be done. */
    void (*free)(void *data);
} cfx_object_type;

/* An object: reference-counted, shared by all copies. */
struct cfx_object {
    cfx_obj head;
    const cfx_object_type *type;
    void *data;
};

/* An object of a type, which must stay valid; scope. Bad, with an error, where type is NULL. */
CFX_API cfx_value cfx_object_value(const cfx_object_type *type, void *data);
/* A C function as a callable object; scope. Objects of the same function are equal. */
typedef cfx_value cfx_opaque_fn(cfx_args args);
CFX_API cfx_value cfx_function_value(cfx_opaque_fn *fn);
/* The data of an object of this type; NULL, without an error, where v is anything else. */
CFX_API void *cfx_object_data(cfx_value v, const cfx_object_type *type);
/* Calls an object; scope. Bad, with Python's error, where it cannot be called. */
CFX_API cfx_value cfx_object_call_from(cfx_site at, cfx_value object, cfx_args args);
#define cfx_object_call(object, ...) cfx_object_call_from(CFX_HERE, object, CFX_ARGS(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
