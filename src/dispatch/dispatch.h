/* dispatch: where a call finds its meaning.
 *
 * Invariant: a column of an operator runs only with arguments bound to its schema, none of them
 * bad; numbers that stand for tensors are tensors by then. What a call made on the way is dropped;
 * only its results reach the caller's scope. */
#ifndef CFX__DISPATCH_H
#define CFX__DISPATCH_H

#include <cfx/op.h>

#include "../tensor/tensor.h"

/* Defines the operator `name`: base name, and _overload where it is not the default one. The
 * generator (tools/genops) collects these lines; nothing else lists operators. */
#define CFX_OP(name) CFX_API cfx_op cfx_op_##name

/* What kind of work an operator is, for those who look at a graph. */
#define CFX__OP_FAMILIES(X)                                                                        \
    X(LINEAR, "linear, matmul")                                                                    \
    X(CONV, "convolution")                                                                         \
    X(ATTENTION, "attention")                                                                      \
    X(NORM, "normalisation")                                                                       \
    X(ACTIVATION, "activation")                                                                    \
    X(POOL, "pooling, resampling")                                                                 \
    X(RECURRENT, "recurrent")                                                                      \
    X(INDEX, "index, embedding")                                                                   \
    X(REDUCE, "reduction, sort")                                                                   \
    X(MATH, "arithmetic")                                                                          \
    X(COMPARE, "comparison, logic")                                                                \
    X(VIEW, "view, shape")                                                                         \
    X(CREATE, "creation")                                                                          \
    X(RANDOM, "random, dropout")                                                                   \
    X(CHECK, "check")                                                                              \
    X(OTHER, "other")

typedef enum cfx__op_family {
    CFX__OP_UNSAID,
#define CFX__OP_FAMILY(name, text) CFX__OP_##name,
    CFX__OP_FAMILIES(CFX__OP_FAMILY)
#undef CFX__OP_FAMILY
} cfx__op_family;

/* The family of the operators written below in the same file, up to the next such line: read by the
 * generator. Without one it follows from the columns. */
#define CFX_FAMILY(name) _Static_assert(CFX__OP_##name, "a family of operators")

typedef enum cfx__op_form { CFX__FUNCTIONAL, CFX__INPLACE, CFX__OUT } cfx__op_form;

/* What is known of an operator once it is used: hangs on cfx_op.info_. */
typedef struct cfx__op_info {
    cfx__schema *schema;
    const char *name;    /* "aten.add.Tensor" */
    const char *spelling; /* how Python spells it first, "torch.add"; the name where it does not */
    cfx__op_form form;
    cfx__op_family family;
    cfx_op *functional;  /* what a derived form derives from */
    cfx_op *inplace, *out; /* its derived forms, once made */
    int nout;            /* returns, when all are plain tensors; else 0 */
    bool writes;         /* some argument is written to, by the schema's marks */
    int update_flag;     /* the argument that op->updates names; -1: none */
    uint32_t updated;    /* bit i: argument i is written, unmarked, where that is true */
    bool python;         /* a function of Python's own: dispatch modes see only what it calls */
} cfx__op_info;

cfx__op_info *cfx__op_info_make(cfx_op *op);

/* The info of an operator; NULL, with an error, when its schema is malformed (user operators). */
static inline cfx__op_info *cfx__op_info_of(cfx_op *op) {
    cfx__op_info *info = __atomic_load_n((cfx__op_info **)&op->info_, __ATOMIC_ACQUIRE);
    return likely(info != NULL) ? info : cfx__op_info_make(op);
}

/* Whether a result may be argument i, or lie in its memory: by the marks of the schema, by the
 * effects of the row, or because Python's functions say nothing of it. */
bool cfx__op_shares(cfx_op *op, int i);
/* Whether a call writes to argument i: as the schema marks it, or as the row says of statistics
 * that are updated in training mode. args: bound to the schema; what is not known yet counts as
 * true. */
bool cfx__op_writes(cfx_op *op, const cfx_value *args, int i);
/* Whether a call writes to any argument. */
bool cfx__op_call_writes(cfx_op *op, const cfx_value *args);
/* Whether a call does nothing but give what it makes of its arguments: it writes to none of them,
 * draws no numbers, and nothing else happens. args: bound; NULL: whether that holds for every call
 * that updates nothing (cfx_op.updates). */
bool cfx__op_is_pure(cfx_op *op, const cfx_value *args);

/* The function that an overload belongs to; NULL for operators that are in no table. */
const cfx_fn *cfx__fn_of(cfx_op *op);
/* The in-place form of a functional operator. NULL, with an error, when it has none. */
cfx_op *cfx__op_inplace(cfx_op *functional);
/* Its out= form. NULL, without an error, when it has none. */
cfx_op *cfx__op_out(cfx_op *functional);
/* What a plan runs to do an update to its first argument itself: the in-place form, and where there
 * is none (slice_scatter) one derived alike that no name finds: it is in no graph, text or file.
 * NULL, without an error, where results are no such tensor. */
