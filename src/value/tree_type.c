/* Types of the caller's: registered once for all threads. A value of one is a tuple with the number
 * of its type in `spare`, which is how all that copies values keeps it. */
#include "tree_type.h"

#include "value.h"

#include <pthread.h>

enum { MOST = 1024 };

static struct {
    pthread_mutex_t lock;
    int n;
    const cfx_tree_type *types[MOST]; /* number k is types[k - 1] */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The number of a type, by its address or its path; 0: none. */
static uint32_t number_of(const cfx_tree_type *type, const char *path) {
    uint32_t found = 0;
    pthread_mutex_lock(&registry.lock);
    for (int i = 0; i < registry.n && !found; i++)
        if (registry.types[i] == type || (path && !strcmp(registry.types[i]->path, path)))
            found = (uint32_t)i + 1;
    pthread_mutex_unlock(&registry.lock);
    return found;
}

/* The type with a number (cfx_value.spare); NULL: none. */
static const cfx_tree_type *type_of(uint32_t number) {
    pthread_mutex_lock(&registry.lock);
    const cfx_tree_type *type =
        number && number <= (uint32_t)registry.n ? registry.types[number - 1] : NULL;
    pthread_mutex_unlock(&registry.lock);
    return type;
}

bool cfx_tree_register(const cfx_tree_type *type) {
    if (!type || !type->name || !type->path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a type of trees has a name and a path");
        return false;
    }
    uint32_t taken = number_of(NULL, type->path);
    if (taken && type_of(taken) == type)
        return true;
    pthread_mutex_lock(&registry.lock);
    bool room = !taken && registry.n < MOST;
    if (room)
        registry.types[registry.n++] = type;
    pthread_mutex_unlock(&registry.lock);
    if (!room)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s: %s", type->path,
                 taken ? "another type of trees is registered under this path"
                       : "too many types of trees are registered");
    return room;
}

/* Whether code calls a path so: "mine_Point" is mine.Point. */
static bool is_spelled(const char *path, const char *name, size_t len) {
    size_t i = 0;
    while (i < len && path[i] && (path[i] == '.' ? '_' : path[i]) == name[i])
        i++;
    return i == len && !path[i];
}

const cfx_tree_type *cfx__tree_type_spelled(const char *name, size_t len) {
    const cfx_tree_type *type = NULL;
    pthread_mutex_lock(&registry.lock);
    for (int i = 0; i < registry.n && !type; i++)
        if (is_spelled(registry.types[i]->path, name, len))
            type = registry.types[i];
    pthread_mutex_unlock(&registry.lock);
    return type;
}

const cfx_tree_type *cfx__tree_type_named(const char *path) {
    return type_of(number_of(NULL, path));
}

static int64_t count_fields(const cfx_tree_type *type) {
    int64_t n = 0;
    while (type->fields[n])
        n++;
    return n;
}

cfx_value cfx_tree_value(const cfx_tree_type *type, int64_t n, const cfx_value *items) {
    uint32_t number = type ? number_of(type, NULL) : 0;
    if (!number) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s is no registered type of trees",
                 type && type->name ? type->name : "NULL");
        return cfx_bad();
    }
    if (type->fields && count_fields(type) != n) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s has %lld fields, but %lld values were given",
                 type->name, (long long)count_fields(type), (long long)n);
        return cfx_bad();
    }
    cfx_value v = cfx_tuple_value(n, items);
    v.spare = number;
    return v;
}

cfx_value cfx_tree_pack(const cfx_tree_type *type, const void *object) {
    if (!type || !type->flatten || !object) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "%s",
                 object ? "the type has no function that takes objects apart"
                        : "the object is NULL");
        return cfx_bad();
    }
    size_t mark = cfx_scope_open();
    cfx_value parts = cfx_list_value(0, NULL);
    type->flatten(object, parts.list_);
    return cfx_scope_return_value(mark, cfx_tree_value(type, parts.list_->len, parts.list_->items));
}

bool cfx_tree_unpack(const cfx_tree_type *type, cfx_value v, void *object) {
    if (cfx_is_bad(v))
        return false;
    if (!type || !type->unflatten || !object || cfx_tree_type_of(v) != type) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "this is no %s that an object is made of",
                 type && type->name ? type->name : "type");
        return false;
    }
    return type->unflatten(object, v.list_) && cfx_ok();
}

const cfx_tree_type *cfx_tree_type_of(cfx_value v) {
    return v.tag == CFX_TAG_TUPLE && v.spare ? type_of(v.spare) : NULL;
}

cfx_value cfx_value_field(cfx_value v, const char *name) {
    const cfx_tree_type *type = cfx_tree_type_of(v);
    for (int64_t i = 0; type && type->fields && name && type->fields[i]; i++)
        if (!strcmp(type->fields[i], name))
            return cfx_at(v, i);
    if (!cfx_is_bad(v))
        cfx_fail(CFX_ATTRIBUTE_ERROR, (cfx_site){0}, "'%s' object has no attribute '%s'",
                 type ? type->name : cfx__value_python_type(v), name ? name : "");
    return cfx_bad();
}

cfx_value cfx__value_like(cfx_value v) {
    cfx_value made = v.tag == CFX_TAG_LIST ? cfx_list_value(0, NULL) : cfx_tuple_value(0, NULL);
    made.spare = v.spare;
    return made;
}
