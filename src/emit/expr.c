/* Expressions of generated code: values, paths, operators and the names of functions. */
#include "../value/tree_type.h"

#include "emit.h"

/* ---- colours -------------------------------------------------------------------------------- */

void cfx__emit_paint(cfx__emit_writer *w, cfx__emit_color c) {
    static const char *const codes[] = {[CFX__RED] = "\033[31m",
                                        [CFX__BLUE] = "\033[34m",
                                        [CFX__DIM] = "\033[2m",
                                        [CFX__DIM_BLUE] = "\033[2m\033[34m",
                                        [CFX__DIM_GREEN] = "\033[2m\033[32m"};
    if (w->colored)
        cfx__text_puts(w->out, codes[c]);
}

void cfx__emit_unpaint(cfx__emit_writer *w) {
    if (w->colored)
        cfx__text_puts(w->out, "\033[0m");
}

/* ---- values --------------------------------------------------------------------------------- */

void cfx__emit_node(cfx__emit_writer *w, const cfx_node *n) {
    cfx__text_puts(w->out, cfx__emit_node_name(w->names, n));
}

/* Dotted names as one identifier: runs of what may not stand in one are one underscore. */
static void write_identifier(cfx__text *out, const char *name) {
    for (const char *c = name; *c; c++)
        if (cfx__emit_is_word(*c))
            cfx__text_putc(out, *c);
        else if (c == name || cfx__emit_is_word(c[-1]))
            cfx__text_putc(out, '_');
}

/* A global that is called after a dotted path. */
static void write_global(cfx__emit_writer *w, const char *path, const cfx_object *object) {
    cfx__text wanted = {0};
    write_identifier(&wanted, path);
    const char *name = wanted.data ? wanted.data : "_";
    cfx__text_puts(w->out, w->names ? cfx__emit_global_name(w->names, name, path, object) : name);
    cfx__text_release(&wanted);
}

static void write_items(cfx__emit_writer *w, const cfx_list *l) {
    for (int64_t i = 0; i < l->len; i++) {
        if (i)
            cfx__text_add(w->out, ", ", 2);
        cfx__emit_value(w, l->items[i]);
    }
}

/* PyTorch colours a dict as one literal, whatever is in it. */
static void write_dict(cfx__emit_writer *w, const cfx_dict *d) {
    cfx__emit_writer plain = *w;
    plain.colored = false;
    cfx__emit_paint(w, CFX__BLUE);
    cfx__text_putc(w->out, '{');
    for (int64_t i = 0; i < d->len; i++) {
        if (i)
            cfx__text_add(w->out, ", ", 2);
        cfx__emit_value(&plain, d->entries[i].key);
        cfx__text_add(w->out, ": ", 2);
        cfx__emit_value(&plain, d->entries[i].value);
    }
    cfx__text_putc(w->out, '}');
    cfx__emit_unpaint(w);
}

static void write_tensor(cfx__emit_writer *w, const cfx_tensor *t) {
    cfx__text_puts(w->out, "torch.Tensor(size=[");
    for (int i = 0; i < cfx_tensor_ndim(t); i++)
        cfx__text_printf(w->out, "%s%lld", i ? ", " : "", (long long)cfx_tensor_shape(t)[i]);
    cfx__text_printf(w->out, "], dtype=%s)", cfx_dtype_name(cfx_tensor_dtype(t)));
}

/* An object of the caller's writes itself: in texts and globals. */
struct cfx_code {
    cfx__emit_writer *w;
};

void cfx_code_text(cfx_code *code, const char *text) {
    if (code && text)
        cfx__text_puts(code->w->out, text);
}

void cfx_code_global(cfx_code *code, const char *path, cfx_value object) {
    if (code && path)
        write_global(code->w, path, object.tag == CFX_TAG_OBJECT ? cfx_as_object(object) : NULL);
}

static void write_object(cfx__emit_writer *w, const cfx_object *o) {
    cfx_code code = {w};
    if (o->type->code)
        o->type->code(o->data, &code);
    else
        cfx__object_text(w->out, o, true);
}