cfx_op *cfx__op_updating(cfx_op *functional);

/* The function that Python has under a name, NULL where none is known, and its own name there:
 * torch.split is torch.functional.split, torch.nn.functional.gelu torch._C._nn.gelu, and F.relu
 * torch.nn.functional.relu. Own names are static, the name itself, or of the scope. */
const cfx_fn *cfx__fn_named(const char *name, const char **own);
/* The functional form's function for an in-place spelling, "torch.relu_", "Tensor.add_"; *own is
 * the in-place name. NULL for others. */
const cfx_fn *cfx__fn_named_inplace(const char *name, const char **own);
/* The arguments with those gathered in a list that functions of torch.functional take one by one:
 * einsum(equation, x, y), meshgrid(x, y); scope. */
cfx_args cfx__fn_gather(const cfx_fn *fn, cfx_args a);
/* What the end of a sentence about an unknown name says: "; the nearest: torch.relu, torch.relu6",
 * "; PyTorch has it for cuDNN alone", or nothing. Scope. */
const char *cfx__dispatch_hint(const char *name);

/* ---- the layers ------------------------------------------------------------------------------ */

/* A later room installs itself here for the calling thread; false means "not mine, go on". */
typedef bool cfx__fn_layer(cfx_site at, cfx_target t, cfx_args a, cfx_value *result);
typedef bool cfx__op_layer(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result);

typedef cfx_value cfx__mode_fn(cfx_site at, const char *function, cfx_args a);

/* A region under autocast; regions nest, the innermost counts. */
typedef struct cfx__autocast {
    cfx_dtype dtype; /* the lower precision */
    bool gpu;        /* PyTorch's lists for GPUs */
    bool enabled;
    cfx_value entered; /* the node that entered it, where somebody records; else None */
    struct cfx__autocast *outer;
} cfx__autocast;

typedef struct cfx__dispatch {
    cfx_mode *function_modes, *dispatch_modes;
    int below;              /* > 0 inside operators: function modes and tracing look away */
    cfx_site at;           /* the user's line of the outermost call */
    cfx_grad_mode grad;
    bool fake;
    bool anywhere; /* in a program: its tensors may lie on any devices */
    cfx__autocast *autocast; /* NULL: none */
    /* Hears of a call that changes the grad mode or autocast, by Python's name for it; the node
     * that it made of it, or None. NULL: nobody records. */
    cfx__mode_fn *mode;
    int below_autograd;     /* > 0 inside calls on the tape: what they call is not put there too */
    cfx__fn_layer *trace;
    cfx__op_layer *recorder; /* of an export or rewrite: sees every overload first, whole */
    int64_t (*data_size)(void); /* how many there are where only data could tell: -1, or NULL, where
                                   no one knows */
    int64_t (*part_size)(int64_t n); /* how long a part of a dimension is that seems to be n: data
                                        may tell. NULL: it is n */
    bool (*varies)(int64_t n); /* whether the number is a size that varies; NULL: none does */
} cfx__dispatch;

cfx__dispatch *cfx__dispatcher(void);

/* ---- modes (modes.c) ------------------------------------------------------------------------- */

/* Converts the arguments of a call as the autocast region says that the thread is in, and says
 * whether it wants that; false, with an error, where they cannot be converted. What such a call
 * does inside is left alone. */
bool cfx__autocast_args(const cfx_op *op, cfx_value *args, bool *converts);
/* A call on converted arguments; false where the region wants none converted. */
bool cfx__autocast_call(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result);
/* Whether calls are put on the tape: the grad mode says so, and nobody records them otherwise. */
bool cfx__grad_records(void);

/* What a forward may leave changed when it stops in the middle. */
typedef struct cfx__modes {
    cfx_grad_mode grad;
    cfx__autocast *autocast;
} cfx__modes;
cfx__modes cfx__modes_now(void);
/* Sets them back; nobody hears of it. */
void cfx__modes_restore(cfx__modes m);

/* ---- devices (card.c) ------------------------------------------------------------------------ */

/* Finds the card that a call with tensors on one runs on: what it makes lies there from now on.
 * False, with PyTorch's error, where its tensors are on several devices. */
bool cfx__op_enter_card(const cfx_op_call *c);

/* ---- calls ----------------------------------------------------------------------------------- */

/* How calls of an overload are bound, wherever: as torch.ops does it, a number stands for a tensor
 * in a few arithmetic operators alone. */
static inline unsigned cfx__op_mode(const cfx_op *op) {
    return op->effects & CFX_NUMBERS ? CFX__BIND_NUMBERS : 0;
}

/* Whether the fields of a target belong together; an error where a handler changed some of them. */
bool cfx__target_is_whole(cfx_site at, cfx_target t);
/* The overload of fn that takes the arguments, nodes for tensors among them, and how it binds them;
 * NULL, without an error, when none does. */
