/* compile: generates C from a program.
 *
 * The program is prepared (ready.c: functionalised, and operators without a form in C decomposed),
 * planned for the target "c" (target.c), and the plan is written kernel by kernel (unit.c). Kernels
 * address tensors by refs, loop nests are written by a walk (walk.c), weights are collected as they
 * are used (weights.c), and file.c assembles the files.
 *
 * Invariant: text of a program reaches the C source only through cfx__c_identifier and
 * cfx__c_comment; sizes and offsets are verified numbers of the plan; nothing is written to a
 * file before all of it is complete. */
#ifndef CFX__COMPILE_H
#define CFX__COMPILE_H

#include <cfx/compile.h>

#include "../plan/description.h"

/* ---- where tensors lie ----------------------------------------------------------------------- */

typedef enum cfx__c_where {
    CFX__C_NOWHERE,
    CFX__C_ARENA,
    CFX__C_INPUT,
    CFX__C_OUTPUT,
    CFX__C_WEIGHT,
    CFX__C_STATE
} cfx__c_where;

/* A tensor in the text: in which memory, from where on, with which strides. */
typedef struct cfx__c_ref {
    cfx__c_where where;
    int number;   /* of the input, result, weight or state */
    int64_t base; /* ARENA: its room; of a card, where its memory begins, bytes */
    int64_t at;   /* elements from there on, or from the first */
    cfx_dtype dtype;
    int ndim;
    const int64_t *shape, *stride;
    const char *name;  /* what the text calls its pointer */
    const char *moves; /* elements that are added to where it is, "round * 64"; NULL: none */
} cfx__c_ref;

/* What a slot gives: one tensor, or several; n is 0 where it is none. */
typedef struct cfx__c_refs {
    int n;
    cfx__c_ref *refs;
} cfx__c_refs;

/* ---- what is being written ------------------------------------------------------------------- */

typedef struct cfx__c_weight {
    const char *name; /* of the member */
    cfx_dtype dtype;
    const char *data;
    int64_t count, at; /* elements; bytes from the start of the file */
    const char *note;  /* for the reader: dtype and shape */
} cfx__c_weight;

/* An argument or result of the function, or what it keeps between calls. */
typedef struct cfx__c_port {
    const char *name;
    cfx_dtype dtype;
    int ndim;
    const int64_t *shape;
    int64_t count;
    const char **sizes; /* where some vary: each as an expression, then the count; else NULL */
    const char *first;  /* of a state: the weight that it begins as */
    cfx_value sample;   /* the input of the sample, or the state at first; of a result, what the
                           interpreter gives for it; bad: none */
} cfx__c_port;

typedef struct cfx__c_ports {
    int n;
    cfx__c_port *of;
} cfx__c_ports;

enum { CFX__C_SIZES = 8, CFX__C_TAKES = 64 };

/* A size of the inputs that is a symbol of the program's. */
typedef struct cfx__c_size {
    const char *symbol;
    const char *name; /* in the text; NULL: it is one number */
    int64_t low, high, sample;
    bool chosen;          /* the program has no upper end for it */
    bool sampled;         /* the inputs that are given have the sample's size */
    bool raised, lowered; /* its ends: beyond them the text would be another */
} cfx__c_size;

/* Memory that may be outgrown by sizes within their ranges: bytes, as an expression. */
typedef struct cfx__c_limit {
    const char *bytes;
    int64_t room;
} cfx__c_limit;

/* What is written at a point: a value for each size. */
typedef struct cfx__c_take {
    int64_t at[CFX__C_SIZES];
    const char *text, *helpers;
    const int64_t *ports; /* sizes of inputs and results, of each its count behind them */
    int nrooms;
    const int64_t *rooms; /* bytes of what has a place, in order */
    uint64_t weights;     /* a number that those of others differ from */
    int nsizes;
    const int64_t *sizes; /* of what every node gives */
} cfx__c_take;

