/* Nodes of the tape and what hangs on tensors: making, naming, freeing. */
#include "grad.h"

#include "../ops/numbered.h"

#include <ctype.h>

static void *state_make(void) { return cfx__alloc0(sizeof(cfx__grad_state)); }

static void state_free(void *p) {
    cfx__grad_state *s = p;
    for (void *block = s->spare, *next; block; block = next) {
        next = *(void **)block;
        cfx__free(block);
    }
    cfx__free(s);
}

cfx__grad_state *cfx__grad_state_get(void) {
    return cfx__ctx_slot(CFX__SLOT_GRAD, state_make, state_free);
}

/* Nodes of common size are recycled: a tape is made and dropped with every step of a training. */
enum { NODE_BLOCK = 512, NODE_SPARES = 1024 };

static void *node_block(size_t size, bool *spare) {
    cfx__grad_state *s = cfx__grad_state_get();
    *spare = size <= NODE_BLOCK;
    if (!*spare || !s->spare)
        return cfx__alloc(*spare ? NODE_BLOCK : size);
    void *block = s->spare;
    s->spare = *(void **)block;
    s->nspare--;
    return block;
}

static void node_block_free(cfx__grad_node *n) {
    cfx__grad_state *s = cfx__ctx_tls.slot[CFX__SLOT_GRAD].data; /* NULL: the thread is ending */
    if (!n->spare || !s || s->nspare >= NODE_SPARES) {
        cfx__free(n);
        return;
    }
    *(void **)n = s->spare;
    s->spare = n;
    s->nspare++;
}

/* ---- tapes ----------------------------------------------------------------------------------- */

static void take_off_retain(cfx__tape *tape) {
    cfx__grad_node *n = tape->node;
    for (size_t i = 0; tape->retains && n && i < n->hooks.len; i++)
        if (n->hooks.data[i].retain == tape) {
            memmove(&n->hooks.data[i], &n->hooks.data[i + 1],
                    (n->hooks.len - i - 1) * sizeof *n->hooks.data);
            n->hooks.len--;
            return;
        }
}

static void tape_free(void *p) {
    cfx__tape *tape = p;
    take_off_retain(tape);
    if (tape->node && tape->node->leaf == tape)
        tape->node->leaf = NULL;
    cfx_drop(tape->node);
    cfx_drop(tape->grad);
    cfx__free(tape);
}

static const cfx__obj_type tape_type = {.name = "tape", .free = tape_free, .frees_itself = true};

cfx__tape *cfx__tape_of(cfx_tensor *t) {
    if (!t->tape) {
        cfx__tape *tape = cfx__obj_make(&tape_type, sizeof *tape);
        tape->owner = t;
        tape->leaf = true;
        t->tape = tape;
    }
    return t->tape;
}

