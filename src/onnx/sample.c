/* Values in files of their own, as ONNX's tests have them beside a model: a tensor, a sequence of
 * tensors, or one that may be missing. */
#include "onnx.h"

#include "../tensor/tensor.h"

enum { MOST_NESTED = 8 };

static cfx_value read_value(cfx__onnx_reader *r, cfx__slice s, cfx__onnx_kind kind, int depth);

/* The fields of a SequenceProto and of an OptionalProto are numbered alike. */
static cfx_value read_items(cfx__onnx_reader *r, cfx__slice s, bool list, int depth) {
    cfx_value out = cfx_list_value(0, NULL);
    cfx__wire w = cfx__wire_of(s);
    cfx__wire_field f;
    while (cfx__wire_next(&w, &f) && cfx_ok())
        if (f.number == 3 || f.number == 5)
            cfx_list_append(cfx_as_list(out),
                            read_value(r, cfx__wire_bytes(&w, &f),
                                       f.number == 3 ? CFX__ONNX_IS_TENSOR : CFX__ONNX_IS_SEQUENCE,
                                       depth + 1));
    if (w.broken && cfx_ok())
        cfx__onnx_bad(r, "it is cut off or garbled");
    if (!cfx_ok())
        return cfx_bad();
    return list ? out : cfx_as_list(out)->len ? cfx_at(out, 0) : cfx_none();
}

static cfx_value read_value(cfx__onnx_reader *r, cfx__slice s, cfx__onnx_kind kind, int depth) {
    if (depth > MOST_NESTED) {
        cfx__onnx_bad(r, "values are nested too deep");
        return cfx_bad();
    }
    if (kind != CFX__ONNX_IS_TENSOR)
        return read_items(r, s, kind == CFX__ONNX_IS_SEQUENCE, depth);
    cfx_tensor *t = cfx__onnx_tensor(r, s, "the value");
    return cfx__obj_is_bad(t) ? cfx_bad() : cfx_tensor_value(t);
}

cfx_value cfx__onnx_sample(const char *path, cfx__onnx_kind kind) {
    size_t mark = cfx_scope_open();
    cfx__file_mapping *map = cfx__file_map(path);
    if (!map)
        return cfx_bad();
    cfx__onnx_reader r = {.path = path};
    cfx_value v = read_value(&r, (cfx__slice){map->size ? map->data : "", map->size}, kind, 0);
    cfx__onnx_reader_close(&r);
    cfx_drop(map);
    return cfx_scope_return_value(mark, v);
}
