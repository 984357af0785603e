/* Values: everything that may stand in an argument of an operator, a node or a module.
 *
 * A cfx_value is 16 bytes, passed by value. Those that point to counted objects belong to the scope
 * like any result; lists and dicts keep what is put in. */
#ifndef CFX_VALUE_H
#define CFX_VALUE_H

#include <cfx/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_tensor cfx_tensor;
typedef struct cfx_node cfx_node;
typedef struct cfx_op cfx_op;
typedef struct cfx_sym cfx_sym;
typedef struct cfx_module cfx_module;
typedef struct cfx_string cfx_string;
typedef struct cfx_object cfx_object;

/* What a value is. From CFX_TAG_STR to CFX_TAG_DICT the value points to a counted object. */
typedef enum cfx_tag {
    CFX_TAG_NONE,
    CFX_TAG_BOOL,
    CFX_TAG_INT,
    CFX_TAG_FLOAT,
    CFX_TAG_DTYPE,
    CFX_TAG_DEVICE,
    CFX_TAG_LAYOUT,
    CFX_TAG_MEMORY_FORMAT,
    CFX_TAG_ELLIPSIS,
    CFX_TAG_OP,     /* an operator as an argument; static */
    CFX_TAG_NODE,   /* a node of a graph, which owns it */
    CFX_TAG_STR,
    CFX_TAG_COMPLEX,
    CFX_TAG_SLICE,
    CFX_TAG_SYM,    /* a symbolic integer, bool or float */
    CFX_TAG_TENSOR,
    CFX_TAG_MODULE, /* what get_attr of a submodule gives: the branches of a cond */
    CFX_TAG_OBJECT, /* of the caller's: see cfx/object.h */
    CFX_TAG_LIST,
    CFX_TAG_TUPLE,
    CFX_TAG_DICT,
    CFX_TAG_KEYWORD, /* name=value inside an argument list; never stored */
    CFX_TAG_BAD      /* the value of a failed call */
} cfx_tag;

typedef enum cfx_device_type { CFX_CPU, CFX_CUDA, CFX_META } cfx_device_type;

/* Where a tensor lives; index -1 is "the current one" and prints without a number. */
typedef struct cfx_device {
    int16_t type;
    int16_t index;
} cfx_device;

typedef enum cfx_layout { CFX_STRIDED, CFX_SPARSE_COO } cfx_layout;

typedef enum cfx_memory_format {
    CFX_CONTIGUOUS,
    CFX_PRESERVE,
    CFX_CHANNELS_LAST,
    CFX_CHANNELS_LAST_3D
} cfx_memory_format;

typedef struct cfx_list cfx_list;
typedef struct cfx_dict cfx_dict;
typedef struct cfx_slice cfx_slice;
typedef struct cfx_complex cfx_complex;
typedef struct cfx_keyword cfx_keyword;

typedef struct cfx_value {
    uint32_t tag; /* cfx_tag */
    uint32_t spare;
    union { /* read by cfx_as_tensor(v), cfx_integer(v), ...: what the tag says, or an error */
        bool b_;
        int64_t i_;
        double f_;
        cfx_device device_;
        const cfx_string *str_;
        cfx_complex *cplx_;
        cfx_slice *slice_;
        cfx_tensor *tensor_;
        cfx_list *list_; /* LIST and TUPLE */
        cfx_dict *dict_;
        cfx_sym *sym_;
        cfx_node *node_;
        cfx_module *module_;
        cfx_object *object_;
        cfx_op *op_;
        cfx_keyword *keyword_;
        void *obj_;
    };
} cfx_value;

/* A list or a tuple: the value's tag tells which. Read freely, change through functions. */
struct cfx_list {
    cfx_obj head;
    int64_t len;
    cfx_value *items;
    int64_t cap_;
};