void cfx__tape_set(cfx_tensor *t, cfx__grad_node *node, int output) {
    cfx__tape *tape = cfx__tape_of(t);
    bool retains = tape->retains;
    take_off_retain(tape);
    if (tape->node && tape->node->leaf == tape)
        tape->node->leaf = NULL;
    cfx_keep(node);
    cfx_drop(tape->node);
    tape->node = node;
    tape->output = output;
    tape->leaf = false;
    tape->retains = false;
    tape->version = t->storage ? t->storage->version : 0;
    t->head.flags |= CFX__GRAD;
    if (retains)
        cfx_retain_grad_from((cfx_site){0}, t);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A tape may be as long as the program ran, so nodes are freed from a list, not by recursion. What
 * a node saved holds no node but one that it has an edge to. */
static void leave_node(cfx__grad_node *n, cfx__grad_node **list) {
    if (!n || (__atomic_load_n(&n->head.refs, __ATOMIC_ACQUIRE) != 1 &&
               __atomic_sub_fetch(&n->head.refs, 1, __ATOMIC_ACQ_REL) > 0))
        return;
    n->next = *list;
    *list = n;
}

static void drop_saved(cfx__grad_node *n) {
    for (int i = 0; i < n->nin + n->nout; i++)
        if (n->kept[i].tensor) {
            cfx_drop(n->kept[i].tensor);
            n->kept[i].tensor = NULL;
        }
}

static void node_free(void *p) {
    cfx__grad_node *list = p;
    list->next = NULL;
    while (list) {
        cfx__grad_node *n = list;
        list = n->next;
        drop_saved(n);
        for (int i = 0; i < n->nin; i++)
            leave_node(n->kept[i].to, &list);
        leave_node(n->inner, &list);
        for (int i = 0; i < n->nargs; i++)
            if (!n->args[i].spare)
                cfx_value_drop(n->args[i]);
        for (size_t i = 0; i < n->hooks.len; i++)
            cfx_drop(n->hooks.data[i].object);
        VEC_FREE(n->hooks);
        node_block_free(n);
    }
}

static const cfx__obj_type node_type = {.name = "grad_fn", .free = node_free, .frees_itself = true};

static size_t lined_up(size_t size) { return (size + 15) & ~(size_t)15; }

/* Room for a node and all that it remembers, in one block. */
static cfx__grad_node *node_room(int nargs, int nin, int nout, int ndims) {
    size_t head = lined_up(sizeof(cfx__grad_node)), args = (size_t)nargs * sizeof(cfx_value),
           kept = lined_up((size_t)(nin + nout) * sizeof(cfx__grad_kept));
    bool spare;
    char *block = node_block(head + args + kept + (size_t)ndims * 2 * sizeof(int64_t), &spare);
    cfx__grad_node *n = (cfx__grad_node *)block;
    memset(n, 0, sizeof *n);
    n->spare = spare;
    n->head.refs = 1;
    n->head.type = &node_type;
    n->nargs = nargs;
    n->nin = nin;
    n->nout = nout;
    n->args = (cfx_value *)(block + head);
    n->kept = (cfx__grad_kept *)(block + head + args);
    memset(n->kept, 0, (size_t)(nin + nout) * sizeof(cfx__grad_kept));
    n->seq = ++cfx__grad_state_get()->seq;
    return n;
}

/* A node without arguments and with room for nin edges. */
static cfx__grad_node *plain_node(cfx__grad_node_kind kind, int nin, int nout) {
    cfx__grad_node *n = node_room(0, nin, nout, 0);
    n->kind = kind;
    if (kind == CFX__NODE_LEAF)
        n->seq = UINT64_MAX;
    return n;
}

/* Remembers the outline of t. dims has room for twice its ndim. */
static void keep_outline(cfx__grad_kept *k, const cfx_tensor *t, int64_t *dims) {
    k->dtype = t->dtype;
    k->ndim = (uint8_t)t->ndim;
    k->offset = t->offset;
    k->device = t->device;
    k->dims = dims;
    for (int i = 0; i < t->ndim; i++) {
        dims[i] = t->shape[i];
        dims[t->ndim + i] = t->stride[i];
    }
}

static bool is_list(cfx_value v) {
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return false;
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        if (cfx_as_list(v)->items[i].tag != CFX_TAG_NONE)
            return cfx_as_list(v)->items[i].tag == CFX_TAG_TENSOR;
    return false;
}

static int count_tensors(int n, const cfx_value *v, int *ndims) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (v[i].tag == CFX_TAG_TENSOR) {
            count++;
            *ndims += cfx_as_tensor(v[i])->ndim;
        } else if (is_list(v[i])) {
            for (int64_t k = 0; k < cfx_as_list(v[i])->len; k++)
                if (cfx_as_list(v[i])->items[k].tag == CFX_TAG_TENSOR)
                    *ndims += cfx_as_tensor(cfx_as_list(v[i])->items[k])->ndim;
            count += (int)cfx_as_list(v[i])->len;
        }
    return count;
}

/* What a node saves of a tensor: an alias without tape and base, so that there is no cycle even if
 * the tensor is written to and this node becomes part of its history. One count, the caller's. */
static cfx_tensor *bare(const cfx_tensor *t) {
    size_t mark = cfx_scope_open();
    cfx_tensor *alias = cfx__tensor_alias(t, t->ndim, t->shape, t->stride, t->offset);
    alias->dtype = t->dtype;
    alias->head.flags |= t->head.flags & CFX__WRAPPED;
    cfx_keep(alias);
    cfx_scope_close(mark);
    return alias;
}

static int64_t *keep_argument(cfx__grad_node *n, cfx__grad_kept *k, cfx_value v, bool save,
                              int64_t *dims, const cfx__grad_written *w) {
    if (v.tag != CFX_TAG_TENSOR) {
        k->none = true;
        return dims;
    }
    cfx_tensor *t = cfx_as_tensor(v);
    bool written = w && t == w->self && k == n->kept;
    if (written) {
        k->to = w->to;
        k->output = w->output;
    } else if (cfx__tensor_needs_grad(t)) {
        k->to = cfx__grad_edge_of(n->at, t, &k->output);
    }
    cfx_keep(k->to);
    if (save && t->storage) {
        k->tensor = written ? cfx_keep(w->before) : bare(t);
        k->version = w && t->storage == w->self->storage && !written ? w->version
                                                                     : k->tensor->storage->version;
    }
    if (written && w->outline)
        t = w->outline;
    keep_outline(k, t, dims);
    return dims + 2 * t->ndim;
}