/* A piece of the arena, in use from the beginning of one kernel to the end of another. */
typedef struct cfx__c_room {
    int64_t bytes, at;
    int first, last; /* kernels of the unit, while that is written; then times */
    const struct cfx__c_unit *unit;
} cfx__c_room;

struct cfx__c;
struct cfx__c_unit;
struct cfx__c_walk;

/* Where the text is not a file of C but kernels of a card, each of which is a walk that stands in
 * no other: what differs is written by these. Lines outside of a kernel are a mistake there, which
 * the card notes (`loose`): such a call has no form on it. */
typedef struct cfx__c_card {
    bool inside; /* a kernel is being written */
    bool loose;  /* something stood outside of one */
    void (*pointer)(struct cfx__c *c, const cfx__c_ref *r, const char *name, bool written);
    /* A kernel begins: a thread for each element of the walk, or some for each row of `rows`, whose
     * elements go from `by` to the next in steps of so many; its end. */
    void (*open)(struct cfx__c *c, const struct cfx__c_walk *w);
    void (*open_rows)(struct cfx__c *c, const struct cfx__c_walk *rows,
                      const struct cfx__c_walk *row, bool along);
    void (*close)(struct cfx__c *c);
    /* The elements of a row, shared among its threads; "sum1" of all of those becomes one; what one
     * thread of a row does. */
    void (*open_row)(struct cfx__c *c, const struct cfx__c_walk *row);
    void (*close_row)(struct cfx__c *c);
    void (*fold)(struct cfx__c *c, cfx__loop_fold how, const char *name);
    void (*open_once)(struct cfx__c *c);
} cfx__c_card;

typedef struct cfx__c {
    cfx_compile_options o;
    cfx__c_card *card;    /* NULL: a file of C */
    cfx_program *program; /* made ready; NULL: a plan alone */
    const char *name;     /* what symbols begin with; "MODEL" in macros */
    const char *upper;
    cfx__text out;     /* functions of the model */
    cfx__text helpers; /* functions that those share */
    cfx__arena memory; /* of refs */
    int indent;
    cfx__map names;    /* taken: keys are of the scope */
    cfx__map helped;   /* helper texts that are written, to their names */
    int nsizes, nvary; /* sizes that vary come first */
    int64_t points;    /* of their ranges, all in all or very many; at so many the text was */
    int64_t compared;  /* written and compared */
    cfx__c_size sizes[CFX__C_SIZES];
    VEC(cfx__c_room) rooms;   /* of the arena */
    VEC(cfx__c_limit) limits; /* what sizes that vary are held against */
    VEC(const char *) taps;   /* names of results that are taps, the last ones */
    VEC(void *) blocks;       /* weights that were packed */
    VEC(cfx__c_weight) weights;
    cfx__c_ports inputs, outputs, states;
    int64_t arena;               /* bytes */
    struct cfx__c_unit *writing; /* whose kernel is being written; NULL: none's */
    int64_t scratch;             /* the room of what that kernel needs for itself; -1: none yet */
    int clock;                   /* kernels that were begun, those of sub-graphs too */
    VEC(cfx__plan *) plans;      /* of sub-graphs; counted */
    VEC(const char *) problems;  /* "node: why" */
} cfx__c;

/* A plan that is written out: of the program, or of a sub-graph. */
typedef struct cfx__c_unit {
    cfx__c *c;
    const cfx__plan *plan;
    cfx__c_refs *refs; /* by slot */
    int slot;          /* of the kernel that is being written */
    cfx__plan_lives *lives; /* while places are found */
    int64_t *room;          /* by slot: its room; -1: none */
    int *begin, *end;       /* by slot: times, of kernels that were written */
    int before;             /* the time at which its first kernel begins, less 1 */
} cfx__c_unit;

/* ---- names (names.c) ------------------------------------------------------------------------- */

