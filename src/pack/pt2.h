/* .pt2 files: reads and writes the format of torch.export.save.
 *
 * Reading has three parts: pt2_open.c finds the parts of an archive of any layout and maps the
 * weights; pt2_graph.c makes graphs of model.json; pt2_program.c reads the signature and the rest.
 * pt2_value.c has what these and the writer share: enumerations, tensor descriptions, metadata of
 * nodes.
 *
 * Invariant: a file is untrusted. A program is read completely or not at all; every error names
 * the file and the place in it. */
#ifndef CFX__PT2_H
#define CFX__PT2_H

#include <cfx/pack.h>

#include "../run/run.h"
#include "../value/json.h"
#include "srepr.h"
#include "zip.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* The parts of model.json that grow with its graph: they are read item by item. */
typedef struct cfx__pt2_parts {
    const char *text, *what;       /* the whole text, and what errors call it */
    cfx__json_part nodes, tensors; /* without a text: in the tree */
    cfx__storage file;             /* what the text is mapped from, if it is */
} cfx__pt2_parts;

/* What is shared while one program is read. */
typedef struct cfx__pt2_reader {
    const char *path;
    const char *name;  /* of the program that was asked for; NULL: there is to be one */
    const char *node;  /* the node being read, for errors; NULL outside of nodes */
    cfx__srepr_hints hints;
    /* texts of expressions, stack traces and module stacks to the values made of them, which are
     * shared: cfx_value in the arena */
    cfx__map exprs, traces, stacks;
    VEC(cfx_value) kept; /* counts of those */
    cfx__arena arena;
    const cfx__pt2_parts *parts; /* of the graph that is read next; NULL: none */
} cfx__pt2_reader;

/* cfx_open for the bytes of an archive, which errors call `path`. */
cfx_program *cfx__pt2_open(const char *path, cfx__pack_bytes bytes);

void cfx__pt2_reader_close(cfx__pt2_reader *r);
/* Records a FileError that names the file and the node. Returns false. */
bool cfx__pt2_bad(const cfx__pt2_reader *r, const char *fmt, ...) CFX_PRINTF(2, 3);
/* The value of a key, which must be there and of this kind; NULL, with an error, where not. */
const cfx__json *cfx__pt2_want(const cfx__pt2_reader *r, const cfx__json *j, const char *key,
                               cfx__json_kind kind);
/* The only pair of a union, {"as_int": 3}: its tag; *v gets the value. NULL, with an error, when j
 * is none. */
const char *cfx__pt2_union(const cfx__pt2_reader *r, const cfx__json *j, const cfx__json **v);

/* A description of a tensor. Sizes are ints or symbolic, and belong to the scope. */
typedef struct cfx__pt2_meta {
    cfx_dtype dtype;
    int ndim;
    bool known; /* sizes, strides and offset are plain ints */
    bool requires_grad;
    cfx_device device;
    cfx_value offset;
    cfx_value sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS];
} cfx__pt2_meta;

bool cfx__pt2_tensor_meta(cfx__pt2_reader *r, const cfx__json *j, cfx__pt2_meta *m);
/* The metadata "val" of a node: a fake tensor, or a dict where sizes are symbolic; scope. */
cfx_value cfx__pt2_tensor_val(cfx__pt2_reader *r, const cfx__json *j);
/* A SymInt, SymFloat or SymBool: a number or what cfx__srepr_read gives; scope. */
cfx_value cfx__pt2_sym(cfx__pt2_reader *r, const cfx__json *j);
/* Takes the hints of all symbols that stand alone in a tree. */
void cfx__pt2_note_hints(cfx__pt2_reader *r, const cfx__json *j);
/* Arguments that name nothing in the graph: numbers, strings, dtypes, devices and lists of those;
 * scope. False, with nothing recorded, where the tag is none of theirs; a bad value, with an
 * error, where what it holds is wrong. */
bool cfx__pt2_constant(cfx__pt2_reader *r, const char *tag, const cfx__json *v, cfx_value *out);
/* The parts of a text between signs, as a tuple; scope. */
cfx_value cfx__pt2_split_text(const char *at, const char *end, char sign);
/* Sets the metadata of a node from its strings. The texts must stay as long as the reader. */
void cfx__pt2_node_meta(cfx__pt2_reader *r, cfx_node *n, const cfx__json *metadata);