static int64_t *keep_result(cfx__grad_kept *k, const cfx_tensor *t, bool save, int64_t *dims) {
    if (save) {
        k->tensor = bare(t);
        k->version = t->storage ? t->storage->version : 0;
    }
    keep_outline(k, t, dims);
    return dims + 2 * t->ndim;
}

cfx__grad_node *cfx__grad_node_new(cfx_site at, cfx_op *op, const cfx_value *args, int nout,
                                   cfx_tensor *const *out, const cfx__grad_written *w) {
    cfx__schema *s = cfx__op_info_of(op)->schema;
    int nargs = s->nargs, ndims = 0, nin = count_tensors(nargs, args, &ndims);
    for (int i = 0; i < nout; i++)
        ndims += out[i] ? out[i]->ndim : 0;
    ndims += w && w->outline ? w->outline->ndim : 0;
    cfx__grad_node *n = node_room(nargs, nin, nout, ndims);
    n->op = op;
    n->at = at;
    int64_t *dims = (int64_t *)((char *)n->kept + lined_up((size_t)(nin + nout) * sizeof *n->kept));
    int next = 0;
    for (int i = 0; i < nargs; i++) {
        bool save = i < 24 && (op->saves >> i & 1);
        n->args[i] = args[i];
        n->args[i].spare = 0;
        if (args[i].tag == CFX_TAG_TENSOR) {
            n->args[i].spare = (uint32_t)next + 1;
            dims = keep_argument(n, &n->kept[next], args[i], save, dims, w);
            n->kept[next++].unchecked = s->args[i].writes;
        } else if (is_list(args[i])) {
            const cfx_list *list = cfx_as_list(args[i]);
            n->args[i] = cfx_int(list->len);
            n->args[i].spare = (uint32_t)next + 1;
            for (int64_t k = 0; k < list->len; k++, next++)
                dims = keep_argument(n, &n->kept[next], list->items[k], save, dims, w);
        } else {
            cfx_value_keep(n->args[i]);
        }
    }
    for (int i = 0; i < nout; i++, next++) {
        cfx__grad_kept *k = &n->kept[next];
        if (!out[i]) {
            k->none = true;
            continue;
        }
        dims = keep_result(k, out[i], i < 8 && (op->saves >> (24 + i) & 1), dims);
    }
    return n;
}

static bool among(const cfx_tensor *t, const cfx_list *list) {
    for (int64_t i = 0; i < list->len; i++)
        if (list->items[i].tag == CFX_TAG_TENSOR && cfx_as_tensor(list->items[i]) == t)
            return true;
    return false;
}

cfx__grad_node *cfx__grad_node_function(cfx_site at, const cfx_grad_function_options *o) {
    const cfx_list *in = cfx_as_list(o->inputs), *out = cfx_as_list(o->outputs),
                   *saved = cfx_as_list(o->saved);
    int ndims = 0, nin = (int)in->len, nout = (int)out->len;
    count_tensors(nin, in->items, &ndims);
    count_tensors(nout, out->items, &ndims);
    cfx__grad_node *n = node_room(3, nin, nout, ndims);
    int64_t *dims = (int64_t *)((char *)n->kept + lined_up((size_t)(nin + nout) * sizeof *n->kept));
    n->kind = CFX__NODE_FUNCTION;
    n->at = at;
    n->args[0] = cfx_value_keep(o->object);
    n->args[1] = cfx_value_keep(cfx_string_value(o->name ? o->name : "Function"));
    n->args[0].spare = n->args[1].spare = 0;
    n->args[2] = cfx_int(nin);
    n->args[2].spare = 1;
    for (int i = 0; i < nin + nout; i++) {
        cfx_value v = i < nin ? in->items[i] : out->items[i - nin];
        bool save = v.tag == CFX_TAG_TENSOR && among(cfx_as_tensor(v), saved);
        if (i < nin) {
            dims = keep_argument(n, &n->kept[i], v, save, dims, NULL);
        } else if (v.tag == CFX_TAG_TENSOR) {
            dims = keep_result(&n->kept[i], cfx_as_tensor(v), save, dims);
        } else {
            n->kept[i].none = true;
        }
    }
    return n;
}