/* A C identifier made of a name of the program's, never a word that C or libm has; scope. */
const char *cfx__c_identifier(const char *name);
/* The same, one that is not taken yet in `taken` (with this prefix in the key); scope. */
const char *cfx__c_unique(cfx__map *taken, const char *space, const char *name);
/* "mlp_fc1": a function of the file, which nothing else in it is called; scope. */
const char *cfx__c_symbol(struct cfx__c *c, const char *stem);
/* An argument or result, or a size that varies: not a name that the functions which have those as
 * variables need, nor one that differs from another's in large letters alone; scope. */
const char *cfx__c_port_name(struct cfx__c *c, const char *name);
/* Text for a comment: on one line, and without an end of comment; scope. */
const char *cfx__c_comment(const char *text);
/* "float", "int64_t": how a dtype lies in memory; NULL: none of C's. */
const char *cfx__c_type(cfx_dtype d);
/* The type that values of a dtype are computed in: halves are floats. */
const char *cfx__c_value_type(cfx_dtype d);
/* The dtype of the two numbers that a complex one is made of; another dtype itself. */
cfx_dtype cfx__c_part(cfx_dtype d);
/* A number as a C constant of the dtype's value type; scope. */
const char *cfx__c_number(cfx_dtype d, double f, int64_t i);
/* The same in a list, where a sign needs no parentheses; scope. */
const char *cfx__c_listed(const char *number);
/* The only element of a tensor so, or element i of a contiguous one; scope. */
const char *cfx__c_element(const cfx_tensor *t, int64_t i);

/* ---- text (text.c) --------------------------------------------------------------------------- */

/* A line of the function that is written; several behind which a brace opens, and its end. */
void cfx__c_line(cfx__c *c, const char *fmt, ...) CFX_PRINTF(2, 3);
void cfx__c_open(cfx__c *c, const char *fmt, ...) CFX_PRINTF(2, 3);
void cfx__c_block(cfx__c *c); /* a brace alone */
void cfx__c_close(cfx__c *c);
/* Loops over the elements (row, col) of a matrix, and their end. */
void cfx__c_open_elements(cfx__c *c, int64_t rows, int64_t cols);
void cfx__c_close_elements(cfx__c *c);
/* Appends a text with a name in the places of @. */
void cfx__c_put_named(cfx__text *t, const char *text, const char *name);
/* "model_product": what a function of src/compile/kernels is called here; scope. Those that the
 * text names are written out with it (kernels.h). */
const char *cfx__c_kernel(const cfx__c *c, const char *function);
/* Takes out what a person would not have written (tidy.c). */
void cfx__c_tidy(cfx__text *text);
/* A helper function of this text, @ in which is its name; the name. One for each text; scope. */
const char *cfx__c_helper(cfx__c *c, const char *stem, const char *text);
/* A node cannot be written: noted, and told at the end. */
void cfx__c_refuse(cfx__c_unit *u, const char *fmt, ...) CFX_PRINTF(2, 3);

/* A value converted from one dtype to another; and an element of memory read, or stored. Scope. */
const char *cfx__c_convert(cfx__c *c, const char *text, cfx_dtype from, cfx_dtype to);
const char *cfx__c_load(cfx__c *c, const char *pointer, const char *at, cfx_dtype d);
const char *cfx__c_store(cfx__c *c, const char *text, cfx_dtype d);

/* ---- refs (memory.c) ------------------------------------------------------------------------- */

/* Finds the places of everything: fills u->refs. */
void cfx__c_place(cfx__c_unit *u);
/* Before that: a slot is made at `to`, unless it lies otherwise, is a look into another's memory or
 * is made elsewhere already. */
void cfx__c_place_at(cfx__c_unit *u, int slot, cfx__c_ref to);
void cfx__c_put_ref(cfx__c_unit *u, int slot, cfx__c_ref r); /* wherever that is */
/* The slot that makes the memory of slot s as it is; whether a slot makes memory of its own, for
 * one tensor that the plan gave no place. */
