/* Operators and how a call finds its meaning.
 *
 *   cfx_relu(x) - bad? - function modes - tracing? -> node - autograd - dispatch modes - fake? ->
 *   shape - kernel
 *
 * One struct is one operator. Hand a struct of your own to cfx_op_register and it is called,
 * traced, shown and checked like any other. */
#ifndef CFX_OP_H
#define CFX_OP_H

#include <cfx/object.h>
#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CFX_MAX_ARGS = 32, CFX_MAX_OUTS = 8 };

/* A call on its way through an operator. Columns read `args` and set `out` (tensors) or `result`
 * (anything else: a number, a list of tensors). */
typedef struct cfx_op_call {
    cfx_op *op;
    cfx_site at;
    int nargs;
    cfx_value *args; /* one for each argument of the schema, defaults filled in */
    int nout;        /* tensors the schema returns */
    cfx_tensor *out[CFX_MAX_OUTS];
    cfx_value result; /* used where nout is 0 */
    bool fake;        /* the result is to be fake */
    struct cfx__loop_note *note; /* where a kernel says what it would do; NULL: it does it */
} cfx_op_call;

typedef void cfx_op_fn(cfx_op_call *c);

/* Whether there is a kernel for a layer, and that kernel with its weights packed; see
 * src/ops/ready.h. The second is asked only where the first says yes; NULL, with an error, without
 * memory. */
struct cfx__layer;
struct cfx__ready;
typedef bool cfx_takes_fn(const struct cfx__layer *l);
typedef struct cfx__ready *cfx_make_fn(const struct cfx__layer *l);
typedef int64_t cfx_flops_fn(const cfx_op_call *c);

/* A call in the backward pass. grad reads what it needs and sets gin, by calling operators; where
 * gradients of gradients are asked for, those calls are recorded in turn. */
typedef struct cfx_back {
    cfx_op *op;
    cfx_site at;
    int nargs;
    const cfx_value *args; /* those of the call; a tensor that is not saved is fake: all but data */
    int nout;
    cfx_tensor *const *out;  /* its results; fake where not saved */
    cfx_tensor *const *gout; /* the gradient of each result; NULL: none came, it counts as zero */
    const bool *needs;       /* whether the gradient of argument i is wanted */
    cfx_value *gin;          /* set: one for each argument, a tensor, a list of them, or None */
} cfx_back;

typedef void cfx_grad_fn(cfx_back *b);

#define CFX_SAVE_ARG(i) (1u << (i))
#define CFX_SAVE_OUT(i) (1u << (24 + (i)))

/* What an operator does beside computing its result, and what its columns can stand. */
typedef enum cfx_effect {
    CFX_POINTWISE = 1, /* element i of the result depends on elements i alone: may run in place */
    CFX_COMPOSITE = 2, /* PyTorch decomposes it before dispatch modes and autograd see it */
    CFX_RANDOM = 4,    /* draws from the generator */
    CFX_SIDE = 8,      /* asserts and the like: never dead, never merged */
    CFX_CONTIGUOUS_ARGS = 16, /* the kernel wants contiguous tensors */
    CFX_NUMBERS = 32,    /* in calls by function name a number may stand for a Tensor argument */
    CFX_DATA_SHAPE = 64, /* the shape of the result depends on data: the kernel makes the outputs */
    CFX_UPDATE = 128, /* the result is the first argument with some elements changed: a kernel that
                         finds it in c->out[0] already changes those alone */
    CFX_COMMUTES = 256, /* the first two arguments may change places */
    CFX_LOOPS = 512,  /* the kernel fills in a note where it is given one; see src/ops/loop.h */
    CFX_SHARES = 1024, /* a result may lie in an argument's memory, unmarked by the schema */
    CFX_STORAGE = 2048, /* looks at the storage behind an argument, not at its elements alone:
                          strides and offsets from its start */
    CFX_FOREIGN = 4096, /* another framework's: a program has an ATen form once its decomposition
                          stands in its place; reads the numbers of small tensors to say shapes */
    CFX_MOVES = 8192, /* every element of the result is one of the first argument's, as it is:
                         picked, repeated or put in another place */
    CFX_ALIKE = 16384, /* a result with the sizes, strides and dtype of the first argument is that
                          argument */
    CFX_IN_ORDER = 32768, /* with CFX_MOVES: element i stays element i, only sizes may change */
    CFX_LARGEST = 65536, /* every element of the result is the largest of some of the first
                            argument's: rounding before or after gives the same */
    CFX_LAYOUT = 131072, /* the strides of an argument decide what it gives or whether it works */
    CFX_ANY_DEVICE = 262144, /* arguments may lie on other devices than the first one does */
    CFX_OUT_CASTS = 524288 /* its out= form converts the result; pointwise ones do so anyway */
} cfx_effect;

