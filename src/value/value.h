/* value: what an argument can be.
 *
 * Invariant: a value is either plain (no object) or points to a counted object; containers hold one
 * count of each object in them. Schemas are immutable once parsed. */
#ifndef CFX__VALUE_H
#define CFX__VALUE_H

#include <cfx/value.h>

#include "../base/base.h"

static inline bool cfx__value_tag_counted(uint32_t tag) {
    return tag >= CFX_TAG_STR && tag <= CFX_TAG_KEYWORD;
}

/* The counted object that v points to; NULL where it points to none. For comparing. */
static inline void *cfx__value_object(cfx_value v) {
    return cfx__value_tag_counted(v.tag) ? v.obj_ : NULL;
}

/* Values that borrow an object: a string, a symbol's expression, a list as what `like` is. */
static inline cfx_value cfx__value_of_string(const cfx_string *s) {
    return (cfx_value){.tag = CFX_TAG_STR, .str_ = s};
}
static inline cfx_value cfx__value_of_sym(const struct cfx_sym *s) {
    return (cfx_value){.tag = CFX_TAG_SYM, .sym_ = (struct cfx_sym *)(uintptr_t)s};
}
static inline cfx_value cfx__value_of_object(const cfx_object *o) {
    return (cfx_value){.tag = CFX_TAG_OBJECT, .object_ = (cfx_object *)(uintptr_t)o};
}
static inline cfx_value cfx__value_of_list(cfx_value like, cfx_list *l) {
    like.list_ = l;
    return like;
}

/* Adds repr(v) or str(v) to a text. How a tensor or a node prints is decided by later rooms:
 * the printer is called for those tags; without one they print as "<tensor>". */
typedef void cfx__repr_fn(cfx__text *out, cfx_value v);
void cfx__repr(cfx__text *out, cfx_value v); /* with what later rooms print: see later.h */
void cfx__str(cfx__text *out, cfx_value v); /* strings bare, devices by name, the rest as repr */
void cfx__repr_with(cfx__text *out, cfx_value v, cfx__repr_fn *other);
void cfx__repr_float(cfx__text *out, double f); /* shortest text that reads back, as Python's */
void cfx__repr_string(cfx__text *out, const char *text, size_t len);
void cfx__repr_quoted(cfx__text *out, const char *text, size_t len, char quote); /* between those */

/* Reads one Python literal at *at, as repr writes it (containers, torch.float32, device(...),
 * slice(...), complex numbers included), into *out; scope. False, with nothing recorded, where
 * there is none; *at is then where reading stopped. */
bool cfx__value_literal(const char **at, cfx_value *out);
/* A number with a decimal point, whatever the locale's is. */
double cfx__value_read_float(const char *text, size_t len);

/* "cpu", "cuda:0"; and back, false where it is no device. */
void cfx__device_str(cfx__text *out, cfx_device d);
bool cfx__device_parse(const char *text, cfx_device *out);

/* type(v) as Python's C code names it: "Tensor", "list", "torch.dtype"; static, of an object of
 * the caller's borrowed from it. */
const char *cfx__value_python_type(cfx_value v);

uint64_t cfx__value_hash(cfx_value v);
/* What is asked of an object of the caller's, by its type. */
bool cfx__object_equal(const cfx_object *a, const cfx_object *b);
uint64_t cfx__object_hash(const cfx_object *o);
const char *cfx__object_type_name(const cfx_object *o);
void cfx__object_text(cfx__text *out, const cfx_object *o, bool repr);
/* Hands the count that the caller has on v to the current scope. Returns v. */
static inline cfx_value cfx__value_scope_own(cfx_value v) {
    if (cfx__value_tag_counted(v.tag))
        cfx__scope_own(v.obj_);
    return v;
}
cfx_list *cfx__list_make(int64_t n, const cfx_value *items); /* scope, keeps */
/* Notes that v, a list, tuple or dict, is put into the container; false, with an error, when that
 * would nest too deeply or make it hold itself. */
bool cfx__value_nest_in(cfx_obj *into, cfx_value v);
/* A list of n times None with one count, which the caller owns. */
cfx_list *cfx__list_alloc(int64_t n);

