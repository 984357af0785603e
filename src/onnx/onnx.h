/* onnx: reads and writes .onnx files.
 *
 * Reading: wire.c parses messages, proto.c makes structs of them, whose texts and arrays are in the
 * reader's arena; tensors.c makes tensors, read.c the program with its inputs and results,
 * read_graph.c its nodes, control.c those with sub-graphs, read_value.c arguments from attributes,
 * and functions.c inlines functions.
 *
 * Invariant: a file is untrusted. A program is read completely or not at all; every error names
 * the file and, if possible, the node. Nodes are calls of onnx:: operators (src/ops/onnx); an
 * unknown operator keeps its name, inputs and attributes, so that it can be shown. */
#ifndef CFX__ONNX_H
#define CFX__ONNX_H

#include <cfx/program.h>

#include "../graph/graph.h"
#include "../ops/foreign.h"
#include "wire.h"

/* ---- messages (proto.c) ---------------------------------------------------------------------- */

/* Numbers of AttributeProto.type. */
typedef enum cfx__onnx_attr_type {
    CFX__ONNX_UNSAID,
    CFX__ONNX_FLOAT,
    CFX__ONNX_INT,
    CFX__ONNX_STRING,
    CFX__ONNX_TENSOR,
    CFX__ONNX_GRAPH,
    CFX__ONNX_FLOATS,
    CFX__ONNX_INTS,
    CFX__ONNX_STRINGS,
    CFX__ONNX_TENSORS,
    CFX__ONNX_GRAPHS,
    CFX__ONNX_SPARSE_TENSOR,
    CFX__ONNX_SPARSE_TENSORS,
    CFX__ONNX_TYPE,
    CFX__ONNX_TYPES
} cfx__onnx_attr_type;

typedef struct cfx__onnx_attr {
    const char *name;
    const char *ref; /* the attribute of the function around it that it stands for; NULL: none */
    cfx__onnx_attr_type type;
    float f;
    int64_t i;
    cfx__slice s;    /* a string, a tensor, a sparse tensor or a type */
    struct cfx__onnx_graph *g;
    size_t n;        /* of a list */
    float *floats;
    int64_t *ints;
    cfx__slice *strings; /* strings, or tensors */
} cfx__onnx_attr;

typedef struct cfx__onnx_pair {
    const char *key, *value;
} cfx__onnx_pair;

typedef struct cfx__onnx_node {
    const char *name, *op, *domain, *overload; /* "" where it has none */
    size_t ninputs, noutputs, nattrs, nprops;
    const char **inputs, **outputs; /* "" where one is left out */
    cfx__onnx_attr *attrs;
    cfx__onnx_pair *props;
} cfx__onnx_node;

/* Something with a name: a tensor (TensorProto or SparseTensorProto), or a value with its type. */
typedef struct cfx__onnx_named {
    const char *name;
    cfx__slice what;
} cfx__onnx_named;

typedef struct cfx__onnx_graph {
    const char *name;
    size_t nnodes, ntensors, nsparse, ninputs, noutputs;
    cfx__onnx_node *nodes;
    cfx__onnx_named *tensors, *sparse, *inputs, *outputs;
} cfx__onnx_graph;

typedef struct cfx__onnx_opset {
    const char *domain; /* "" is ONNX's own */
    int64_t version;
} cfx__onnx_opset;

typedef struct cfx__onnx_function {
    const char *name, *domain, *overload;
    size_t ninputs, noutputs, nattrs, ndefaults, nnodes, nopsets;
    const char **inputs, **outputs, **attrs;
    cfx__onnx_attr *defaults;
    cfx__onnx_node *nodes;
    cfx__onnx_opset *opsets;
} cfx__onnx_function;

typedef struct cfx__onnx_model {
    int64_t ir_version;
    const char *producer, *producer_version;
    size_t nopsets, nfunctions, nprops;
    cfx__onnx_opset *opsets;
    cfx__onnx_graph *graph; /* NULL: it has none */
    cfx__onnx_function *functions;
    cfx__onnx_pair *props;
} cfx__onnx_model;