/* What becomes of the floats that a call inside an autocast region is given; doubles stay. */
typedef enum cfx_autocast {
    CFX_CAST_NONE,
    CFX_CAST_LOW,        /* to the dtype of the region */
    CFX_CAST_F32,        /* to float32 */
    CFX_CAST_F32_ON_GPU, /* to float32 in a region for GPUs */
    CFX_CAST_WIDEST      /* to float32 where one of them is, else to the dtype of the region */
} cfx_autocast;

/* What becomes of a call on quantized tensors. Functions of Python's give them to their parts.
 * Others, but for the second kind, compute on the floats that they stand for, and their floats are
 * quantized again. */
typedef enum cfx_on_quantized {
    CFX_QUANTIZED_LIKE,  /* by the scale of the first of them */
    CFX_QUANTIZED_OWN,   /* the operator knows them: its columns see them as they are */
    CFX_QUANTIZED_MEAN,  /* results lie between the numbers: computed in steps, and rounded once */
    CFX_QUANTIZED_UNIT,  /* results are in [0, 1): a scale of 1/256 */
    CFX_QUANTIZED_SIGNED /* results are in [-1, 1): a scale of 1/128 */
} cfx_on_quantized;

/* Dtypes that a kernel computes in; others are lifted before it runs (halves to float32, small
 * integers and bool to int64) and its results are stored back. 0 means all: nothing is lifted.
 *
 * Dtypes for storage (float8, uint16 to uint64, complex32) are refused where the bit is not there,
 * and lifted too where it is (float8 to float32). CFX_IN_AS_IS: nothing is lifted, the kernel moves
 * elements. CFX_IN_SELF: the columns refuse by themselves what they cannot do. */
#define CFX_IN(dtype) (1u << CFX_##dtype)
#define CFX_IN_UINT (CFX_IN(U16) | CFX_IN(U32) | CFX_IN(U64))
#define CFX_IN_FLOAT8 (CFX_IN(F8E4M3FN) | CFX_IN(F8E5M2) | CFX_IN(F8E4M3FNUZ) | CFX_IN(F8E5M2FNUZ))
#define CFX_IN_STORED (CFX_IN_UINT | CFX_IN_FLOAT8 | CFX_IN(F8E8M0FNU) | CFX_IN(C32))
#define CFX_IN_AS_IS (1u << 31)
#define CFX_IN_SELF (1u << 30)
#define CFX_IN_ANY (CFX_IN_AS_IS | CFX_IN_STORED)
#define CFX_IN_FLOAT (CFX_IN(F32) | CFX_IN(F64))
#define CFX_IN_NUMBER (CFX_IN_FLOAT | CFX_IN(I64))

/* What an operator that computes a layer with a weight takes, by the numbers of its arguments. */
typedef struct cfx_op_layer {
    int8_t weight;      /* 0: it is no such operator */
    int8_t input, bias; /* bias -1: it has none */
    int8_t axis;        /* the dimension of the weight that counts the results */
    bool product;       /* of matrices; else a convolution */
} cfx_op_layer;