/* The number of leaves that a tree or its spec has. */
int64_t cfx__tree_leaves(cfx_value spec);
/* Appends the leaves of a tree in the order of a spec, whose dicts may have their keys in another;
 * false, with nothing done, where it has another shape or other types of the caller's. */
bool cfx__tree_flatten_as(cfx_value spec, cfx_value tree, cfx_list *leaves);
/* The type with a path; NULL: none. */
const struct cfx_tree_type *cfx__tree_type_named(const char *path);
/* An empty list or tuple of the kind that v is, to be filled; scope. */
cfx_value cfx__value_like(cfx_value v);

/* ---- marked numbers (mark.c) ----------------------------------------------------------------- */

/* A bool, int or float that stands for one which is not known while a module is exported has a
 * number in `spare` (src/trace/marks.h). Who reads it by cfx_integer and its like is heard of. */
static inline uint32_t cfx__value_mark(cfx_value v) {
    return v.tag >= CFX_TAG_BOOL && v.tag <= CFX_TAG_FLOAT ? v.spare : 0;
}
/* Whether v is marked, or has something marked in it. */
bool cfx__value_has_marks(cfx_value v);
/* The same without marks; scope. */
cfx_value cfx__value_plain(cfx_value v);

#undef cfx_number /* inside the library, where no line of the caller's is known */
#undef cfx_integer

/* ---- frozen values -------------------------------------------------------------------------- */

/* cfx_obj.flags of lists and dicts that a graph holds: they never change, and hold no container
 * that does. So they are shared freely. */
enum { CFX__FROZEN = 256 };
/* cfx_obj.flags: a tensor that stands for a node of a graph that is being traced. */
enum { CFX__TRACED = 4 };

/* ---- symbolic integers ----------------------------------------------------------------------- */

/* An expression over named symbols; immutable, shared. */
typedef enum cfx__sym_op {
    CFX__SYM_INT,    /* a constant */
    CFX__SYM_NAME,   /* s77, u0 */
    CFX__SYM_ADD,
    CFX__SYM_MUL,
    CFX__SYM_FLOORDIV,
    CFX__SYM_MOD,
    CFX__SYM_POW,
    CFX__SYM_MIN,
    CFX__SYM_MAX
} cfx__sym_op;

struct cfx_sym {
    cfx_obj head;
    cfx__sym_op op;
    int64_t hint;        /* the value with the example inputs */
    bool has_hint;       /* false for sizes that depend on data */
    const char *name;    /* NAME only, interned in the object's tail */
    int size;            /* operations in it; bounded, so that every walk over it is */
    struct cfx_sym *a, *b;
};

cfx_value cfx__sym_name(const char *name, bool has_hint, int64_t hint);  /* scope */
cfx_value cfx__sym_binary(cfx__sym_op op, cfx_value a, cfx_value b); /* scope; folds constants */
/* The same expression over symbols that have their hints from a dict by name; scope. */
cfx_value cfx__sym_hinted(cfx_value v, const cfx_dict *hints);
void cfx__sym_print(cfx__text *out, const struct cfx_sym *s);            /* as sympy prints it */
/* Whether both sides of a remainder are known not to be negative: PyTorch's Mod, else PythonMod. */
bool cfx__sym_is_natural_mod(const struct cfx_sym *s);
/* Same expression; equal ones hash alike. Whether two different ones have one value is not asked.
 */
bool cfx__sym_equal(const struct cfx_sym *a, const struct cfx_sym *b);
/* Whether an expression has a symbol for what only data tells: u0. */
bool cfx__sym_has_data(const struct cfx_sym *e);
uint64_t cfx__sym_hash(const struct cfx_sym *s);
/* The value of an operation on two numbers; false where it has none: it does not fit 64 bits, or
 * divides by zero. */
bool cfx__sym_apply(cfx__sym_op op, int64_t a, int64_t b, int64_t *out);
/* The value of an expression whose symbols have those that `at` finds; false where it has none. */
typedef bool cfx__sym_lookup(const struct cfx_sym *name, void *user, int64_t *out);
bool cfx__sym_eval(const struct cfx_sym *s, cfx__sym_lookup *at, void *user, int64_t *out);
/* The expression at the start of a text, its symbols without hints; scope. *rest is what follows
 * it. False, without an error, where there is none. */
bool cfx__sym_parse(const char *text, const char *end, const char **rest, cfx_value *out);