cfx_op *cfx__fn_overload(cfx_site at, const cfx_fn *fn, cfx_args a, cfx_value *bound);
/* The arguments with their trailing keywords split off: kw is filled when there are any; scope.
 */
cfx_args cfx__dispatch_args_split(cfx_args a);
/* The overload of a function that takes the arguments, which are bound; NULL, with PyTorch's
 * message, where none does. The in-place form, where the target's name ends in _ and is no
 * function's own. */
cfx_op *cfx__dispatch_resolve(cfx_site at, cfx_target t, cfx_args a, cfx_value *bound);
/* Whether a call cannot go on: one of the arguments, or of the keywords among them, is bad, or a
 * keyword is there twice, which is an error. */
bool cfx__dispatch_args_bad(cfx_site at, cfx_args a);
/* Calls an overload with arguments bound already (one for each of the schema's); scope. */
cfx_value cfx__op_call_bound(cfx_site at, cfx_op *op, cfx_value *args);
/* What the value room asks (later.h): repr() of tensors, operators, nodes and modules; t[i]. */
void cfx__dispatch_repr(cfx__text *out, cfx_value v);
cfx_value cfx__dispatch_item(cfx_value v, int64_t i);
/* The gradient column of operators through which none flows: detach, zeros_like. Sets nothing. */
void cfx__op_grad_none(cfx_back *b);
/* Goes on with a call below autograd: dispatch modes, then the operator. */
cfx_value cfx__op_call_below(cfx_site at, cfx_op *op, cfx_value *args);
/* Runs what is below dispatch modes: fake or kernel. */
cfx_value cfx__op_run(cfx_site at, cfx_op *op, cfx_value *args);
/* Numbers given where the schema wants a tensor become 0-dim tensors that promote as numbers. */
void cfx__op_settle(const cfx__schema *s, cfx_value *args);
/* Whether running the operator would fail, with the error recorded: asked before it is decomposed,
 * so that what running refuses is refused in the same words. Its shape rule decides, and for
 * in-place and out= forms what they ask of the tensors they write to; where there is none and
 * `given` is not NULL, its decomposition on fake tensors. given: room for the dtypes of
 * its results, CFX_DTYPE_COUNT for those that it leaves out or that no rule tells. */
bool cfx__op_refuses(cfx_site at, cfx_op *op, const cfx_value *args, cfx_dtype *given);
/* A recorder for what is not recorded while a program is, which can still be seen. */
bool cfx__op_record_nothing(cfx_site at, cfx_op *op, cfx_value *args, cfx_value *result);
/* Runs an operator's decomposition, whether or not it has a kernel. */
cfx_value cfx__op_decompose(cfx_site at, cfx_op *op, cfx_value *args);
/* Conjugates of complex tensors (mirror.c): `copy`, just made, is that of `of` from now on. Nothing
 * where those are fake, on a card, or a gradient flows through. */
void cfx__mirror_make(cfx_tensor *copy, cfx_tensor *of);
/* Whether it is the conjugate of what it mirrors in the end. */
bool cfx__mirror_turned(const cfx_tensor *t);
/* Before t is read otherwise than by a call: what it mirrors may have been written to. */
void cfx__mirror_refresh(const cfx_tensor *t);
/* Before a call, and after it. */
void cfx__mirror_read(int n, const cfx_value *args);
void cfx__mirror_wrote(cfx_op *op, int n, const cfx_value *args);
/* The derived forms: called by cfx__op_run. */
void cfx__op_run_inplace(cfx_op_call *c, cfx__op_info *info);
void cfx__op_run_out(cfx_op_call *c, cfx__op_info *info);
/* Whether op, or its parts, take quantized tensors as they are. */
bool cfx__op_knows_quantized(const cfx_op *op);
/* A call on quantized tensors of an operator that knows only floats. */
void cfx__op_run_quantized(cfx_op_call *c, cfx__op_info *info);
/* Records that the shape of a result depends on data. */
void cfx__op_needs_data(const cfx_op_call *c);
/* After a foreign operator ran on fake tensors: notes the numbers of its results, where those of
 * its arguments are known and there are few of them (known.c). */
void cfx__op_note_known(cfx_op_call *c);
/* The functional part of a call: shape (or decomposition), then kernel unless fake. */
void cfx__op_run_functional(cfx_op_call *c);
/* Whether no argument is a symbol, or has one in it: where something is computed, sizes are
 * numbers. False, with an error. */
bool cfx__op_knows_sizes(cfx_site at, cfx_op *op, int n, const cfx_value *args);
/* Whether its kernel takes the dtypes of arguments and results; else an error. */
bool cfx__op_takes_dtypes(const cfx_op_call *c);
void cfx__op_run_kernel(cfx_op_call *c);

#endif