/* One operator. A column left out is derived: shape from decompose, kernel from decompose. In-place
 * and out= forms work as the functional operator does; it has those that its columns name.
 * Operators are for all threads at once. */
struct cfx_op {
    const char *schema;   /* "aten::relu(Tensor self) -> Tensor": the operator's true name */
    const char *torch_;   /* how Python spells it, blank-separated: "torch.relu Tensor.relu" */
    cfx_op_fn *shape;     /* makes c->out: shape, dtype, strides, without looking at data */
    cfx_op_fn *view;      /* makes outputs that alias an argument (stands for shape and kernel) */
    cfx_op_fn *kernel;    /* fills c->out, or sets c->result */
    cfx_takes_fn *takes;  /* whether a kernel computes a layer like this one in one go */
    cfx_make_fn *make;    /* that kernel, made ready */
    cfx_op_fn *decompose; /* sets c->out by calling other operators */
    cfx_op_fn *core;      /* the same where PyTorch's table for Core ATen says otherwise */
    bool core_early;      /* core runs before writes become values, as those of composite ones do */
    cfx_grad_fn *grad;    /* the gradient, written in operators; NULL: from decompose, or none */
    uint32_t saves;       /* CFX_SAVE_ARG(i) | CFX_SAVE_OUT(i): whose numbers grad reads */
    uint32_t aside;       /* CFX_SAVE_OUT(i): results that no gradient flows from, statistics and
                             work space */
    cfx_flops_fn *flops;  /* floating-point operations of a call, from shapes; NULL: its parts' */
    const void *row;      /* what a family's shared columns read */
    const char *updates;  /* the bool argument under which running_mean and running_var are written,
                             though the schema does not mark them; NULL: all writes are marked */
    const char *inplace;  /* the overload of its in-place form: "default", "Scalar"; NULL: it has
                             none */
    const char *out;      /* the same of its out= form, and the names of what that writes where they
                             are not those of the results: "dim_max max max_values". Either may be
                             the form's whole schema */
    cfx_autocast autocast; /* which precision autocast gives it */
    cfx_on_quantized quantized; /* what it does with quantized tensors */
    cfx_op_layer layer;   /* where its weight is, if it is a layer's */
    uint32_t dtypes;      /* CFX_IN(...) that the kernel computes in */
    uint32_t effects;     /* cfx_effect */
    void *info_;          /* parsed schema and such, made at first use */
};

/* A function: all overloads of one name, in the order they are tried. */
typedef struct cfx_fn {
    const char *name; /* "add" */
    int n;
    cfx_op *const *ops;
} cfx_fn;

/* What a call names. For function modes and traced graphs a spelling ("torch.relu"), for dispatch
 * modes an overload ("aten.relu.default"). */
typedef struct cfx_target {
    const cfx_fn *fn;  /* NULL when the overload was named */
    cfx_op *op;        /* the overload; with fn, its first */
    const char *name;  /* the text */
    cfx_object *object; /* a function of the caller's that is no operator, or NULL */
} cfx_target;

/* ---- find ------------------------------------------------------------------------------------ */

/* The overload called "aten::add.Tensor" or, as it is printed, "aten.add.Tensor"; also in-place and
 * out= forms, which are derived. The overload left out is the default one; a name without namespace
 * ("add.Tensor", "relu") is looked for in aten, then in python. NULL, without an error, when there
 * is none. */
CFX_API cfx_op *cfx_op_find(const char *name);
/* The function called "aten::add", "aten.add", "add" (of aten, then of python) or by any Python
 * spelling: "torch.add", "operator.add", "Tensor.add". NULL, without an error, where there is
 * none. */