void cfx__emit_value(cfx__emit_writer *w, cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_NODE: cfx__emit_node(w, cfx_as_node(v)); break;
    case CFX_TAG_OP: cfx__text_printf(w->out, "torch.ops.%s", cfx_op_name(cfx_as_op(v))); break;
    case CFX_TAG_TENSOR: write_tensor(w, cfx_as_tensor(v)); break;
    case CFX_TAG_DICT: write_dict(w, cfx_as_dict(v)); break;
    case CFX_TAG_LIST:
        cfx__text_putc(w->out, '[');
        write_items(w, cfx_as_list(v));
        cfx__text_putc(w->out, ']');
        break;
    case CFX_TAG_TUPLE:
        if (cfx_tree_type_of(v))
            write_global(w, cfx_tree_type_of(v)->path, NULL);
        cfx__text_putc(w->out, '(');
        write_items(w, cfx_as_list(v));
        cfx__text_puts(w->out, cfx_as_list(v)->len == 1 ? ",)" : ")");
        break;
    case CFX_TAG_SLICE:
        cfx__text_puts(w->out, "slice(");
        cfx__emit_value(w, cfx_as_slice(v)->start);
        cfx__text_add(w->out, ", ", 2);
        cfx__emit_value(w, cfx_as_slice(v)->stop);
        cfx__text_add(w->out, ", ", 2);
        cfx__emit_value(w, cfx_as_slice(v)->step);
        cfx__text_putc(w->out, ')');
        break;
    case CFX_TAG_OBJECT:
        cfx__emit_paint(w, CFX__BLUE);
        write_object(w, cfx_as_object(v));
        cfx__emit_unpaint(w);
        break;
    default:
        cfx__emit_paint(w, CFX__BLUE);
        cfx__repr(w->out, v);
        cfx__emit_unpaint(w);
    }
}

void cfx__emit_operand(cfx__emit_writer *w, cfx_value v) {
    bool sum = v.tag == CFX_TAG_SYM && cfx_as_sym(v)->op != CFX__SYM_NAME;
    if (sum)
        cfx__text_putc(w->out, '(');
    cfx__emit_value(w, v);
    if (sum)
        cfx__text_putc(w->out, ')');
}