/* A dict keeps its entries in the order of insertion. */
struct cfx_dict {
    cfx_obj head;
    int64_t len;
    struct cfx_entry {
        cfx_value key, value;
    } *entries;
    int64_t cap_;
    uint64_t *index_; /* hash table over entries */
    int64_t index_cap_;
    uint64_t changes_; /* counts what was put and removed */
};

struct cfx_slice {
    cfx_obj head;
    cfx_value start, stop, step;
};

struct cfx_complex {
    cfx_obj head;
    double re, im;
};

struct cfx_keyword {
    cfx_obj head;
    const cfx_string *name;
    cfx_value value;
};

/* The arguments of a call, borrowed from the caller. kw is NULL where there are none. */
typedef struct cfx_args {
    int n;
    const cfx_value *v;
    cfx_dict *kw;
} cfx_args;
/* What cfx_dict_of calls. */
CFX_API cfx_value cfx_dict_of_from(cfx_site at, cfx_args pairs);

/* ---- make ------------------------------------------------------------------------------------ */

#ifdef __cplusplus
#define CFX_NONE (cfx_none())
#else
#define CFX_NONE ((cfx_value){0})
#endif

static inline cfx_value cfx_none(void) {
    cfx_value v;
    v.tag = CFX_TAG_NONE, v.spare = 0, v.i_ = 0;
    return v;
}

static inline cfx_value cfx_bool(bool b) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_BOOL, v.b_ = b;
    return v;
}

static inline cfx_value cfx_int(int64_t i) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_INT, v.i_ = i;
    return v;
}

static inline cfx_value cfx_float(double f) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_FLOAT, v.f_ = f;
    return v;
}

static inline cfx_value cfx_dtype_value(cfx_dtype d) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_DTYPE, v.i_ = d;
    return v;
}

static inline cfx_value cfx_device_value(cfx_device d) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_DEVICE, v.device_ = d;
    return v;
}

static inline cfx_value cfx_layout_value(cfx_layout l) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_LAYOUT, v.i_ = l;
    return v;
}

static inline cfx_value cfx_memory_format_value(cfx_memory_format m) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_MEMORY_FORMAT, v.i_ = m;
    return v;
}

static inline cfx_value cfx_ellipsis(void) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_ELLIPSIS;
    return v;
}

static inline cfx_value cfx_op_value(cfx_op *op) {
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_OP, v.op_ = op;
    return v;
}

static inline cfx_value cfx_node_value(cfx_node *n) {
    cfx_value v = cfx_none();
    v.tag = n ? CFX_TAG_NODE : CFX_TAG_NONE, v.node_ = n;
    return v;
}

/* The tensor as a value (borrows); NULL gives None, a bad tensor a bad value. */
CFX_API cfx_value cfx_tensor_value(const cfx_tensor *t);
/* The module as a value (borrows); NULL gives None, a bad module a bad value. */
CFX_API cfx_value cfx_module_value(cfx_module *m);
/* A string; scope. NULL gives None. */
CFX_API cfx_value cfx_string_value(const char *text);
/* A string that may hold zero bytes; scope. */
CFX_API cfx_value cfx_string_value_n(const char *text, size_t len);
/* A size that is a symbol, or an expression of such, as PyTorch prints it: "s77", "2*s0 + 1";
 * scope. An int where the text is a number; bad, with an error, where it is neither. */
CFX_API cfx_value cfx_symbol_value(const char *text);
/* A complex number; scope. */
CFX_API cfx_value cfx_complex_value(double re, double im);
/* start:stop:step; scope, keeps its parts. */
CFX_API cfx_value cfx_slice_value(cfx_value start, cfx_value stop, cfx_value step);
/* name=value for an argument list; scope, keeps the value. */
CFX_API cfx_value cfx_keyword_value(const char *name, cfx_value value);
/* A list of n values; scope, keeps them. */
CFX_API cfx_value cfx_list_value(int64_t n, const cfx_value *items);
/* A tuple of n values; scope, keeps them. */
CFX_API cfx_value cfx_tuple_value(int64_t n, const cfx_value *items);
/* A list of n integers; scope. */
CFX_API cfx_value cfx_ints_value(int64_t n, const int64_t *ints);
/* The value of a failed call. */
CFX_API cfx_value cfx_bad(void);

