/* Types of values in the inputs and results of a graph. Named and unnamed dynamic sizes become
 * symbols. Start at cfx__onnx_val. */
#include "onnx.h"

#include "../tensor/tensor.h"

/* The size that stands for symbol number i where one is needed: those of images are often multiples
 * of 32, and two sizes should not be taken for one. */
static int64_t hint(int i) {
    static const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23};
    return 32 * primes[i % COUNT(primes)];
}

/* The symbol for a size that a file calls so; one of its own for "". Scope. */
static cfx_value symbol(cfx__onnx_dims *dims, const char *name) {
    cfx_value known = *name ? cfx_dict_get(dims->names, name) : cfx_none();
    if (cfx_is_none(known)) {
        const char *own = cfx__text_format("s%d", dims->count);
        known = cfx__sym_name(own, true, hint(dims->count++));
        cfx_dict_set(dims->names, *name ? name : cfx__text_format("?%s", own), known);
    }
    return known;
}

/* One size: a number, or a symbol. */
static bool read_size(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_dims *dims,
                      cfx_value *out) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    const char *name = "";
    bool fixed = false;
    int64_t size = 0;
    while (cfx__wire_next(&w, &f) && name) {
        if (f.number == 1)
            size = cfx__wire_int(&w, &f), fixed = true;
        else if (f.number == 2)
            name = cfx__onnx_text(r, cfx__wire_bytes(&w, &f)), fixed = false;
    }
    if (!name || w.broken)
        return cfx_ok() && cfx__onnx_bad(r, "a size is garbled");
    /* a size below 0 is how some write one that they do not know */
    *out = fixed && size >= 0 ? cfx_int(size) : symbol(dims, name);
    return true;
}

static bool read_shape(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_dims *dims,
                       cfx_list *shape) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    while (cfx__wire_next(&w, &f)) {
        cfx_value size;
        if (f.number != 1)
            continue;
        if (shape->len == CFX_MAX_DIMS)
            return cfx__onnx_bad(r, "a tensor has more than %d dimensions", CFX_MAX_DIMS);
        if (!read_size(r, cfx__wire_bytes(&w, &f), dims, &size))
            return false;
        cfx_list_append(shape, size);
    }
    return !w.broken || cfx__onnx_bad(r, "a shape is garbled");
}

cfx_value cfx__onnx_described(const cfx_list *shape, cfx_dtype d) {
    int64_t sizes[CFX_MAX_DIMS];
    int n = 0;
    while (n < shape->len && shape->items[n].tag == CFX_TAG_INT)
        sizes[n] = cfx_integer(shape->items[n]), n++;
    if (n == shape->len)
        return cfx_tensor_value(cfx_tensor_fake(d, n, sizes, NULL));
    cfx_value stride[CFX_MAX_DIMS], step = cfx_int(1);
    for (int i = (int)shape->len - 1; i >= 0; i--) {
        stride[i] = step;
        step = cfx__sym_binary(CFX__SYM_MUL, shape->items[i], step);
    }
    cfx_dict *val = cfx_dict_new();
    cfx_dict_set(val, "shape", cfx_tuple_value(shape->len, shape->items));
    cfx_dict_set(val, "dtype", cfx_dtype_value(d));
    cfx_dict_set(val, "stride", cfx_tuple_value(shape->len, stride));
    cfx_dict_set(val, "device", cfx_device_value((cfx_device){CFX_CPU, -1}));
    return cfx_dict_value(val);
}

static bool read_tensor_type(cfx__onnx_reader *r, cfx__slice message, const char *name,
                             cfx__onnx_dims *dims, cfx_value *val) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    cfx_value shape = cfx_list_value(0, NULL);
    int64_t number = 0;
    bool shaped = false;
    while (cfx__wire_next(&w, &f)) {
        if (f.number == 1)
            number = cfx__wire_int(&w, &f);
        if (f.number != 2)
            continue;
        shaped = true;
        if (!read_shape(r, cfx__wire_bytes(&w, &f), dims, cfx_as_list(shape)))
            return false;
    }
    if (w.broken)
        return cfx__onnx_bad(r, "the type of '%s' is garbled", name);
    const cfx__onnx_type *t = cfx__onnx_type_numbered(number);
    if (shaped && t && t->dtype != CFX_DTYPE_COUNT)
        *val = cfx__onnx_described(cfx_as_list(shape), t->dtype);
    return cfx_ok();
}

/* The number in a field of a message; 0 where there is none. */
static int64_t number_in(cfx__slice message, uint32_t field) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    int64_t number = 0;
    while (cfx__wire_next(&w, &f))
        if (f.number == field && f.type == CFX__WIRE_VARINT)
            number = (int64_t)f.value;
    return number;
}

const cfx__onnx_type *cfx__onnx_elements(cfx__slice type) {
    cfx__wire w = cfx__wire_of(type);
    cfx__wire_field f;
    int64_t number = 0;
    while (cfx__wire_next(&w, &f))
        if (f.number == 1 && f.type == CFX__WIRE_BYTES)
            number = number_in(f.bytes, 1);
    return cfx__onnx_type_numbered(number);
}

const cfx__onnx_type *cfx__onnx_tensor_elements(cfx__slice proto) {
    return cfx__onnx_type_numbered(number_in(proto, 2));
}

cfx__onnx_kind cfx__onnx_kind_of(cfx__slice type) {
    cfx__wire w = cfx__wire_of(type);
    cfx__wire_field f;
    cfx__onnx_kind kind = CFX__ONNX_IS_TENSOR;
    while (cfx__wire_next(&w, &f))
        kind = f.number == 4   ? CFX__ONNX_IS_SEQUENCE
               : f.number == 9 ? CFX__ONNX_IS_OPTIONAL
                               : kind;
    return kind;
}

bool cfx__onnx_val(cfx__onnx_reader *r, cfx__slice type, const char *name, cfx__onnx_dims *dims,
                   cfx_value *val) {
    cfx__wire w = cfx__wire_of(type);
    cfx__wire_field f;
    *val = cfx_none();
    while (cfx__wire_next(&w, &f))
        if (f.number == 1 && !read_tensor_type(r, cfx__wire_bytes(&w, &f), name, dims, val))
            return false;
    return !w.broken || cfx__onnx_bad(r, "the type of '%s' is garbled", name);
}
