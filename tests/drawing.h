/* A program that is being drawn: between programs.c, which has single calls, and what is made of
 * several (drawn_layers.c, drawn_control.c). */
#ifndef CFX_TEST_DRAWING_H
#define CFX_TEST_DRAWING_H

#include "programs.h"

#include "dispatch/dispatch.h"

enum { DRAWN_VALUES = 64, DRAWN_SIZES = 24 };

/* A tensor that calls can be given. */
typedef struct {
    cfx_node *node;
    cfx_tensor *fake;
} operand;

/* A size, or what was computed with sizes, and what it is for the inputs there are. */
typedef struct {
    cfx_node *node;
    int64_t value;
} drawn_size;

typedef struct {
    random_program p;
    bool wide; /* see PROGRAMS_WIDE */
    bool deep; /* see PROGRAMS_DEEP */
    bool fitted; /* see PROGRAMS_FITTED */
    bool large; /* see PROGRAMS_LARGE */
    bool varied; /* see PROGRAMS_VARIED */
    int n, weights, bodies, depth, n_sizes;
    operand values[DRAWN_VALUES];
    drawn_size sizes[DRAWN_SIZES];
} drawing;

static inline bool chance(uint32_t in) { return test_draw(in) == 0; }
static inline cfx_value node(const operand *o) { return cfx_node_value(o->node); }

/* Whether a value has more elements than a program is to compute; in programs of large tensors
 * those in lists, and the lists, are looked at, too. */
static inline bool draw_is_too_large(const drawing *d, cfx_value v) {
    bool any = v.tag == CFX_TAG_TENSOR && cfx_as_tensor(v)->numel > (d->large ? 1 << 17 : 4096);
    if (!d->large || (v.tag != CFX_TAG_TUPLE && v.tag != CFX_TAG_LIST))
        return any;
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        any |= draw_is_too_large(d, cfx_as_list(v)->items[i]);
    return any || cfx_as_list(v)->len > 200;
}

/* A tensor of a shape: fractions, some of them special; whole numbers for integers. Scope. */
cfx_tensor *draw_tensor(cfx_dtype dtype, int ndim, const int64_t *shape);
/* What a node gives can be given to calls from now on, where it is a tensor. */
void draw_value(drawing *d, cfx_node *n, cfx_value v);
/* A parameter or buffer, read by a node of its own. Parameters are floats. */
operand *draw_weight(drawing *d, cfx_tensor *t, bool buffer);
/* One there is, by another name: all of it, or a part that is a buffer. */
operand *draw_twin(drawing *d);
/* The same numbers, lying otherwise in memory; alone: none of them where another one is. */
cfx_tensor *draw_laid_out(cfx_tensor *t, bool alone);
operand *draw_new_weight(drawing *d, cfx_dtype dtype, int ndim, const int64_t *shape);
/* An operand; later ones more often. `like`: one that broadcasts with it, where there is one;
 * want: of that dtype, CFX_DTYPE_COUNT for any. */
operand *draw_operand(drawing *d, const cfx_tensor *like, int want);
/* A call of an overload on values and nodes, where its shape rule takes them: a node, and a value
 * for each tensor that it gives. Whether it was taken. */
bool draw_call(drawing *d, cfx_op *op, int n, const cfx_value *args);
#define CALL(d, op, ...)                                                                           \
    draw_call(d, op, (int)(sizeof((cfx_value[]){__VA_ARGS__}) / sizeof(cfx_value)),                \
              (cfx_value[]){__VA_ARGS__})
/* The same with arguments that are drawn by the types in its schema. */
bool draw_op(drawing *d, cfx_op *op);
/* The arguments alone; whether all could be drawn. */
bool draw_arguments(drawing *d, cfx_op *op, cfx_value args[CFX_MAX_ARGS]);
/* What a call would give on fakes; bad, without an error, where its shape rule refuses. Scope. */
cfx_value draw_tried(drawing *d, cfx_op *op, int n, const cfx_value *args);
/* One argument of a schema; self: the first tensor that was drawn, NULL: there is none yet. */
cfx_value draw_argument(drawing *d, const cfx__schema *s, const cfx__schema_arg *a,
                        const cfx_tensor *self);
/* An argument with fakes for its nodes. */
cfx_value draw_faked(const drawing *d, cfx_value v);
/* A view, or an operator that is seen often; nothing is written to. */
bool draw_plain(drawing *d);
/* The in-place form, where there is one; else the operator. */
cfx_op *draw_written(cfx_op *op);

/* Each adds some calls; whether it could. */
bool draw_strided(drawing *d); /* a view by sizes, strides and an offset, overlapping too */
bool draw_linear(drawing *d);
bool draw_conv(drawing *d);
bool draw_batch_norm(drawing *d);
bool draw_layer_norm(drawing *d);
bool draw_attention(drawing *d);
bool draw_embedding(drawing *d);
bool draw_cache(drawing *d);   /* written at a position which is counted */
bool draw_control(drawing *d); /* a branch or a loop */
bool draw_region(drawing *d);  /* calls under autocast */
bool draw_recurrent(drawing *d);
bool draw_written_to(drawing *d, cfx_op *op); /* a call with out=, or in place */
bool draw_pool(drawing *d);
bool draw_other_conv(drawing *d);  /* of rows and volumes, transposed, strided */
bool draw_other_norm(drawing *d);  /* of groups and instances, in training mode too */
bool draw_masked_attention(drawing *d);
bool draw_counted(drawing *d); /* what has as many rows as data tell, and what is made of it */
bool draw_sized(drawing *d); /* a call that is given sizes of its operands */
/* Numbers among the arguments become sizes that are as large. */
void draw_size_arguments(drawing *d, const cfx__schema *s, int n, cfx_value *args);
bool draw_fitting(drawing *d, cfx_op *op); /* a call on tensors that are made to fit */

#endif
