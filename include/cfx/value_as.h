/* Typed reads of values: the only way to what a value holds. Each gives it, borrowed; where the tag
 * says otherwise it records a TypeError at the caller's line and gives something that is safe to
 * look at: 0, "", the bad tensor, node or module, an empty list. A bad value records nothing more.
 * Included by cfx/value.h, not to be included alone. */
#ifndef CFX_VALUE_AS_H
#define CFX_VALUE_AS_H

#define cfx_as_int(v) cfx_as_int_from(CFX_HERE, v)           /* an int or a bool */
#define cfx_as_float(v) cfx_as_float_from(CFX_HERE, v)       /* a float, an int or a bool */
#define cfx_as_bool(v) cfx_as_bool_from(CFX_HERE, v)
#define cfx_as_text(v) cfx_as_text_from(CFX_HERE, v)         /* the bytes of a str */
#define cfx_as_string(v) cfx_as_string_from(CFX_HERE, v)     /* a str with its length */
#define cfx_as_list(v) cfx_as_list_from(CFX_HERE, v)         /* a list or a tuple */
#define cfx_as_dict(v) cfx_as_dict_from(CFX_HERE, v)
#define cfx_as_slice(v) cfx_as_slice_from(CFX_HERE, v)
#define cfx_as_complex(v) cfx_as_complex_from(CFX_HERE, v)
#define cfx_as_keyword(v) cfx_as_keyword_from(CFX_HERE, v)
#define cfx_as_sym(v) cfx_as_sym_from(CFX_HERE, v)
#define cfx_as_tensor(v) cfx_as_tensor_from(CFX_HERE, v)
#define cfx_as_node(v) cfx_as_node_from(CFX_HERE, v)         /* or a traced tensor */
#define cfx_as_module(v) cfx_as_module_from(CFX_HERE, v)
#define cfx_as_object(v) cfx_as_object_from(CFX_HERE, v)     /* of the caller's; else NULL */
#define cfx_as_op(v) cfx_as_op_from(CFX_HERE, v)             /* else NULL */
#define cfx_as_device(v) cfx_as_device_from(CFX_HERE, v)     /* else the CPU */
#define cfx_as_dtype(v) cfx_as_dtype_from(CFX_HERE, v)       /* else float32 */
#define cfx_as_memory_format(v) cfx_as_memory_format_from(CFX_HERE, v)

/* What a read gives where the value has another tag: records the error, looks again. */
CFX_API void *cfx_as_other_from(cfx_site at, cfx_value v, cfx_tag wanted);

/* The reads that convert, behind their macros; what they give is said there. */
CFX_API int64_t cfx_as_int_from(cfx_site at, cfx_value v);
CFX_API double cfx_as_float_from(cfx_site at, cfx_value v);
CFX_API bool cfx_as_bool_from(cfx_site at, cfx_value v);
CFX_API const char *cfx_as_text_from(cfx_site at, cfx_value v);

#define CFX_READ(name, TAG, type, member)                                                          \
    static inline type cfx_as_##name##_from(cfx_site at, cfx_value v) {                            \
        return v.tag == CFX_TAG_##TAG ? v.member                                                   \
                                      : (type)cfx_as_other_from(at, v, CFX_TAG_##TAG);             \
    }
CFX_READ(string, STR, const cfx_string *, str_)
CFX_READ(dict, DICT, cfx_dict *, dict_)
CFX_READ(slice, SLICE, cfx_slice *, slice_)
CFX_READ(complex, COMPLEX, cfx_complex *, cplx_)
CFX_READ(keyword, KEYWORD, cfx_keyword *, keyword_)
CFX_READ(sym, SYM, cfx_sym *, sym_)
CFX_READ(tensor, TENSOR, cfx_tensor *, tensor_)
CFX_READ(node, NODE, cfx_node *, node_)
CFX_READ(module, MODULE, cfx_module *, module_)
CFX_READ(object, OBJECT, cfx_object *, object_)
CFX_READ(op, OP, cfx_op *, op_)
#undef CFX_READ

static inline cfx_list *cfx_as_list_from(cfx_site at, cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE
               ? v.list_
               : (cfx_list *)cfx_as_other_from(at, v, CFX_TAG_LIST);
}

static inline cfx_device cfx_as_device_from(cfx_site at, cfx_value v) {
    cfx_device cpu = {CFX_CPU, -1};
    if (v.tag == CFX_TAG_DEVICE)
        return v.device_;
    cfx_as_other_from(at, v, CFX_TAG_DEVICE);
    return cpu;
}

static inline cfx_dtype cfx_as_dtype_from(cfx_site at, cfx_value v) {
    if (v.tag == CFX_TAG_DTYPE)
        return (cfx_dtype)v.i_;
    cfx_as_other_from(at, v, CFX_TAG_DTYPE);
    return CFX_F32;
}

static inline cfx_memory_format cfx_as_memory_format_from(cfx_site at, cfx_value v) {
    if (v.tag == CFX_TAG_MEMORY_FORMAT)
        return (cfx_memory_format)v.i_;
    cfx_as_other_from(at, v, CFX_TAG_MEMORY_FORMAT);
    return CFX_CONTIGUOUS;
}

#endif