/* An empty dict; scope. */
CFX_API cfx_dict *cfx_dict_new(void);
/* The dict as a value (borrows). */
CFX_API cfx_value cfx_dict_value(cfx_dict *d);
/* Sets d[key]; keeps the value. A NULL dict records an error. */
CFX_API void cfx_dict_set(cfx_dict *d, const char *key, cfx_value value);
/* The same with any value that can be hashed as key: a str, a number, a tuple, a node. */
CFX_API void cfx_dict_put(cfx_dict *d, cfx_value key, cfx_value value);
/* d[key], borrowed, or None. */
CFX_API cfx_value cfx_dict_get(const cfx_dict *d, const char *key);
/* The entry, borrowed, or NULL when absent. */
CFX_API const cfx_value *cfx_dict_find(const cfx_dict *d, cfx_value key);
/* Removes d[key]; returns whether it was there. */
CFX_API bool cfx_dict_remove(cfx_dict *d, cfx_value key);

/* Appends to a list; keeps the value. Lists that a graph holds are not to be changed. */
CFX_API void cfx_list_append(cfx_list *list, cfx_value value);

/* ---- look ------------------------------------------------------------------------------------ */

static inline bool cfx_is_none(cfx_value v) { return v.tag == CFX_TAG_NONE; }
static inline bool cfx_is_bad(cfx_value v) { return v.tag == CFX_TAG_BAD; }

/* v[i] of a list or tuple, borrowed; negative i counts from the end; out of range is an error. Of a
 * tensor a row, and of what is traced, or a node, a node that takes it; scope. */
CFX_API cfx_value cfx_at(cfx_value v, int64_t i);
/* v[i] as a tensor, borrowed; NULL for None, the bad tensor, with an error, where it is another. */
CFX_API cfx_tensor *cfx_tensor_at(cfx_value v, int64_t i);
/* The text of a string value, borrowed; NULL for anything else. And its length in bytes: a text may
 * hold zero bytes; 0 for anything else. */
CFX_API const char *cfx_text(cfx_value v);
CFX_API size_t cfx_text_length(cfx_value v);
/* The number as a double or an integer; bools count, complex numbers lose their imaginary part.
 * While a module is exported, a number that is data (what cfx_item gives, or is made of it) cannot
 * be had as one that C could decide by: PyTorch's "Could not extract specialized integer from
 * data-dependent expression u0". */
CFX_API double cfx_number_from(cfx_site at, cfx_value v);
CFX_API int64_t cfx_integer_from(cfx_site at, cfx_value v);
CFX_API double cfx_number(cfx_value v);
CFX_API int64_t cfx_integer(cfx_value v);
#define cfx_number(v) cfx_number_from(CFX_HERE, v)
#define cfx_integer(v) cfx_integer_from(CFX_HERE, v)
/* Whether v is a bool, int, float or complex. */
CFX_API bool cfx_is_number(cfx_value v);
/* Structural equality, as Python's == on literals; tensors and nodes by identity, objects
 * as their type says. */
CFX_API bool cfx_equal_values(cfx_value a, cfx_value b);
/* What Python's repr() prints; scope. Tensors print as tensor(...), nodes by name. */
CFX_API const char *cfx_value_repr(cfx_value v);
/* What Python's str() prints; scope. */
CFX_API const char *cfx_value_str(cfx_value v);
/* "Tensor", "int", "List[int]": what PyTorch's messages call the type of v; scope. */
CFX_API const char *cfx_value_type_name(cfx_value v);
/* Count and uncount what v points to. cfx_value_keep returns v. */
CFX_API cfx_value cfx_value_keep(cfx_value v);
CFX_API void cfx_value_drop(cfx_value v);
/* Closes the scope at `mark`; v survives and belongs to the scope outside. Returns v. */
CFX_API cfx_value cfx_scope_return_value(size_t mark, cfx_value v);

