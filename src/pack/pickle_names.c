/* The closed list of names that pickles may have: what rebuilds tensors and plain containers, and
 * what checkpoints have beside them. */
#include "pickle_names.h"

#include "../tensor/npy.h"

static const struct {
    const char *module, *name;
    cfx__pickle_callee callee;
    int dtype;
} names[] = {
    {"torch._utils", "_rebuild_tensor", REBUILD_TENSOR, -1},
    {"torch._utils", "_rebuild_tensor_v2", REBUILD_TENSOR, -1},
    {"torch._utils", "_rebuild_tensor_v3", REBUILD_TENSOR_3, -1},
    {"torch._utils", "_rebuild_parameter", REBUILD_PARAMETER, -1},
    {"torch._utils", "_rebuild_parameter_with_state", REBUILD_PARAMETER, -1},
    {"collections", "OrderedDict", ORDERED_DICT, -1},
    {"torch", "FloatStorage", STORAGE, CFX_F32},
    {"torch", "DoubleStorage", STORAGE, CFX_F64},
    {"torch", "HalfStorage", STORAGE, CFX_F16},
    {"torch", "BFloat16Storage", STORAGE, CFX_BF16},
    {"torch", "LongStorage", STORAGE, CFX_I64},
    {"torch", "IntStorage", STORAGE, CFX_I32},
    {"torch", "ShortStorage", STORAGE, CFX_I16},
    {"torch", "CharStorage", STORAGE, CFX_I8},
    {"torch", "ByteStorage", STORAGE, CFX_U8},
    {"torch", "BoolStorage", STORAGE, CFX_BOOL},
    {"torch", "ComplexFloatStorage", STORAGE, CFX_C64},
    {"torch", "ComplexDoubleStorage", STORAGE, CFX_C128},
    {"torch.storage", "UntypedStorage", STORAGE, -1},
    {"torch", "UntypedStorage", STORAGE, -1},
    {"torch", "Size", SIZE, -1},
    {"torch", "device", DEVICE, -1},
    {"torch.serialization", "_get_layout", LAYOUT, -1},
    {"torch._tensor", "_rebuild_from_type_v2", REBUILD_TYPED, -1},
    {"torch", "Tensor", UNREAD, -1},
    {"torch.nn.parameter", "Parameter", UNREAD, -1},
    {"torch.nn.parameter", "Buffer", UNREAD, -1},
    {"collections", "defaultdict", FILLED_DICT, -1},
    {"collections", "Counter", FILLED_DICT, -1},
    {"numpy.core.multiarray", "_reconstruct", ARRAY, -1},
    {"numpy._core.multiarray", "_reconstruct", ARRAY, -1},
    {"numpy.core.multiarray", "scalar", ARRAY_SCALAR, -1},
    {"numpy._core.multiarray", "scalar", ARRAY_SCALAR, -1},
    {"numpy", "dtype", ARRAY_DTYPE, -1},
    {"numpy", "ndarray", UNREAD, -1},
    {"_codecs", "encode", ENCODED, -1},
    {"argparse", "Namespace", UNREAD, -1},
    {"types", "SimpleNamespace", UNREAD, -1},
};

/* Modules whose every class is UNREAD, and the same of those that are built in. */
static bool is_unread(const char *module, const char *name) {
    static const char *const modules[] = {"datetime", "pathlib", "decimal", "fractions", "uuid"};
    static const char *const builtins[] = {"set",   "frozenset", "bytearray", "bytes", "complex",
                                           "slice", "range",     "object",    "list",  "dict",
                                           "tuple", "int",       "float",     "str",   "bool"};
    for (int i = 0; i < COUNT(modules); i++)
        if (!strcmp(module, modules[i]))
            return true;
    for (int i = 0; i < COUNT(builtins); i++)
        if (!strcmp(name, builtins[i]))
            return !strcmp(module, "builtins") || !strcmp(module, "__builtin__");
    return !strcmp(name, "_reconstructor") &&
           (!strcmp(module, "copyreg") || !strcmp(module, "copy_reg"));
}

cfx__pickle_callee cfx__pickle_name(const char *module, const char *name, int *dtype) {
    *dtype = -1;
    for (int i = 0; i < COUNT(names); i++)
        if (!strcmp(names[i].module, module) && !strcmp(names[i].name, name)) {
            *dtype = names[i].dtype;
            return names[i].callee;
        }
    return is_unread(module, name) ? UNREAD : NO_CALLEE;
}

int cfx__pickle_ints(cfx_value v, int64_t *out) {
    if (v.tag != CFX_TAG_TUPLE || cfx_as_list(v)->len > CFX_MAX_DIMS)
        return -1;
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++) {
        if (cfx_as_list(v)->items[i].tag != CFX_TAG_INT ||
            cfx_integer(cfx_as_list(v)->items[i]) < 0)
            return -1;
        out[i] = cfx_integer(cfx_as_list(v)->items[i]);
    }
    return (int)cfx_as_list(v)->len;
}

/* By way of the file that NumPy would write of it. */
cfx_tensor *cfx__pickle_array(const char *what, cfx_value sizes, cfx_value descr, bool fortran,
                              cfx_value data) {
    int64_t shape[CFX_MAX_DIMS];
    if (cfx__pickle_ints(sizes, shape) < 0 || !cfx_text(descr) ||
        (!cfx_is_none(data) && !cfx_text(data))) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "%s cannot be read: an array of NumPy's in its pickle has a wrong state", what);
        return &cfx__tensor_bad;
    }
    cfx__text file = {0};
    const char *head = cfx__text_format("{'descr': '<%s', 'fortran_order': %s, 'shape': %s}\n",
                                        cfx_text(descr), fortran ? "True" : "False",
                                        cfx_value_repr(sizes));
    const size_t len = strlen(head);
    cfx__text_add(&file, "\x93NUMPY\1\0", 8);
    cfx__text_putc(&file, (char)(len & 255));
    cfx__text_putc(&file, (char)(len >> 8 & 255));
    cfx__text_add(&file, head, len);
    if (data.tag == CFX_TAG_STR)
        cfx__text_add(&file, cfx_as_string(data)->text, cfx_as_string(data)->len);
    cfx_tensor *t = cfx__npy_load(cfx__text_format("an array in %s", what), file.data, file.len);
    cfx__text_release(&file);
    return t;
}

cfx_value cfx__pickle_decoded(cfx_value text) {
    const char *p = cfx_as_string(text)->text;
    const size_t n = cfx_as_string(text)->len;
    cfx__text out = {0};
    for (size_t i = 0; i < n; i++)
        if ((p[i] & 0xfc) == 0xc0 && i + 1 < n) {
            cfx__text_putc(&out, (char)((p[i] & 3) << 6 | (p[i + 1] & 63)));
            i++;
        } else {
            cfx__text_putc(&out, p[i]);
        }
    cfx_value v = cfx_string_value_n(out.data ? out.data : "", out.len);
    cfx__text_release(&out);
    return v;
}