int cfx__c_maker(const cfx__plan *p, int s);
bool cfx__c_is_made_here(const cfx__plan *p, int s);
/* The values of a list or tuple; NULL: it is none. */
const cfx_list *cfx__c_several(cfx_value v);
/* What a slot gives; a constant is noted as a weight now. */
const cfx__c_refs *cfx__c_slot(cfx__c_unit *u, int slot);
/* The tensor that an argument is: of a slot, or a constant. NULL where it is none. */
const cfx__c_ref *cfx__c_arg(cfx__c_unit *u, cfx_value v);
/* The value of an argument where it is known: constants; bad where it is not. */
cfx_value cfx__c_known(const cfx__c_unit *u, cfx_value v);
/* A ref to a constant tensor, noted as a weight under this name. */
const cfx__c_ref *cfx__c_constant(cfx__c *c, cfx_tensor *t, const char *name);
/* What the file calls the parameter that a node is, or is a view of; `otherwise`: it is none. */
const char *cfx__c_parameter_name(const cfx__c_unit *u, cfx_value v, const char *otherwise);
/* Declares pointers: "const float *x = c->w->weight;". */
void cfx__c_pointer(cfx__c *c, const cfx__c_ref *r, const char *name, bool written);
/* A ref of its own shape and strides, `of` aside. */
cfx__c_ref *cfx__c_ref_like(cfx__c *c, const cfx__c_ref *of, int ndim, const int64_t *shape,
                            const int64_t *stride);
/* Shape and strides of a tensor, which is nowhere yet. */
const cfx__c_ref *cfx__c_shape_ref(cfx__c *c, const cfx_tensor *t);
bool cfx__c_is_contiguous(const cfx__c_ref *r);
/* Whether kernel `by` may write its result over slot `a`, which it is an update of. */
bool cfx__c_updates(const cfx__c_unit *u, int by, int a);
/* Whether two refs begin at the same element. */
bool cfx__c_is_there(const cfx__c_ref *a, const cfx__c_ref *b);
int64_t cfx__c_count(const cfx__c_ref *r);

/* ---- rooms (rooms.c) ------------------------------------------------------------------------- */

/* Memory of the arena for kernels `first` to `last` of the unit, or for the one that is being
 * written: the number of the room. */
int64_t cfx__c_room_for(cfx__c_unit *u, int64_t bytes, int first, int last);
int64_t cfx__c_room_now(cfx__c_unit *u, int64_t bytes);
/* The room has so many bytes, and is in use from `first` to `last`, too. */
void cfx__c_room_keep(cfx__c *c, int64_t number, int64_t bytes, int first, int last);
/* "c->arena + 128", so many bytes behind the beginning of a room; scope. */
const char *cfx__c_room_text(int64_t number, int64_t at);
/* What the kernel that is being written needs for itself: at least so many bytes; and a place in
 * it: "(c->arena + 128)"; scope. */
void cfx__c_scratch(cfx__c *c, int64_t bytes);
const char *cfx__c_scratch_at(cfx__c *c, int64_t at);
/* Before a kernel of a unit is written, and behind it. */
typedef struct cfx__c_kernel_time {
    cfx__c_unit *u;
    int slot;
    cfx__c_unit *writing; /* around it */
    int64_t scratch;
} cfx__c_kernel_time;
void cfx__c_kernel_begin(cfx__c_unit *u, cfx__c_kernel_time *t);
void cfx__c_kernel_end(const cfx__c_kernel_time *t);
/* Before the kernels of a unit are written, and behind them. */
void cfx__c_unit_begin(cfx__c_unit *u);
void cfx__c_unit_end(cfx__c_unit *u);
/* Finds where rooms lie, which the text says then, and the size of the arena. */
void cfx__c_rooms_place(cfx__c *c);

/* ---- walks (walk.c) -------------------------------------------------------------------------- */

enum { CFX__C_WALK_REFS = 32 };

/* Nested loops over a shape, in which tensors that are broadcast to it are indexed. */
typedef struct cfx__c_walk {
    int ndim, n;
    int64_t shape[CFX_MAX_DIMS];
    int64_t stride[CFX__C_WALK_REFS][CFX_MAX_DIMS];
    int first;   /* number of the first loop variable */
    bool serial; /* rounds depend on each other, or share scratch */
} cfx__c_walk;

