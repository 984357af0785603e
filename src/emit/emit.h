/* emit: where a graph becomes text, and text a graph.
 *
 * Invariant: the writers read a graph and change nothing; each goes over its nodes a fixed number
 * of times. The parser builds a graph through the functions of the graph room only, and gives the
 * whole graph or none. What the code form prints the code form reads back: the operator table, the
 * literals and the paths are written here once, for both directions.
 *
 * Start reading at code.c for the way out, at parse_code.c for the way in. */
#ifndef CFX__EMIT_H
#define CFX__EMIT_H

#include <cfx/emit.h>

#include "../graph/graph.h"


/* ---- out ------------------------------------------------------------------------------------ */

typedef enum cfx__emit_color {
    CFX__RED,
    CFX__BLUE,
    CFX__DIM,
    CFX__DIM_BLUE,
    CFX__DIM_GREEN
} cfx__emit_color;

/* A global of generated code: a function, a type, an object of the caller's. */
typedef struct cfx__emit_global {
    const char *name;   /* in this text */
    const char *target; /* the text that names it, as in a node's target */
    const cfx_object *object; /* counted; NULL: none of the caller's */
    size_t next;        /* the number of another that wanted the same name; 0: none */
} cfx__emit_global;

/* What nodes and globals are called in one text; see names.c. Zero but for `g` at first. */
typedef struct cfx__emit_names {
    const cfx_graph *g;
    bool anew;  /* every name is given when it is first met */
    bool clash; /* two things are called alike: the text is to be written again, anew */
    VEC(cfx__emit_global) globals;
    cfx__map by_wanted; /* the name that globals would have to the number of the last such */
    cfx__map nodes;     /* a node's name to that in this text, where they are given anew */
    cfx__namespace given;
    cfx__arena arena;
} cfx__emit_names;

/* What a node, and a global that would best be called `wanted`, is called; lives with the names. */
const char *cfx__emit_node_name(cfx__emit_names *names, const cfx_node *n);
const char *cfx__emit_global_name(cfx__emit_names *names, const char *wanted, const char *target,
                                  const cfx_object *object);
/* Name to the caller's object or, as a str, to the target; scope. */
cfx_dict *cfx__emit_globals(const cfx__emit_names *names);
void cfx__emit_names_release(cfx__emit_names *names);

/* Where text goes and how names look in it. */
typedef struct cfx__emit_writer {
    cfx__text *out;
    bool colored;
    cfx__emit_names *names; /* NULL: nodes by their names, and nothing is asked for globals */
} cfx__emit_writer;

/* Terminal colours around what is written between the two; nothing unless the writer is colored. */
void cfx__emit_paint(cfx__emit_writer *w, cfx__emit_color c);
void cfx__emit_unpaint(cfx__emit_writer *w);

void cfx__emit_node(cfx__emit_writer *w, const cfx_node *n);
/* A value as generated code has it: torch.ops.aten.add.Tensor, device(type='cpu'), (x, 1). */
void cfx__emit_value(cfx__emit_writer *w, cfx_value v);
/* The same beside an operator, where a symbolic size that is a sum needs brackets. */
void cfx__emit_operand(cfx__emit_writer *w, cfx_value v);
/* The values of a call with their keywords: "x, 1, dim = 0", from positional argument `from` on. */
void cfx__emit_args(cfx__emit_writer *w, const cfx_node *n, int from);
/* self.a.b or getattr(self.a, "0").b: a dotted path after a base, which is text or, where that is
 * NULL, a value. */