/* The node of a base after the call `inner` wrote to a view of it: the first edge is the base's,
 * the others are those of the call. */
cfx__grad_node *cfx__grad_node_slices(cfx_site at, cfx_tensor *base, cfx__grad_node *inner) {
    cfx__grad_node *n = node_room(0, inner->nin, 1, 2 * base->ndim);
    int64_t *dims = (int64_t *)((char *)n->kept + lined_up((size_t)(n->nin + 1) * sizeof *n->kept));
    n->kind = CFX__NODE_SLICES;
    n->at = at;
    n->inner = cfx_keep(inner);
    if (cfx__tensor_needs_grad(base))
        n->kept[0].to = cfx_keep(cfx__grad_edge_of(at, base, &n->kept[0].output));
    keep_outline(&n->kept[0], base, dims);
    keep_outline(&n->kept[n->nin], base, dims + 2 * base->ndim);
    for (int i = 1; i < inner->nin; i++) {
        n->kept[i] = inner->kept[i];
        n->kept[i].tensor = NULL;
        cfx_keep(n->kept[i].to);
    }
    return n;
}

void cfx__grad_node_release(cfx__grad_node *n) {
    for (int i = 0; i < n->nin + n->nout; i++)
        n->released |= n->kept[i].tensor != NULL;
    drop_saved(n);
    if (n->inner)
        cfx__grad_node_release(n->inner);
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* A view whose base was written to since it was made: its history is the base's, seen through
 * as_strided. */
static void renew_view(cfx_site at, cfx_tensor *t) {
    cfx_op *op = cfx_op_find("aten::as_strided");
    size_t mark = cfx_scope_open();
    cfx_value args[] = {cfx_tensor_value(t->base), cfx_ints_value(t->ndim, t->shape),
                        cfx_ints_value(t->ndim, t->stride), cfx_int(t->offset)};
    cfx__grad_node *n = cfx__grad_node_new(at, op, args, 1, &t, NULL);
    cfx__tape_set(t, n, 0);
    cfx_drop(n);
    cfx_scope_close(mark);
}

cfx__grad_node *cfx__grad_edge_of(cfx_site at, cfx_tensor *t, int *output) {
    cfx__tape *tape = t->tape;
    bool follows =
        t->base && !(t->head.flags & CFX__NO_GRAD_VIEW) && cfx__tensor_needs_grad(t->base);
    if (follows && !cfx_tensor_is_leaf(t->base) &&
        (!tape || tape->leaf || tape->version != t->storage->version)) {
        renew_view(at, t);
        tape = t->tape;
    }
    if ((!tape || !tape->node) && (t->head.flags & CFX__GRAD)) {
        tape = cfx__tape_of(t);
        tape->node = plain_node(CFX__NODE_LEAF, 0, 1);
        tape->node->leaf = tape;
    }
    if (!tape || !tape->node)
        return NULL;
    *output = tape->output;
    return tape->node;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The number that a row says, or the place of the overload among those of its name that have a
 * gradient. */
static int number_of(cfx_op *op) {
    const cfx_fn *fn = cfx__fn_of(op);
    int number = 0, said = CFX__NUMBER_OF(op);
    if (said >= 0)
        return said;
    for (int i = 0; fn && i < fn->n; i++) {
        if (fn->ops[i] == op)
            return number;
        number += fn->ops[i]->grad != NULL;
    }
    return 0;
}

const char *cfx__grad_node_op_name(cfx_op *op) {
    const char *name = cfx__op_info_of(op)->schema->name;
    cfx__text t = {0};
    bool begins = true;
    for (const char *c = name; *c; c++) {
        if (*c != '_')
            cfx__text_putc(&t, begins && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
        begins = !isalpha((unsigned char)*c);
    }
    cfx__text_printf(&t, "Backward%d", number_of(op));
    return cfx__text_take(&t);
}

const char *cfx__grad_node_name(const cfx__grad_node *n) {
    if (n->kind == CFX__NODE_LEAF)
        return "AccumulateGrad";
    if (n->kind == CFX__NODE_SLICES)
        return "CopySlices";
    if (n->kind == CFX__NODE_FUNCTION)
        return cfx_as_text(n->args[1]);
    return n->kind == CFX__NODE_MISSING ? "NotImplemented" : cfx__grad_node_op_name(n->op);
}