cfx__c_walk cfx__c_walk_over(int ndim, const int64_t *shape);
/* Adds a tensor, whose dims are the last of the shape; its number in the walk. */
int cfx__c_walk_add(cfx__c_walk *w, const cfx__c_ref *r);
int cfx__c_walk_strides(cfx__c_walk *w, int ndim, const int64_t *shape, const int64_t *stride);
/* Puts loops in the order in which tensor number `by` lies, and adjacent ones together. */
void cfx__c_walk_settle(cfx__c_walk *w, int by);
/* Writes the heads of the loops; their ends. */
void cfx__c_walk_open(cfx__c *c, const cfx__c_walk *w);
void cfx__c_walk_close(cfx__c *c, const cfx__c_walk *w);
int64_t cfx__c_walk_count(const cfx__c_walk *w); /* rounds, all in all */
/* "i * 64 + j": where tensor number k is; scope. */
const char *cfx__c_at(const cfx__c_walk *w, int k);
/* The name of loop variable number i; scope. */
const char *cfx__c_var(int i);

/* ---- expressions (expr.c) -------------------------------------------------------------------- */

typedef struct cfx__c_term {
    const char *text; /* a name or a constant */
    cfx_dtype dtype;  /* its value type is that of this */
} cfx__c_term;

/* Whether an expression of a step has a form in C; on a card, which has none of the functions that
 * are written out with a file. */
bool cfx__c_expr_known(const char *expr, bool card);
/* The expression with its operands and numbers in place, of dtype `gives`; what it needs before it
 * is written as lines, whose names begin with `stem`. Scope. */
const char *cfx__c_expr(cfx__c *c, const char *stem, const char *expr, int n, const cfx__c_term *in,
                        const double *f, const int64_t *i, cfx_dtype gives);

/* ---- kernels --------------------------------------------------------------------------------- */

bool cfx__c_loop_known(const cfx__loop *l, bool card); /* loop.c */
void cfx__c_loop(cfx__c_unit *u, const cfx__plan_kernel *k);
/* The same with the memory of each lane; numbers: by lane, what it holds where that is one number
 * that is known, or NULL. */
void cfx__c_loop_put(cfx__c_unit *u, const cfx__loop *l, const cfx__c_ref *const *lanes,
                     const char *const *numbers);
bool cfx__c_layer_known(const cfx__layer *l); /* layer.c */
void cfx__c_layer(cfx__c_unit *u, const cfx__plan_kernel *k);
void cfx__c_call_product(cfx__c_unit *u, const cfx__plan_kernel *k);
/* What an operator of an epilogue does to a number; false where it does not say. */
bool cfx__c_post(const cfx__post *post, cfx__loop_note *note);
/* Whether a call has a form in C, whatever its arguments; and it. call.c has the table. */
bool cfx__c_call_known(const cfx_op *op);
bool cfx__c_call_is_product(const cfx_op *op); /* or a convolution */
/* Whether a call changes some elements of its first argument, and none where its result lies there
 * but those. */
bool cfx__c_call_updates(const cfx_op *op);
/* Why calls of an operator can have no form: random numbers, data; NULL: they may. */
const char *cfx__c_reason(cfx_op *op);
void cfx__c_call(cfx__c_unit *u, const cfx__plan_kernel *k);
/* Whether the form of a node's operator takes the node; else it is taken apart (call.c). */
bool cfx__c_takes(const cfx_program *p, const cfx_node *n);
void cfx__c_higher(cfx__c_unit *u, const cfx__plan_kernel *k); /* higher.c */
/* A tensor of the shape of r that lies so, in a room of the kernel that is being written: a copy of
 * it, or not yet. */
const cfx__c_ref *cfx__c_own(cfx__c_unit *u, const cfx__c_ref *r, cfx_memory_format format,
                             bool copied);