/* What is shared while one file is read. */
typedef struct cfx__onnx_reader {
    const char *path;
    const cfx__onnx_node *node; /* the node being read, for errors; NULL outside of nodes */
    cfx__onnx_model model;
    cfx__map external;          /* name of a file beside it to its mapping, counted */
    cfx__map functions;         /* by what identifies them; empty until one is asked for */
    size_t inlined;             /* nodes of functions so far */
    cfx__arena arena;
} cfx__onnx_reader;

/* Records a FileError that names the file and the node. Returns false. */
bool cfx__onnx_bad(const cfx__onnx_reader *r, const char *fmt, ...) CFX_PRINTF(2, 3);
/* The same for what is no fault of the file: a NotImplementedError. */
bool cfx__onnx_lacks(const cfx__onnx_reader *r, const char *fmt, ...) CFX_PRINTF(2, 3);
/* Reads all but the tensors of a model. False, with an error. */
bool cfx__onnx_read_model(cfx__onnx_reader *r, cfx__slice bytes);
/* A text of the arena; NULL, with an error, where there is a zero byte in it. */
const char *cfx__onnx_text(cfx__onnx_reader *r, cfx__slice s);
void cfx__onnx_reader_close(cfx__onnx_reader *r);

/* ---- tensors (tensors.c) --------------------------------------------------------------------- */

/* A TensorProto, or a SparseTensorProto with zeros where it has nothing; scope. Data in a file of
 * its own is mapped, all other data copied. The bad tensor, with an error that calls it `name`. */
cfx_tensor *cfx__onnx_tensor(cfx__onnx_reader *r, cfx__slice proto, const char *name);
cfx_tensor *cfx__onnx_sparse(cfx__onnx_reader *r, cfx__slice proto, const char *name);

/* ---- types (types.c) ------------------------------------------------------------------------- */

/* Sizes that are symbols: s0, s1, ... for each name that a file has for one, or for none. */
typedef struct cfx__onnx_dims {
    cfx_dict *names; /* name in the file, "?s1" where it has none, to symbol */
    int count;
} cfx__onnx_dims;

/* What a value is. */
typedef enum cfx__onnx_kind {
    CFX__ONNX_IS_TENSOR,
    CFX__ONNX_IS_SEQUENCE,
    CFX__ONNX_IS_OPTIONAL
} cfx__onnx_kind;
cfx__onnx_kind cfx__onnx_kind_of(cfx__slice type);

/* The type of elements of a TypeProto, or of a TensorProto; NULL where it says none. */
const cfx__onnx_type *cfx__onnx_elements(cfx__slice type);
const cfx__onnx_type *cfx__onnx_tensor_elements(cfx__slice proto);

/* A tensor as the metadata "val" of a node has it: fake where all sizes are numbers, else what
 * stands for one. Scope. */
cfx_value cfx__onnx_described(const cfx_list *shape, cfx_dtype d);
/* What a TypeProto says, as the metadata "val" of a node has it: a fake tensor, a dict where sizes
 * are symbols; None where it says too little. Scope. False, with an error. */
bool cfx__onnx_val(cfx__onnx_reader *r, cfx__slice type, const char *name, cfx__onnx_dims *dims,
                   cfx_value *val);

/* Symbols for sizes that only data could tell, and what follows from them (data_sizes.c). False,
 * with an error. */
bool cfx__onnx_data_sizes(cfx_program *p);

/* ---- graphs (read_graph.c, read_value.c) ----------------------------------------------------- */

/* Names that tensors have in a program. */
typedef struct cfx__onnx_names {
    cfx_dict *taken;   /* those that are */
    cfx_dict *modules; /* the paths before them */
    cfx_dict *next;    /* name to the number that was added to it last */
    cfx_node *last;    /* the placeholder of the last tensor; NULL: there is none yet */
} cfx__onnx_names;

/* A graph being made: values by the names that a file has for them. */
typedef struct cfx__onnx_scope {
    cfx__onnx_reader *r;
    cfx_program *program;         /* whose inputs the tensors of nodes become */
    cfx_module *module;           /* the graph's; sub-graphs become children of it */
    cfx_graph *graph;
    const cfx__onnx_opset *opsets; /* that nodes are of */
    size_t nopsets;
    cfx__map values;              /* name to cfx_node */
    struct cfx__onnx_scope *outer; /* around a sub-graph; NULL: there is none */
    struct cfx__onnx_scope *caller; /* of a function, in whose graph its nodes are; NULL: none */
    cfx_list *captured;           /* of a sub-graph: nodes of the graph around it that it uses */
    cfx__map lifted;              /* name of such a node to the placeholder for it */
    cfx_node *last;               /* of a sub-graph: its last placeholder; NULL: none yet */
    cfx__onnx_names *names;       /* of the whole */
    int depth;                    /* functions around it */
} cfx__onnx_scope;

