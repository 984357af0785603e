/* Writing model.json: what its files share. pt2_write_args.c has values and arguments, pt2_write.c
 * calls, nodes and graphs. */
#ifndef CFX__PT2_WRITE_H
#define CFX__PT2_WRITE_H

#include "pt2.h"

enum { CFX__PT2_DESCRIBED = 64 };

/* An entry of the table of tensors. Many nodes have one description. */
typedef struct cfx__pt2_tensor {
    const char *name; /* the node's, or in the arena */
    size_t from, len; /* its description, in `descriptions` */
} cfx__pt2_tensor;

/* A graph being written. */
typedef struct cfx__pt2_writer {
    const cfx_program *program; /* NULL for graphs in the graph */
    const cfx_module *module;
    const char *path;
    const cfx_node *node;       /* being written, for errors */
    cfx__zip_writer *zip;       /* takes what is finished of the text; NULL: it stays */
    cfx__text ints, bools, floats, objects; /* tables of values */
    VEC(cfx__pt2_tensor) tensors; /* the table of those */
    cfx__text descriptions;
    cfx__arena arena;
    bool *given; /* by id of a node: its result is described so far; NULL: not looked at */
    struct {
        cfx_value of; /* counted */
        size_t number; /* of an entry of `tensors` with its description */
    } described[CFX__PT2_DESCRIBED]; /* what several nodes may have, some of them */
    cfx__map twins;             /* see cfx__pt2_find_twins */
    int depth;
    bool failed;
} cfx__pt2_writer;

/* What a node computes; of a parameter that says nothing, what its tensor is. */
cfx_result cfx__pt2_write_result_of(const cfx__pt2_writer *w, const cfx_node *n);

/* Records an error about the node being written. Returns false. */
bool cfx__pt2_write_bad(cfx__pt2_writer *w, const char *fmt, ...) CFX_PRINTF(2, 3);
/* The first node that takes the same result of a call as n does: a file has one name for both. n
 * itself where it is the only one, or takes none. */
const cfx_node *cfx__pt2_first_like(const cfx__map *twins, const cfx_node *n);
/* A reference to a value: {"as_tensor": {"name": "relu"}}. */
void cfx__pt2_write_name(cfx__text *t, const char *name, const cfx_result *r);
/* Puts a value into the table of its kind, and a reference to it into `out`; in a list of tensors
 * its bare name. */
bool cfx__pt2_write_result(cfx__pt2_writer *w, cfx__text *out, const char *name,
                           const cfx_result *r, bool bare);
/* An argument; type is what the schema says of it, or NULL. */
bool cfx__pt2_write_argument(cfx__pt2_writer *w, cfx__text *t, cfx_value v,
                             const cfx__schema_arg *type);
/* A graph inside the graph. */
bool cfx__pt2_write_subgraph(cfx__pt2_writer *outer, cfx__text *t, const cfx_module *m);

/* The start of an entry of a table: "relu": , after a comma where one is before it. */
static inline void cfx__pt2_put_key(cfx__text *t, const char *name) {
    cfx__json_comma(t);
    cfx__text_putc(t, '"');
    cfx__text_puts(t, name);
    cfx__text_puts(t, "\": ");
}

static inline bool cfx__value_is_sequence(cfx_value v) {
    return v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST;
}

#endif