/* ---- schemas --------------------------------------------------------------------------------- */

typedef enum cfx__schema_type {
    CFX__T_TENSOR,
    CFX__T_SCALAR,
    CFX__T_INT,   /* int and SymInt */
    CFX__T_FLOAT,
    CFX__T_BOOL,
    CFX__T_STR,
    CFX__T_DTYPE, /* ScalarType; written int? in the text of old schemas */
    CFX__T_DEVICE,
    CFX__T_LAYOUT,
    CFX__T_MEMORY_FORMAT,
    CFX__T_GENERATOR,
    CFX__T_DIMNAME,
    CFX__T_STORAGE,
    CFX__T_STREAM,
    CFX__T_COMPLEX,
    CFX__T_ANY     /* t, and types of other libraries */
} cfx__schema_type;

typedef struct cfx__schema_arg {
    const char *name;     /* NULL for an unnamed return */
    cfx__schema_type type;
    bool sym;             /* written SymInt */
    bool optional;        /* T? */
    bool list;            /* T[] */
    bool items_optional;  /* T?[] */
    int list_len;         /* T[2]: one number stands for two; 0 where none */
    bool keyword_only;
    bool has_default;
    cfx_value fallback;   /* the default; None where there is none */
    char alias;           /* 'a' of Tensor(a!), 0 where none; '*' too */
    bool writes;          /* the ! of Tensor(a!) */
    const char *type_text; /* the type as written, alias marks included */
    uint32_t accepts;     /* bits by tag: values that are taken as they are */
    uint32_t items;       /* the same for the items of a list */
} cfx__schema_arg;

typedef struct cfx__schema {
    const char *text;      /* whole, as written */
    const char *ns;        /* "aten" */
    const char *name;      /* "add" */
    const char *overload;  /* "Tensor"; "" where none */
    int nargs, nrets;
    int npositional;       /* arguments before the * */
    cfx__schema_arg *args, *rets;
    bool varargs, varrets; /* a trailing ... */
    cfx__arena arena;      /* owns all of the above */
} cfx__schema;

/* Parses a schema. NULL, with an error that shows the text and the column, when it is malformed.
 * The caller owns the result. Defaults hold counts of their own. */
cfx__schema *cfx__schema_parse(const char *text);
void cfx__schema_free(cfx__schema *s);
/* The schema's text made anew from its parts, as PyTorch prints it; scope. */
const char *cfx__schema_print(const cfx__schema *s);

/* How strictly arguments are taken. */
typedef enum cfx__bind_mode {
    CFX__BIND_EXACT = 1, /* overload resolution: say no, record nothing */
    CFX__BIND_NUMBERS = 2 /* a number may stand where a Tensor is wanted */
} cfx__bind_mode;

/* Binds positional arguments and keywords to `out[nargs]`, defaults filled in, single numbers
 * expanded to lists of the schema's length, tuples to lists, ints to floats where a float is
 * wanted. Values are borrowed from a, from the schema, or belong to the scope. On a mismatch it
 * returns false, with PyTorch's message recorded unless mode has CFX__BIND_EXACT. */
bool cfx__bind(const cfx__schema *s, cfx_site at, cfx_args a, unsigned mode, cfx_value *out);
/* Binds one value to argument i, as cfx__bind does in any mode but CFX__BIND_EXACT. */
bool cfx__bind_one(const cfx__schema *s, cfx_site at, int i, cfx_value v, unsigned mode,
                   cfx_value *out);
/* "add() received an invalid combination of arguments - got (Tensor, str), but expected ..." */
void cfx__bind_fail(cfx_site at, const char *fn, cfx__schema *const *schemas, int n, cfx_args a);
/* Whether one value may be given for `arg`; mode as in cfx__bind. */
bool cfx__bind_takes(const cfx__schema_arg *arg, cfx_value v, unsigned mode);
/* Whether an argument is called `name`, by its own name or by Python's other names for it: self is
 * also input, dim is also axis. */
bool cfx__schema_arg_named(const cfx__schema_arg *arg, const char *name);
/* Where several ints may be given one by one (zeros(2, 3), x.view(2, -1)): the number of that
 * argument, or -1. */
int cfx__schema_varargs(const cfx__schema *s);

#endif