/* Whether numbers may be read as those of another dtype: as the parts of complex ones alone. */
bool cfx__c_may_look(const cfx__c_ref *r, cfx_dtype as);
/* Copies a tensor to another of its shape. */
void cfx__c_copy(cfx__c *c, const cfx__c_ref *to, const cfx__c_ref *from);
/* The path of the module that a node is of; "" for the outermost. Scope. */
const char *cfx__c_module_of(const cfx_node *n);
/* Writes the kernels of a plan; that of one slot, which computes something. */
void cfx__c_unit_put(cfx__c_unit *u);
void cfx__c_unit_kernel(cfx__c_unit *u, int slot);

/* ---- weights (weights.c) --------------------------------------------------------------------- */

/* The number of a weight: the same for the same numbers. data is kept until all is written. */
int cfx__c_weight_add(cfx__c *c, const char *name, cfx_dtype d, int64_t count, const void *data,
                      const char *note);
/* The same as text: "c->w->fc1_weight" of stem "fc1" and what "weight"; scope. */
const char *cfx__c_weight_text(cfx__c *c, const char *stem, const char *what, cfx_dtype d,
                               int64_t count, const void *data, const char *note);
/* What is said of a weight that is packed: "f32[8, 4], packed"; scope. */
const char *cfx__c_packed_note(cfx_dtype d, const cfx_tensor *of);
/* Memory for a weight that is packed, until all is written. */
void *cfx__c_block_of(cfx__c *c, int64_t bytes);
void cfx__c_weights_struct(cfx__c *c, cfx__text *header);
void cfx__c_weights_inline(cfx__c *c, cfx__text *source);
void cfx__c_weights_loader(cfx__c *c, cfx__text *source);
void cfx__c_weights_file(const cfx__c *c, FILE *file);
int64_t cfx__c_weights_bytes(const cfx__c *c);

uint64_t cfx__c_weights_number(const cfx__c *c); /* of all bytes; others have another */

/* ---- sizes that vary (sizes.c, sweep.c, ranges.c, merge.c) ----------------------------------- */

/* Finds sizes and their ranges. The sample: `given` (NULL: none) where its sizes are in range, else
 * zeros; NULL, with an error. */
cfx_list *cfx__c_sizes_find(cfx__c *c, const cfx_program *p, const cfx_list *given);
/* The value of a size at a point; false where it has none. */
bool cfx__c_size_at(const cfx__c *c, const int64_t *at, cfx_value v, int64_t *out);
/* The caller's inputs at a point, in flattened order: zeros, or fakes; scope. */
cfx_list *cfx__c_inputs_at(const cfx__c *c, const cfx_program *p, const int64_t *at, bool fake);
/* Point number n: 0 is all at their largest. False where there are no more: all have been given. */
bool cfx__c_point(const cfx__c *c, int n, int64_t *at);
/* Points that are looked at when some are known to be right (sweep.c). */
typedef struct cfx__c_sweep {
    const cfx__c *c;
    int64_t all, most, next; /* points of the ranges; that are looked at; the next one's number */
    int nnear;
    const int64_t *near; /* where sizes meet numbers of the program, CFX__C_SIZES each */
} cfx__c_sweep;
/* As many points as `work` allows for, a node of the program costing 1; at least `fewest`. */
cfx__c_sweep cfx__c_sweep_of(cfx__c *c, int64_t work, int64_t fewest);
bool cfx__c_sweep_next(cfx__c_sweep *s, int64_t *at);
/* Where two texts differ in more than numbers: the node; NULL: nowhere. Scope. */
const char *cfx__c_apart(const char *a, const char *b);
/* Makes c->out and the ports those of all sizes, from what is written at several points, the first
 * of which is c's own. False, with problems. */
bool cfx__c_merge(cfx__c *c, int n, const cfx__c_take *const *takes);
/* The functions alone as one text, c as it is; scope. NULL, with a problem. */
const char *cfx__c_merged(cfx__c *c, int n, const cfx__c_take *const *takes);
/* Whether nodes give, at points `first` to n, sizes that follow from those at the points before,
 * where these have an expression. */