/* ---- pytrees --------------------------------------------------------------------------------- */

/* Flattens nested tuples, lists and dicts. Appends the leaves to `leaves` and returns the shape of
 * the tree as a value in which each leaf is replaced by an ellipsis; scope. */
CFX_API cfx_value cfx_tree_flatten(cfx_value tree, cfx_list *leaves);
/* Puts leaves back into the shape that cfx_tree_flatten gave; scope. A wrong number is an error. */
CFX_API cfx_value cfx_tree_unflatten(cfx_value spec, const cfx_list *leaves);
/* The spec as torch.utils._pytree prints it: "TreeSpec(tuple, None, [*,\n  *])"; scope. */
CFX_API const char *cfx_tree_spec_text(cfx_value spec);

/* ---- values from C expressions --------------------------------------------------------------- */

/* CFX_V(x) turns what C has (an int, a double, a string, a tensor, NULL) into a value. */
static inline cfx_value cfx_v_self(cfx_value v) { return v; }
static inline cfx_value cfx_v_null(const void *p) { return p ? cfx_bad() : cfx_none(); }

#define cfx_channels_last cfx_memory_format_value(CFX_CHANNELS_LAST)
#define cfx_contiguous_format cfx_memory_format_value(CFX_CONTIGUOUS)
#define cfx_preserve_format cfx_memory_format_value(CFX_PRESERVE)

/* How many arguments there are, up to 24; and two names made one. */
#define CFX_COUNT_(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
                   _18, _19, _20, _21, _22, _23, _24, n, ...)                                      \
    n
#define CFX_COUNT(...)                                                                             \
    CFX_COUNT_(0 __VA_OPT__(, ) __VA_ARGS__, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12,   \
               11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define CFX_PASTE_(a, b) a##b
#define CFX_PASTE(a, b) CFX_PASTE_(a, b)

#include <cfx/value_as.h>

#ifdef __cplusplus
}
#include <cfx/value_cpp.h>
#else

/* A struct of options from the fields that differ from zero: CFX_OPTIONS(cfx_draw_options, .depth =
 * 2). In C++17 too, where fields may come in any order but none may be an array in braces. */
#define CFX_OPTIONS(type, ...) ((type){__VA_ARGS__})

#define CFX_V(x)                                                                                   \
    _Generic((x),                                                                                  \
        bool: cfx_bool,                                                                            \
        char: cfx_int,                                                                             \
        signed char: cfx_int,                                                                      \
        unsigned char: cfx_int,                                                                    \
        short: cfx_int,                                                                            \
        unsigned short: cfx_int,                                                                   \
        int: cfx_int,                                                                              \
        unsigned: cfx_int,                                                                         \
        long: cfx_int,                                                                             \
        unsigned long: cfx_int,                                                                    \
        long long: cfx_int,                                                                        \
        unsigned long long: cfx_int,                                                               \
        float: cfx_float,                                                                          \
        double: cfx_float,                                                                         \
        char *: cfx_string_value,                                                                  \
        const char *: cfx_string_value,                                                            \
        cfx_tensor *: cfx_tensor_value,                                                            \
        const cfx_tensor *: cfx_tensor_value,                                                      \
        cfx_dict *: cfx_dict_value,                                                                \
        cfx_node *: cfx_node_value,                                                                \
        cfx_module *: cfx_module_value,                                                            \
        void *: cfx_v_null,                                                                        \
        cfx_value: cfx_v_self)(x)