CFX_API const cfx_fn *cfx_fn_find(const char *name);
/* "aten.add.Tensor"; static. */
CFX_API const char *cfx_op_name(cfx_op *op);
/* The number of operators written down (derived forms are not counted), and number i in order. */
CFX_API int cfx_op_count(void);
CFX_API cfx_op *cfx_op_at(int i);
/* Adds an operator of the caller's; the struct must stay. False, with an error, when the schema is
 * malformed or the name is taken. */
CFX_API bool cfx_op_register(cfx_op *op);
/* Takes such an operator out again: nobody finds it any more, and another may have its name. What
 * has it already, as nodes of graphs, goes on with it: the struct must stay as long as they. False,
 * with an error, when it is not registered. */
CFX_API bool cfx_op_unregister(cfx_op *op);

/* Targets, for handlers that call something else: an overload, or what a text names, a spelling
 * ("torch.sigmoid") or an overload ("aten.sigmoid.default"). A target is replaced whole: its fields
 * belong together. An unknown text is an error that tells the nearest spellings; calls of what
 * comes back then fail. */
CFX_API cfx_target cfx_target_op(cfx_op *op);
CFX_API cfx_target cfx_target_named(const char *text);
/* The same where it may be unknown: nothing is recorded, and target.name is NULL then. In-place
 * forms ("torch.relu_", "Tensor.add_") are found too. The name is the function's own, the one that
 * graphs show ("torch.functional.split" for "torch.split"); static or scope. */
CFX_API cfx_target cfx_target_find(const char *text);
/* Path number i by which Python calls a function ("Tensor.abs"), in order; static, NULL past the
 * last. In-place forms are not among them. */
CFX_API const char *cfx_spelling_at(int i);
/* The target that is an object of the caller's which can be called (cfx_function_value, or any), in
 * graphs called `name`, one with dots. Both are borrowed: a node that gets it keeps them. An error,
 * as above, where it cannot be called. */
CFX_API cfx_target cfx_target_object(const char *name, cfx_value object);

/* ---- call ---------------------------------------------------------------------------------- */

/* Calls a function by its arguments, as Python would: overloads are resolved. Scope. The macros of
 * cfx/ops.h are this with the function's name and your file and line filled in. */
CFX_API cfx_value cfx_fn_call_from(cfx_site at, const cfx_fn *fn, cfx_args args);
/* The same for functions that return one tensor. */
CFX_API cfx_tensor *cfx_fn_call_tensor_from(cfx_site at, const cfx_fn *fn, cfx_args args);
/* The same by a Python spelling: cfx_py("operator.add", x, 1). An unknown one is an error. */
CFX_API cfx_value cfx_py_from(cfx_site at, const char *name, cfx_args args);
/* Calls the in-place form of a function, derived from it: the result is written to its first
 * argument, which is returned. */
CFX_API cfx_tensor *cfx_fn_call_inplace_from(cfx_site at, const cfx_fn *fn, cfx_args args);
/* Calls one overload, as torch.ops.aten.add.Tensor(...) does. Scope. */
CFX_API cfx_value cfx_op_do_from(cfx_site at, cfx_op *op, cfx_args args);
/* The floating-point operations that such a call takes, counted as PyTorch's flop_counter does: two
 * for each multiplication of products, convolutions and attention, none for anything else; an
 * operator without a formula counts what it is decomposed to. Nothing is computed: tensors may be
 * fake. INT64_MAX where the number is larger; -1, with an error, where the call would fail. */
CFX_API int64_t cfx_op_flops(cfx_site at, cfx_op *op, cfx_args args);
/* Calls what a target names: overloads are resolved where it is a function. Scope. */
CFX_API cfx_value cfx_target_call_from(cfx_site at, cfx_target t, cfx_args args);
#define cfx_target_call(t, ...) cfx_target_call_from(CFX_HERE, t, CFX_ARGS(__VA_ARGS__))
#define cfx_py(name, ...) cfx_py_from(CFX_HERE, name, CFX_ARGS(__VA_ARGS__))
#define cfx_op_do(op, ...) cfx_op_do_from(CFX_HERE, op, CFX_ARGS(__VA_ARGS__))