void cfx__emit_path(cfx__emit_writer *w, const char *base, cfx_value base_value, const char *path);
/* An annotation in code: typing.Optional[int] is typing_Union[int,NoneType]. */
void cfx__emit_type(cfx__text *out, const char *type);
/* ... and back: the type as Python's repr() has it. */
void cfx__parse_type(cfx__text *out, const char *text, size_t len);
/* Whether a text may be a type: dotted names, with others in brackets behind them. */
bool cfx__parse_is_type(const char *text, const char *end);
static inline bool cfx__emit_is_word(char c) { /* may stand in an identifier */
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* Python's operators: operator.add is `{} + {}`. */
typedef enum cfx__emit_operator_kind {
    CFX__UNARY,   /* -{} */
    CFX__BINARY,  /* {} + {} */
    CFX__ITEM,    /* {}[{}] */
    CFX__INPLACE_OPERATOR, /* {} += {};  iadd = {} */
    CFX__SET_ITEM /* {}[{}] = {};  setitem = {} */
} cfx__emit_operator_kind;

typedef struct cfx__emit_operator {
    const char *target; /* "operator.add" */
    const char *sign;
    cfx__emit_operator_kind kind;
} cfx__emit_operator;

/* The operator whose function is called so, without "operator."; NULL when there is none. */
const cfx__emit_operator *cfx__emit_operator_named(const char *name);
/* The longest operator of one of the kinds whose sign stands at text; NULL when there is none. */
const cfx__emit_operator *cfx__emit_operator_starting(const char *text,
                                                      cfx__emit_operator_kind kind);
/* The number of arguments an operator takes. */
int cfx__emit_operator_arity(const cfx__emit_operator *op);

/* What generated code calls a function: torch.relu, _operator_abs, math_sqrt. Writes it; returns
 * whether it is a global that needs a name of its own (one that is not torch's). */
bool cfx__emit_function(cfx__text *out, const cfx_target *t);
/* The target that generated code means by a name: the other direction. */
void cfx__parse_global(cfx__text *out, const char *name, size_t len);

/* The body of forward as it is written: where in the text each node begins. */
typedef struct cfx__emit_body {
    cfx__text text;
    VEC(struct cfx__emit_mark {
        size_t at;
        int64_t node; /* number in the graph */
    })
    marks;
    int indent;
} cfx__emit_body;
/* Sends the body through the user's function, if the graph has one. */
void cfx__emit_transform(cfx__emit_body *b, const cfx_codegen *c);
/* The lines of a cfx_python_code, for a head of so many. */
cfx_dict *cfx__emit_line_map(const cfx__emit_body *b, int head);

/* The body and head of forward, as gm.code has them or, verbose, as print_readable does. With
 * `code` not NULL what else cfx_graph_python_code tells. */
void cfx__emit_code(cfx__text *out, const cfx_graph *g, const cfx_readable_options *readable,
                    int indent, cfx_python_code *code);
/* The comment line of a node in verbose code, if it differs from the last one; `last` remembers. */
void cfx__emit_summary(cfx__emit_writer *w, const cfx_node *n, const cfx_readable_options *o,
                       int indent, cfx__text *last);
/* `: "f32[3, 4]"`; false, and nothing written, where the metadata tells nothing. */
bool cfx__emit_shape(cfx__emit_writer *w, const cfx_node *n, const cfx_readable_options *o);

/* Whether m has a graph; torch's AttributeError, for the attribute that was wanted, where not. */
bool cfx__emit_wants_graph(const cfx_module *m, const char *attribute);

/* ---- in ------------------------------------------------------------------------------------- */

enum { CFX__MAX_NESTING = 200 }; /* of lists in values: deeper ones are refused */

/* A graph of the text: in the code form a class inside a class is a child. */
typedef struct cfx__parser_module {
    cfx_graph *g;
    const char *name; /* of the class, or NULL; in the parser's arena */
    int indent;       /* of the class in the text: children have more */
} cfx__parser_module;

/* The text being read. The first error stops it: `failed` makes every further step do nothing. */
typedef struct cfx__parser {
    const char *what, *start, *at, *end;
    cfx_graph *g;
    cfx__map nodes;      /* names in the text to nodes */
    cfx__map targets;    /* texts of call_function targets to cfx_target */
    cfx__arena arena;    /* owns the keys of both and the targets */
    VEC(cfx_value) stack; /* values of the lists being read */
    cfx__text path;      /* of the reference being read: self.a.b */
    VEC(cfx__parser_module) modules; /* what the text holds: one graph, or a class each */
    int depth;           /* of those lists */
    bool comma;          /* the list read last ended in a comma, or was empty */
    bool failed;
    bool quiet;          /* on a copy: only try, record no error */
    const char *counted; /* how far lines were counted */
    uint32_t lines;      /* that end before it */
} cfx__parser;

/* Starts on a text, which stays the caller's; reads all of it into p->modules, whose graphs belong
 * to the scope; ends. */
void cfx__parser_open(cfx__parser *p, const char *text, const char *what);
void cfx__parse(cfx__parser *p);
void cfx__parser_close(cfx__parser *p);

/* Records an error at a place in the text: file, line and column, the line and a caret. */
void cfx__parse_fail(cfx__parser *p, const char *at, const char *fmt, ...) CFX_PRINTF(3, 4);
/* Steps over blanks of the same line. */
void cfx__parser_skip(cfx__parser *p);
/* Steps over `text` if it comes next; cfx__parser_want makes it an error if not. */
bool cfx__parser_take(cfx__parser *p, const char *text);
bool cfx__parser_want(cfx__parser *p, const char *text);
/* Steps over an identifier; its length, 0 when there is none. *name points into the text. */
size_t cfx__parser_take_name(cfx__parser *p, const char **name);
/* Whether nothing but blanks is left of the line. */
bool cfx__parser_is_line_end(cfx__parser *p);
/* A string literal, 'a\n' or "a"; scope. */
cfx_value cfx__parser_take_string(cfx__parser *p);
/* Whether a number comes next (with sign), and the number: an int, a float or a complex one. */
bool cfx__parser_is_number_next(const cfx__parser *p);
cfx_value cfx__parser_take_number(cfx__parser *p);
/* The node that the text calls so, or NULL. */
cfx_node *cfx__parser_find_node(const cfx__parser *p, const char *name, size_t len);
/* From now on the text calls n so. */
void cfx__parser_bind_node(cfx__parser *p, const char *name, size_t len, cfx_node *n);
/* The target of a call_function, looked up once for each text. */
cfx_target cfx__parser_target(cfx__parser *p, const char *text, size_t len);

/* A value as code and repr() write it. With an error and the bad value where there is none. */
cfx_value cfx__parser_take_value(cfx__parser *p);
/* The same beside an operator: `2 * y` is the number 2 here, not a symbolic size. */
cfx_value cfx__parser_take_operand(cfx__parser *p);
/* The values up to the closing bracket, which is stepped over, pushed on the stack: how many. With
 * kw not NULL, name = value pairs go there. */
int64_t cfx__parser_take_values(cfx__parser *p, const char *close, cfx_dict *kw);
/* (1+2j) at a bracket; the bad value, nothing taken and no error, where it is a tuple's. */
cfx_value cfx__parser_take_complex(cfx__parser *p);
/* A list or tuple of the values above `from` on the stack, which are taken off; scope. */
cfx_value cfx__parser_pop_values(cfx__parser *p, size_t from, cfx_tag tag);
/* What stands between [ and ], which is stepped over: a value, or several as a tuple. */
cfx_value cfx__parser_take_subscript(cfx__parser *p);
/* s77, u0: whether a name is one that PyTorch gives to sizes it does not know. */
bool cfx__parser_is_symbol(const char *name, size_t len);
/* Where the name of a dtype, a layout or an operator ends that starts here; NULL when none does. */
const char *cfx__parser_torch_value_end(const cfx__parser *p);
/* A name that torch has for a value: torch.float32, torch.strided. False when there is none. */
bool cfx__parser_torch_constant(const char *name, size_t len, cfx_value *out);
/* `"f32[3, 4]"`, `"Sym(s0)"` and `"(f32[3], f32[3])"` as the metadata that prints so; false, and
 * nothing done, where it is none of these. */
bool cfx__parse_shape(cfx_node *n, const char *text);

/* What a text says of a node beside its arguments. */
typedef struct cfx__parser_node_text {
    cfx_opcode op;
    const char *target;
    size_t target_len;
    const char *name;
    size_t name_len;
    const char *type; /* or NULL */
} cfx__parser_node_text;

/* Makes the node and lets the text call it so. */
cfx_node *cfx__parser_add_node(cfx__parser *p, cfx__parser_node_text t, cfx_value args,
                               cfx_value kwargs);

/* What a statement computes. */
typedef struct cfx__parser_statement {
    cfx_opcode op;
    const char *target; /* scope or static */
    size_t target_len;
    cfx_value args, kwargs;
    bool alias; /* no node at all: another name for the node in args */
} cfx__parser_statement;

cfx__parser_statement cfx__parser_make_operator(const cfx__emit_operator *o, int n,
                                                const cfx_value *args);
/* The right side of an assignment. */
cfx__parser_statement cfx__parser_take_right_side(cfx__parser *p);

void cfx__parse_graph_form(cfx__parser *p);
/* Up to the end of the text, or to what a program has behind its graphs. */
void cfx__parse_code_form(cfx__parser *p);
/* The modules that were read as one, with its children; scope. Bad, with an error. */
cfx_module *cfx__parser_build(cfx__parser *p);

/* ---- programs ------------------------------------------------------------------------------- */

/* Whether one of the parts begins here that a program has behind its graphs. */
bool cfx__parser_at_program_part(const cfx__parser *p);
/* cfx_program_parse, but for inputs and results that the text does not list: the program has none
 * for them yet, until cfx_program_sync. */
cfx_program *cfx__program_parse(const char *text, const char *what);
/* The cfx_input_kind or cfx_output_kind that a signature calls so; -1: none. */
int cfx__parse_kind(bool input, const char *text, size_t len);
const char *cfx__kind_name(bool input, int kind);

/* A node as cfx_program_json writes it; scope. */
const char *cfx__node_json(const cfx_node *n);

#endif