/* A GraphModule of a graph in model.json; scope. `specs` are its input_specs (NULL below the top).
 * NULL, with an error. */
cfx_module *cfx__pt2_graph(cfx__pt2_reader *r, const cfx__json *graph, const cfx__json *specs,
                           int depth);
/* A program without tensors of a whole model.json; scope. Bad, with an error. */
cfx_program *cfx__pt2_program(cfx__pt2_reader *r, const cfx__json *root);
/* The same as an error of the file that is read. */
bool cfx__pt2_check_tensors(const cfx__pt2_reader *r, const cfx_program *p);

/* Takes how modules were called, and the trees of the program, from a module call graph, or from
 * what 2.1 had before (NULL: it is not there). False with an error. */
bool cfx__pt2_read_calls(cfx__pt2_reader *r, cfx_program *p, const cfx__json *calls,
                         const cfx__json *call_spec);

/* ---- writing --------------------------------------------------------------------------------- */

/* model.json, added to `out`; with an archive, all but the end of it is put into its open entry
 * (cfx__zip_piece). False, with an error. */
bool cfx__pt2_write_model(const cfx_program *p, const char *path, cfx__zip_writer *zip,
                          cfx__text *out);
/* The graph of a program as model.json has it, the same way. False, with an error that names the
 * file and the node, where a file has no form for something. */
bool cfx__pt2_write_graph(const cfx_program *p, const char *path, cfx__zip_writer *zip,
                          cfx__text *out);
/* Notes each node that takes a result of a call which one before it takes too: its name, and the
 * first of them. The caller releases the map. */
void cfx__pt2_find_twins(const cfx_graph *g, cfx__map *twins);
/* A value of the graph as an argument names it, or a constant: {"as_tensor": {"name": "relu"}}. */
void cfx__pt2_write_reference(cfx__text *out, const cfx_program *p, const cfx__map *twins,
                              cfx_value v);

/* How modules were called, as a module call graph. */
void cfx__pt2_put_calls(cfx__text *out, const cfx_program *p);

/* A SymInt, SymBool or SymFloat: a number or an expression. */
void cfx__pt2_put_sym(cfx__text *out, cfx_value v);
void cfx__pt2_put_float(cfx__text *out, double f);
/* A number, string, dtype or the like as an argument; false where v is none. */
bool cfx__pt2_put_constant(cfx__text *out, cfx_value v);
/* The metadata of a node, an object of strings. */
void cfx__pt2_put_metadata(cfx__text *out, const cfx_node *n);
/* A comma, unless the list or object has just begun. */
static inline void cfx__json_comma(cfx__text *t) {
    if (t->len && !strchr("[{", t->data[t->len - 1]))
        cfx__text_puts(t, ", ");
}
/* The description of a tensor. */
void cfx__pt2_put_tensor(cfx__text *out, const cfx_result *r);

/* ---- text ------------------------------------------------------------------------------------ */

/* cfx_open and cfx_save for .fx files (fx.c) and for archives. */
cfx_program *cfx__fx_open(const char *path);
bool cfx__fx_save(const cfx_program *p, const char *path);
cfx_program *cfx__pt2_open_file(const char *path);
bool cfx__pt2_save(const cfx_program *p, const char *path);
/* Several programs in an archive; storages that they share are written once. */
typedef struct cfx__pt2_entry {
    const char *name;
    const cfx_program *program;
} cfx__pt2_entry;
bool cfx__pt2_save_all(const char *path, int n, const cfx__pt2_entry *programs);

/* cfx_safetensors_write but for the last step: opens the file, together with `first` where that is
 * not NULL, and writes it; who calls closes it. */
bool cfx__safetensors_put(cfx__file_save *s, const char *path, const cfx__file_save *first,
                          const cfx_dict *tensors, const cfx_dict *metadata);

/* ---- enumerations ---------------------------------------------------------------------------- */

/* The numbers that files have for dtypes, memory formats and layouts. For a dtype that files do not
 * have it is 0, with an error. */
int cfx__pt2_dtype_number(cfx_dtype d);
int cfx__pt2_memory_format_number(cfx_memory_format f);
int cfx__pt2_layout_number(cfx_layout l);

#endif