/* ---- modes ----------------------------------------------------------------------------------- */

/* A handler that sees every call while it is pushed; innermost first, switched off inside itself.
 * It may look, replace the call, or forward it. Write it as a struct literal. */
typedef struct cfx_mode {
    cfx_value (*handle)(struct cfx_mode *self, cfx_target target, cfx_args args);
    void *user;
    struct cfx_mode *below_;
    bool dispatch_;
} cfx_mode;

/* Function modes see what the user called ("torch.nn.functional.linear"). The caller owns m. */
CFX_API void cfx_function_mode_push(cfx_mode *m);
/* Takes the innermost function mode off. */
CFX_API void cfx_function_mode_pop(void);
/* Dispatch modes see ATen overloads ("aten.linear.default"). The caller owns m. */
CFX_API void cfx_dispatch_mode_push(cfx_mode *m);
/* Takes the innermost dispatch mode off. */
CFX_API void cfx_dispatch_mode_pop(void);
/* Goes on with the call: "super" of a handler of either kind. */
CFX_API cfx_value cfx_mode_forward(cfx_mode *self, cfx_target target, cfx_args args);

/* A mode that prints "Function Log: NAME" or "Dispatch Log: NAME" for each call to a FILE. */
CFX_API cfx_mode cfx_function_log(FILE *out);
CFX_API cfx_mode cfx_dispatch_log(FILE *out);

/* Grad mode as in PyTorch: recording for gradients is on (the default), off, or off with no
 * bookkeeping at all. Each returns the mode before, to be set back. */
typedef enum cfx_grad_mode { CFX_GRAD_ON, CFX_NO_GRAD, CFX_INFERENCE } cfx_grad_mode;
CFX_API cfx_grad_mode cfx_set_grad_mode(cfx_grad_mode mode);
CFX_API cfx_grad_mode cfx_get_grad_mode(void);

/* Autocast, as `with torch.autocast(...)`: between begin and end some operators compute in a lower
 * precision (products, convolutions), some in float32 (losses, norms), whatever floats they are
 * given. Regions nest; the innermost counts.
 *     cfx_autocast_begin(.dtype = CFX_BF16);
 *     y = cfx_call(self, "fc", x);                     bfloat16
 *     cfx_autocast_end();
 * A region of a dtype other than bfloat16 and float16 is off, as in PyTorch, which warns. An
 * unknown device, and an end without a begin are errors.
 *
 * In a forward that is traced, changes of the grad mode and of autocast become nodes,
 * torch._C._set_grad_enabled, _enter_autocast and _exit_autocast; in one that is exported the calls
 * between them become a graph of their own, which wrap_with_set_grad_enabled or wrap_with_autocast
 * runs. Inference mode is recorded as CFX_NO_GRAD. */
typedef struct cfx_autocast_options {
    const char *device; /* "cpu" or "cuda", whose lists of operators count; NULL: "cpu" */
    cfx_dtype dtype;    /* the lower precision; 0: that of the region around it, else bfloat16, for
                           "cuda" float16 */
    bool off;           /* a region in which nothing is converted: enabled=False */
} cfx_autocast_options;
CFX_API void cfx_autocast_begin_from(cfx_site at, cfx_autocast_options o);
#define cfx_autocast_begin(...)                                                                    \
    cfx_autocast_begin_from(CFX_HERE, CFX_OPTIONS(cfx_autocast_options, __VA_ARGS__))
CFX_API void cfx_autocast_end_from(cfx_site at);
#define cfx_autocast_end() cfx_autocast_end_from(CFX_HERE)

/* Fake mode: while on, everything made is fake, constructors included. Returns the state before. */
CFX_API bool cfx_set_fake_mode(bool on);

#ifdef __cplusplus
}
#endif
#endif