/* Makes nodes of n nodes of a file. False, with an error. */
bool cfx__onnx_nodes(cfx__onnx_scope *s, const cfx__onnx_node *nodes, size_t n);
/* The node that a value is called by; NULL, with an error, where there is none. */
cfx_node *cfx__onnx_value(cfx__onnx_scope *s, const char *name);
/* Notes that a value is called so. False, with an error, where another is. */
bool cfx__onnx_define(cfx__onnx_scope *s, const char *name, cfx_node *n);
/* A tensor as an input of the program, before the caller's: the node for it in the graph of s;
 * NULL, with an error. */
cfx_node *cfx__onnx_add_tensor(cfx__onnx_scope *s, cfx_tensor *t, const char *name);
/* The tensors of a graph, under the names that it has for them. */
bool cfx__onnx_tensors(cfx__onnx_scope *s, const cfx__onnx_graph *g);
/* The placeholder of a sub-graph for a node of the graph around it; for one of the whole, through
 * all graphs between. */
cfx_node *cfx__onnx_capture(cfx__onnx_scope *s, cfx_node *outer);
cfx_node *cfx__onnx_lift(cfx__onnx_scope *s, cfx_node *of_whole);
/* Gives the results of a node the names that the file has for them; `several`: they are its
 * items. */
bool cfx__onnx_name_results(cfx__onnx_scope *s, const cfx__onnx_node *n, cfx_node *made,
                            bool several);
void cfx__onnx_scope_close(cfx__onnx_scope *s);

/* If, Loop, Scan and SequenceMap as higher-order operators (control.c); *made is false where the
 * node is none of them. False, with an error. */
bool cfx__onnx_control(cfx__onnx_scope *s, const cfx__onnx_node *n, bool *made);
/* The function that a node calls (NULL: none), and its body in the place of the call
 * (functions.c). */
const cfx__onnx_function *cfx__onnx_find_function(cfx__onnx_reader *r, const cfx__onnx_node *n);
bool cfx__onnx_inline(cfx__onnx_scope *s, const cfx__onnx_node *n, const cfx__onnx_function *f);
/* A name with nothing in it that Python has no name for. Scope. */
const char *cfx__onnx_identifier(const char *name);

/* The value of an attribute for an argument of a schema (NULL: any). Bad, with an error. */
struct cfx__schema_arg;
cfx_value cfx__onnx_attr_value(cfx__onnx_scope *s, const cfx__onnx_attr *a,
                               const struct cfx__schema_arg *arg);

/* The tensor that a Constant gives; scope. The bad tensor, with an error. */
cfx_tensor *cfx__onnx_constant(cfx__onnx_scope *s, const cfx__onnx_node *n);

/* Where a node of a file comes from becomes metadata of the node that is made of it; and back, as
 * fields of a NodeProto. */
void cfx__onnx_note_origin(const cfx__onnx_node *n, cfx_node *made);
void cfx__onnx_put_origin(cfx__text *to, const cfx_node *n);
/* Notes modules of the nodes that have none, where others have some. Tensors of the file are
 * placeholders up to last_weight. */
void cfx__onnx_place_rest(cfx_graph *g, const cfx_node *last_weight);

/* ---- files beside (sample.c) ----------------------------------------------------------------- */

/* A value in a file of its own; a sequence is a list, None one that is missing. Scope. Bad, with an
 * error. */
cfx_value cfx__onnx_sample(const char *path, cfx__onnx_kind kind);

/* cfx_open and cfx_save for .onnx files. */
cfx_program *cfx__onnx_open(const char *path);
bool cfx__onnx_save(const cfx_program *p, const char *path);
/* The same; tensors go to a file beside it where the model has more than so many bytes. */
bool cfx__onnx_write(const cfx_program *p, const char *path, size_t most);

#endif