void cfx__emit_args(cfx__emit_writer *w, const cfx_node *n, int from) {
    const cfx_list *args = cfx_as_list(n->args);
    bool first = true;
    for (int64_t i = from; i < args->len; i++, first = false) {
        if (!first)
            cfx__text_add(w->out, ", ", 2);
        cfx__emit_value(w, args->items[i]);
    }
    const cfx_dict *kwargs = n->kwargs.tag == CFX_TAG_DICT ? cfx_as_dict(n->kwargs) : NULL;
    for (int64_t i = 0; kwargs && i < kwargs->len; i++, first = false) {
        if (!first)
            cfx__text_add(w->out, ", ", 2);
        cfx_value key = kwargs->entries[i].key;
        if (key.tag == CFX_TAG_STR)
            cfx__text_line(w->out, cfx_as_string(key)->text, cfx_as_string(key)->len);
        else
            cfx__emit_value(w, key);
        cfx__text_add(w->out, " = ", 3);
        cfx__emit_value(w, kwargs->entries[i].value);
    }
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* Each atom that is no identifier puts a getattr() around all that stands before it. */
void cfx__emit_path(cfx__emit_writer *w, const char *base, cfx_value base_value, const char *path) {
    for (const char *a = path;; a++) {
        size_t n = strcspn(a, ".");
        if (!cfx__name_is_identifier(a, n))
            cfx__text_puts(w->out, "getattr(");
        a += n;
        if (!*a)
            break;
    }
    if (base)
        cfx__text_puts(w->out, base);
    else
        cfx__emit_operand(w, base_value);
    for (const char *a = path;; a++) {
        size_t n = strcspn(a, ".");
        bool plain = cfx__name_is_identifier(a, n);
        cfx__text_puts(w->out, plain ? "." : ", ");
        if (plain) {
            cfx__text_add(w->out, a, n);
        } else {
            cfx__repr_quoted(w->out, a, n, '"');
            cfx__text_putc(w->out, ')');
        }
        a += n;
        if (!*a)
            break;
    }
}

/* ---- operators ------------------------------------------------------------------------------ */

/* In order of name. */
static const cfx__emit_operator operators[] = {
    {"operator.add", "+", CFX__BINARY},
    {"operator.and_", "&", CFX__BINARY},
    {"operator.eq", "==", CFX__BINARY},
    {"operator.floordiv", "//", CFX__BINARY},
    {"operator.ge", ">=", CFX__BINARY},
    {"operator.getitem", "[", CFX__ITEM},
    {"operator.gt", ">", CFX__BINARY},
    {"operator.iadd", "+=", CFX__INPLACE_OPERATOR},
    {"operator.iand", "&=", CFX__INPLACE_OPERATOR},
    {"operator.ifloordiv", "//=", CFX__INPLACE_OPERATOR},
    {"operator.ilshift", "<<=", CFX__INPLACE_OPERATOR},
    {"operator.imatmul", "@=", CFX__INPLACE_OPERATOR},
    {"operator.imod", "%=", CFX__INPLACE_OPERATOR},
    {"operator.imul", "*=", CFX__INPLACE_OPERATOR},
    {"operator.invert", "~", CFX__UNARY},
    {"operator.ior", "|=", CFX__INPLACE_OPERATOR},
    {"operator.ipow", "**=", CFX__INPLACE_OPERATOR},
    {"operator.irshift", ">>=", CFX__INPLACE_OPERATOR},
    {"operator.isub", "-=", CFX__INPLACE_OPERATOR},
    {"operator.itruediv", "/=", CFX__INPLACE_OPERATOR},
    {"operator.ixor", "^=", CFX__INPLACE_OPERATOR},
    {"operator.le", "<=", CFX__BINARY},
    {"operator.lshift", "<<", CFX__BINARY},
    {"operator.lt", "<", CFX__BINARY},
    {"operator.matmul", "@", CFX__BINARY},
    {"operator.mod", "%", CFX__BINARY},
    {"operator.mul", "*", CFX__BINARY},
    {"operator.ne", "!=", CFX__BINARY},
    {"operator.neg", "-", CFX__UNARY},
    {"operator.or_", "|", CFX__BINARY},
    {"operator.pos", "+", CFX__UNARY},
    {"operator.pow", "**", CFX__BINARY},
    {"operator.rshift", ">>", CFX__BINARY},
    {"operator.setitem", "[", CFX__SET_ITEM},
    {"operator.sub", "-", CFX__BINARY},
    {"operator.truediv", "/", CFX__BINARY},
    {"operator.xor", "^", CFX__BINARY},
};

const cfx__emit_operator *cfx__emit_operator_named(const char *name) {
    int lo = 0, hi = COUNT(operators) - 1;
    while (lo <= hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, operators[mid].target + 9);
        if (!order)
            return &operators[mid];
        if (order < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return NULL;
}

const cfx__emit_operator *cfx__emit_operator_starting(const char *text,
                                                      cfx__emit_operator_kind kind) {
    const cfx__emit_operator *best = NULL;
    for (int i = 0; i < COUNT(operators); i++) {
        const cfx__emit_operator *o = &operators[i];
        if (o->kind == kind && o->sign[0] == text[0] && !strncmp(text, o->sign, strlen(o->sign)) &&
            (!best || strlen(o->sign) > strlen(best->sign)))
            best = o;
    }
    return best;
}

int cfx__emit_operator_arity(const cfx__emit_operator *op) {
    return op->kind == CFX__UNARY ? 1 : op->kind == CFX__SET_ITEM ? 3 : 2;
}

/* ---- functions ------------------------------------------------------------------------------ */

static bool starts(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* Torch's functions keep their dotted name. Others become one identifier. */
bool cfx__emit_function(cfx__text *out, const cfx_target *t) {
    const char *name = t->name;
    if (starts(name, "torch.")) {
        cfx__text_puts_line(out, name);
        return false;
    }
    if (!t->fn && t->op) {
        cfx__target_text(out, *t);
        return false;
    }
    if (starts(name, "builtins."))
        name += strlen("builtins.");
    else if (starts(name, "operator."))
        cfx__text_putc(out, '_');
    else if (*name >= '0' && *name <= '9')
        cfx__text_putc(out, '_');
    write_identifier(out, name);
    return true;
}

/* Python's own functions and types that take part in graphs, in order. */
static const char *const builtin_names[] = {
    "abs",     "all",        "any",  "bool",  "bytes",    "chr",     "complex",   "dict",
    "divmod",  "enumerate",  "filter", "float", "format", "getattr", "hasattr",   "hash",
    "id",      "int",        "isinstance", "issubclass", "iter", "len", "list",   "map",
    "max",     "min",        "next", "object", "ord",     "pow",     "print",     "range",
    "repr",    "reversed",   "round", "set",  "setattr",  "slice",   "sorted",    "str",
    "sum",     "tuple",      "type", "zip"};

void cfx__parse_global(cfx__text *out, const char *name, size_t len) {
    static const char operator_[] = "_operator_", math[] = "math_";
    const cfx_tree_type *type = cfx__tree_type_spelled(name, len);
    if (type) {
        cfx__text_puts(out, type->path);
        return;
    }
    if (len > strlen(operator_) && starts(name, operator_)) {
        cfx__text_puts(out, "operator.");
        name += strlen(operator_), len -= strlen(operator_);
    } else if (len > strlen(math) && starts(name, math)) {
        cfx__text_puts(out, "math.");
        name += strlen(math), len -= strlen(math);
    } else {
        for (int i = 0; i < COUNT(builtin_names); i++)
            if (strlen(builtin_names[i]) == len && !memcmp(builtin_names[i], name, len))
                cfx__text_puts(out, "builtins.");
    }
    cfx__text_add(out, name, len);
}
