/* Objects of the caller's: counted, compared and called by the functions of their type. */
#include <cfx/object.h>

#include "value.h"

static void object_free(void *p) {
    cfx_object *o = p;
    if (o->type->free)
        o->type->free(o->data);
}

static const cfx__obj_type object_type = {.name = "object", .free = object_free};

cfx_value cfx_object_value(const cfx_object_type *type, void *data) {
    if (!type || !type->name) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "an object has a type, and that a name");
        return cfx_bad();
    }
    cfx_object *o = cfx__obj_new(&object_type, sizeof *o);
    o->type = type;
    o->data = data;
    return (cfx_value){.tag = CFX_TAG_OBJECT, .object_ = o};
}

void *cfx_object_data(cfx_value v, const cfx_object_type *type) {
    return v.tag == CFX_TAG_OBJECT && v.object_->type == type ? v.object_->data : NULL;
}

bool cfx__object_equal(const cfx_object *a, const cfx_object *b) {
    if (a == b || a->type != b->type)
        return a == b;
    return a->data == b->data || (a->type->equal && a->type->equal(a->data, b->data));
}

uint64_t cfx__object_hash(const cfx_object *o) {
    return o->type->hash ? o->type->hash(o->data) : cfx__text_key(&o->data, sizeof o->data);
}

const char *cfx__object_type_name(const cfx_object *o) {
    return o->type->type_name ? o->type->type_name(o->data) : o->type->name;
}

void cfx__object_text(cfx__text *out, const cfx_object *o, bool repr) {
    size_t mark = cfx_scope_open();
    const char *text = o->type->text ? o->type->text(o->data, repr) : NULL;
    if (text)
        cfx__text_puts(out, text);
    else
        cfx__text_printf(out, "<%s object>", cfx__object_type_name(o));
    cfx_scope_close(mark);
}

cfx_value cfx_object_call_from(cfx_site at, cfx_value v, cfx_args args) {
    if (v.tag != CFX_TAG_OBJECT || !v.object_->type->call) {
        if (!cfx_is_bad(v))
            cfx_fail(CFX_TYPE_ERROR, at, "'%s' object is not callable", cfx__value_python_type(v));
        return cfx_bad();
    }
    return v.object_->type->call(v.object_->data, args);
}

/* ---- functions in C -------------------------------------------------------------------------- */

typedef struct function {
    cfx_opaque_fn *fn;
} function;

static bool same_function(void *a, void *b) { return ((function *)a)->fn == ((function *)b)->fn; }

static uint64_t hash_function(void *data) {
    const function *f = data;
    return cfx__text_key(&f->fn, sizeof f->fn);
}

static cfx_value call_function(void *data, cfx_args args) { return ((function *)data)->fn(args); }

static const cfx_object_type function_type = {.name = "function",
                                              .equal = same_function,
                                              .hash = hash_function,
                                              .call = call_function,
                                              .free = cfx__free};

cfx_value cfx_function_value(cfx_opaque_fn *fn) {
    if (!fn) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the function is NULL");
        return cfx_bad();
    }
    function *f = cfx__alloc(sizeof *f);
    f->fn = fn;
    return cfx_object_value(&function_type, f);
}