/* The pieces that apply CFX_V to each of up to 24 arguments. */
#define CFX_V0() cfx_none()
#define CFX_V1(a) CFX_V(a)
#define CFX_V2(a, ...) CFX_V(a), CFX_V1(__VA_ARGS__)
#define CFX_V3(a, ...) CFX_V(a), CFX_V2(__VA_ARGS__)
#define CFX_V4(a, ...) CFX_V(a), CFX_V3(__VA_ARGS__)
#define CFX_V5(a, ...) CFX_V(a), CFX_V4(__VA_ARGS__)
#define CFX_V6(a, ...) CFX_V(a), CFX_V5(__VA_ARGS__)
#define CFX_V7(a, ...) CFX_V(a), CFX_V6(__VA_ARGS__)
#define CFX_V8(a, ...) CFX_V(a), CFX_V7(__VA_ARGS__)
#define CFX_V9(a, ...) CFX_V(a), CFX_V8(__VA_ARGS__)
#define CFX_V10(a, ...) CFX_V(a), CFX_V9(__VA_ARGS__)
#define CFX_V11(a, ...) CFX_V(a), CFX_V10(__VA_ARGS__)
#define CFX_V12(a, ...) CFX_V(a), CFX_V11(__VA_ARGS__)
#define CFX_V13(a, ...) CFX_V(a), CFX_V12(__VA_ARGS__)
#define CFX_V14(a, ...) CFX_V(a), CFX_V13(__VA_ARGS__)
#define CFX_V15(a, ...) CFX_V(a), CFX_V14(__VA_ARGS__)
#define CFX_V16(a, ...) CFX_V(a), CFX_V15(__VA_ARGS__)
#define CFX_V17(a, ...) CFX_V(a), CFX_V16(__VA_ARGS__)
#define CFX_V18(a, ...) CFX_V(a), CFX_V17(__VA_ARGS__)
#define CFX_V19(a, ...) CFX_V(a), CFX_V18(__VA_ARGS__)
#define CFX_V20(a, ...) CFX_V(a), CFX_V19(__VA_ARGS__)
#define CFX_V21(a, ...) CFX_V(a), CFX_V20(__VA_ARGS__)
#define CFX_V22(a, ...) CFX_V(a), CFX_V21(__VA_ARGS__)
#define CFX_V23(a, ...) CFX_V(a), CFX_V22(__VA_ARGS__)
#define CFX_V24(a, ...) CFX_V(a), CFX_V23(__VA_ARGS__)

/* The arguments of a call from C expressions, or none: cfx_args. */
#define CFX_ARGS(...)                                                                              \
    ((cfx_args){CFX_COUNT(__VA_ARGS__),                                                            \
                (cfx_value[]){CFX_PASTE(CFX_V, CFX_COUNT(__VA_ARGS__))(__VA_ARGS__)}, NULL})
#endif

/* cfx_tuple(a, b) and cfx_list(1, 2): values from C expressions; cfx_list() is empty.
 * cfx_dict_of("x", 1, "y", 2) is a dict of keys and values in turn; bad, with an error, where the
 * last key has none.
 * CFX_KW(alpha, 2) is the keyword argument alpha=2 of an operator call. */
#define cfx_tuple(...) cfx_tuple_of(CFX_ARGS(__VA_ARGS__))
#define cfx_list(...) cfx_list_of(CFX_ARGS(__VA_ARGS__))
#define cfx_dict_of(...) cfx_dict_of_from(CFX_HERE, CFX_ARGS(__VA_ARGS__))
#define CFX_KW(name, x) cfx_keyword_value(#name, CFX_V(x))
/* cfx_str(x) and cfx_repr(x): the text of a value or anything CFX_V takes; scope. */
#define cfx_str(x) cfx_value_str(CFX_V(x))
#define cfx_repr(x) cfx_value_repr(CFX_V(x))

static inline cfx_value cfx_tuple_of(cfx_args a) { return cfx_tuple_value(a.n, a.v); }
static inline cfx_value cfx_list_of(cfx_args a) { return cfx_list_value(a.n, a.v); }

#endif