bool cfx__c_follows(cfx__c *c, int n, int first, const cfx__c_take *const *takes);
/* The least size of a range that is a point: sizes of 1 are tried when all else is done. */
int64_t cfx__c_least(const cfx__c_size *s);

/* Whether nodes have sizes that follow from those at some points (proof.c). */
typedef struct cfx__c_proof {
    cfx__c *c;
    const cfx_program *source;
    bool whole; /* weights are no fakes */
    int n;      /* points that others are held against, the first ones */
    cfx__c_take takes[CFX__C_TAKES];
} cfx__c_proof;
/* Begins with points that were taken; false where the program cannot be run without its inputs. */
bool cfx__c_proof_begin(cfx__c_proof *p, cfx__c *c, const cfx_program *source, int n,
                        const cfx__c_take *known);
/* Whether they do at a point; and the first point of the ranges at which they do not, false where
 * there is none: all were looked at, or very many. */
bool cfx__c_proof_holds(cfx__c_proof *p, const int64_t *at);
bool cfx__c_find_stray(cfx__c_proof *p, int64_t *at);

/* ---- whole programs -------------------------------------------------------------------------- */

extern const cfx__plan_target cfx__plan_c; /* target.c */
/* An operator and what it is made of, as the decompose column of a row says it. */
typedef struct cfx__c_parts {
    const cfx_op *op;
    cfx_op_fn *fn;
} cfx__c_parts;
/* What an operator is made of for C; NULL: nothing but what its row says (parts.c). */
cfx_op_fn *cfx__c_parts_of(const cfx_op *op);
/* The calls that an operator is made of, by that table or by its row; NULL: not known. */
cfx_op_fn *cfx__c_made_of(const cfx_op *op);
/* The program that is written out; integers: what rounds to bytes, and back, stays for layers in
 * integers, and has no form elsewhere. Scope. Bad, with an error (ready.c). */
cfx_program *cfx__c_ready(const cfx_program *p, bool integers);
bool cfx__c_rounds(cfx_op *op); /* to integers, or back */
/* A program that is being written. */
typedef struct cfx__c_job {
    cfx__c c;
    const cfx_program *source; /* as it was given */
    cfx_value inputs;          /* of all placeholders, a tuple */
    bool *kept;                /* by input: a buffer or weight that the program writes to */
    int *state;                /* by input: its number among the states; -1: none */
    const cfx__plan *plan;
    cfx__c_unit unit;
} cfx__c_job;

/* What placeholders take, of the caller's inputs in flattened order; scope. */
cfx_value cfx__c_placeholders(cfx_program *p, const cfx_list *flat);
/* Fills c.out for inputs in flattened order, be they fakes; false, with an error (write.c). */
bool cfx__c_write(cfx__c_job *w, const cfx_list *flat);
/* The same for sizes that vary, at points of their ranges, which become narrower where the text is
 * not the same (ranges.c). */
bool cfx__c_write_sizes(cfx__c_job *w);
/* The inputs of the sample, and what the interpreter gives for them. */
bool cfx__c_samples(cfx__c_job *w, const cfx_list *sample);
/* Fails with the problems that were noted. */
void cfx__c_fail(const cfx__c *c);
void cfx__c_job_end(cfx__c_job *w);
/* Header and source of what is in c (file.c). */
void cfx__c_header(cfx__c *c, cfx__text *header);
void cfx__c_source(cfx__c *c, cfx__text *source, const char *header_name, const char *bin_name);
const char *cfx__c_upper(const char *name);
/* What a shared object tells of itself (library.c). */
void cfx__c_library(const cfx__c *c, cfx__text *source);
/* NAME_test and main (main.c). */
void cfx__c_test(const cfx__c *c, cfx__text *source);
void cfx__c_main(const cfx__c *c, cfx__text *source, const char *bin_name);

#endif
