/* The backward pass: every node reachable from the roots runs once, after all that it waits for,
 * later calls first. Without recursion, and linear in the nodes and edges. Start at walk. */
#include "grad.h"

#include <cfx/ops.h>

/* The gradient of one result of a node, as far as it is added up. */
typedef struct {
    cfx_tensor *sum; /* counted */
    bool own;        /* made here: further gradients are added in place */
} bucket;

/* What a walk knows of a node. */
typedef struct {
    cfx__grad_node *node;
    int waits;       /* edges to it that have not been walked */
    int next;        /* while finding: the next edge to follow */
    bool wanted;     /* an input that was asked for lies here or behind */
    bool runs;       /* ... behind, so its formula has to run */
    bucket *in;      /* one for each result */
} task;

/* An input whose gradient was asked for. */
typedef struct {
    cfx__grad_node *node;
    int output;
    cfx_tensor *grad; /* counted */
} capture;

typedef struct {
    cfx_site at;
    int below;               /* the dispatcher's, outside: what hooks run in */
    bool keep_graph, create_graph;
    bool chosen;             /* only the gradients of captures are wanted */
    VEC(task) tasks;
    VEC(int) heap, stack;    /* of tasks */
    VEC(capture) captures;
    capture **by_node;       /* the same, sorted by node */
    int *table;              /* from node to task + 1 */
    size_t table_cap;
    cfx__arena arena;
} walk;

/* ---- from node to task ----------------------------------------------------------------------- */

static size_t place_of(const walk *w, const cfx__grad_node *n) {
    size_t i = (size_t)cfx__hash_mix(0, (uintptr_t)n) & (w->table_cap - 1);
    while (w->table[i] && w->tasks.data[w->table[i] - 1].node != n)
        i = (i + 1) & (w->table_cap - 1);
    return i;
}

static int find_task(const walk *w, const cfx__grad_node *n) {
    return w->table_cap ? w->table[place_of(w, n)] - 1 : -1;
}

static int add_task(walk *w, cfx__grad_node *n) {
    if (2 * (w->tasks.len + 1) > w->table_cap) {
        cfx__free(w->table);
        w->table_cap = w->table_cap ? 2 * w->table_cap : 64;
        w->table = cfx__alloc0(w->table_cap * sizeof *w->table);
        for (size_t i = 0; i < w->tasks.len; i++)
            w->table[place_of(w, w->tasks.data[i].node)] = (int)i + 1;
    }
    bucket *in = cfx__arena_alloc(&w->arena, (size_t)n->nout * sizeof *in);
    memset(in, 0, (size_t)n->nout * sizeof *in);
    size_t place = place_of(w, n);
    VEC_PUSH(w->tasks, ((task){.node = cfx_keep(n), .in = in}));
    w->table[place] = (int)w->tasks.len;
    return (int)w->tasks.len - 1;
}

static int compare_nodes(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)(*(capture *const *)a)->node,
              y = (uintptr_t)(*(capture *const *)b)->node;
    return (x > y) - (x < y);
}

/* The first of the captures at a node, in by_node; captures.len where there is none. */
static size_t first_capture(const walk *w, const cfx__grad_node *n) {
    size_t lo = 0, hi = w->captures.len;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((uintptr_t)w->by_node[mid]->node < (uintptr_t)n)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->captures.len && w->by_node[lo]->node == n ? lo : w->captures.len;
}

static void sort_captures(walk *w) {
    w->by_node = cfx__alloc(w->captures.len * sizeof *w->by_node + 1);
    for (size_t i = 0; i < w->captures.len; i++)
        w->by_node[i] = &w->captures.data[i];
    if (w->captures.len)
        qsort(w->by_node, w->captures.len, sizeof *w->by_node, compare_nodes);
}

/* Finds all nodes behind `root`, how many edges lead to each, and which lead to a chosen input. */
static int find_nodes(walk *w, cfx__grad_node *root) {
    int found = find_task(w, root);
    if (found >= 0)
        return found;
    found = add_task(w, root);
    VEC_PUSH(w->stack, found);
    while (w->stack.len) {
        int at = w->stack.data[w->stack.len - 1];
        cfx__grad_node *n = w->tasks.data[at].node;
        if (w->tasks.data[at].next < n->nin) {
            cfx__grad_node *to = n->kept[w->tasks.data[at].next++].to;
            int behind = to ? find_task(w, to) : 0;
            if (to && behind < 0) {
                behind = add_task(w, to);
                VEC_PUSH(w->stack, behind);
            }
            if (to)
                w->tasks.data[behind].waits++;
            continue;
        }
        w->stack.len--;
        task *t = &w->tasks.data[at];
        t->runs = !w->chosen;
        for (int i = 0; i < n->nin && !t->runs; i++)
            t->runs = n->kept[i].to && w->tasks.data[find_task(w, n->kept[i].to)].wanted;
        t->wanted = t->runs || first_capture(w, n) < w->captures.len;
    }
    return found;
}

/* ---- which is next --------------------------------------------------------------------------- */

static bool sooner(const walk *w, int a, int b) {
    return w->tasks.data[a].node->seq > w->tasks.data[b].node->seq;
}

static void push_ready(walk *w, int task_) {
    VEC_PUSH(w->heap, task_);
    size_t i = w->heap.len - 1;
    int *h = w->heap.data;
    for (; i && sooner(w, h[i], h[(i - 1) / 2]); i = (i - 1) / 2) {
        int swap = h[i];
        h[i] = h[(i - 1) / 2];
        h[(i - 1) / 2] = swap;
    }
}

static int pop_ready(walk *w) {
    int *h = w->heap.data, first = h[0];
    h[0] = h[--w->heap.len];
    for (size_t i = 0, n = w->heap.len;;) {
        size_t best = i, left = 2 * i + 1;
        if (left < n && sooner(w, h[left], h[best]))
            best = left;
        if (left + 1 < n && sooner(w, h[left + 1], h[best]))
            best = left + 1;
        if (best == i)
            return first;
        int swap = h[i];
        h[i] = h[best];
        h[best] = swap;
        i = best;
    }
}

/* Hooks are the user's code: modes and tracing see what they call. Returns what it was. */
static int outside(int below) {
    cfx__dispatch *d = cfx__dispatcher();
    int before = d->below;
    d->below = below;
    return before;
}

/* ---- adding up ------------------------------------------------------------------------------- */

static void add_to(walk *w, bucket *b, cfx_tensor *g) {
    if (!b->sum) {
        b->sum = cfx_keep(g);
        return;
    }
    size_t mark = cfx_scope_open();
    if (b->own && !w->create_graph) {
        cfx_add_(b->sum, g);
    } else {
        cfx_tensor *sum = cfx_keep(cfx_add(b->sum, g));
        cfx_drop(b->sum);
        b->sum = cfx__obj_is_bad(sum) ? NULL : sum;
        b->own = true;
    }
    cfx_scope_close(mark);
}

/* Whether the gradient may become a leaf's grad as it is: nobody else holds it, and it lies in
 * memory as the leaf does. */
static bool fits_leaf(const cfx_tensor *g, const cfx_tensor *leaf) {
    if (g->head.refs != 1 || !g->storage || g->storage->head.refs != 1 || g->base)
        return false;
    if (!cfx__tensor_is_dense(leaf))
        return cfx__tensor_is_contiguous(g);
    return !memcmp(g->stride, leaf->stride, (size_t)leaf->ndim * sizeof *g->stride);
}

static cfx_tensor *copy_for_leaf(cfx_tensor *g, const cfx_tensor *leaf) {
    if (!cfx__tensor_is_dense(leaf))
        return cfx_clone(g, CFX_KW(memory_format, cfx_contiguous_format));
    cfx_tensor *copy = cfx_empty_strided(cfx_ints_value(leaf->ndim, leaf->shape),
                                         cfx_ints_value(leaf->ndim, leaf->stride),
                                         CFX_KW(dtype, cfx_dtype_value((cfx_dtype)g->dtype)),
                                         CFX_KW(device, cfx_device_value(g->device)));
    return cfx_copy_(copy, g);
}

static void add_to_leaf(walk *w, cfx__grad_node *n, bucket *b) {
    cfx__tape *tape = n->leaf;
    if (!tape || !b->sum)
        return;
    size_t mark = cfx_scope_open();
    cfx_tensor *g = b->sum, *sum;
    if (!tape->grad && !w->create_graph && fits_leaf(g, tape->owner))
        sum = g;
    else if (!tape->grad)
        sum = w->create_graph ? cfx_clone(g) : copy_for_leaf(g, tape->owner);
    else if (w->create_graph)
        sum = cfx_add(tape->grad, g);
    else
        sum = cfx_add_(tape->grad, g);
    if (cfx_ok() && sum != tape->grad) {
        cfx_keep(sum);
        cfx_drop(tape->grad);
        tape->grad = sum;
    }
    cfx_scope_close(mark);
    for (size_t i = 0; i < n->hooks.len && n->leaf && cfx_ok(); i++)
        if (n->hooks.data[i].leaf_fn)
            CFX_SCOPE {
                int below = outside(w->below);
                n->hooks.data[i].leaf_fn(tape->owner, n->hooks.data[i].user);
                outside(below);
            }
}

/* ---- one node -------------------------------------------------------------------------------- */

static bool same_outline(const cfx_tensor *a, const cfx_tensor *b) {
    return a->dtype == b->dtype && cfx__tensor_same_shape(a, b);
}

/* The hooks of the tensors whose gradients arrived, then those whose gradients are retained. */
static void run_hooks(walk *w, task *t) {
    cfx__grad_node *n = t->node;
    int64_t last = cfx__grad_state_get()->hooks; /* hooks put on by hooks wait for the next walk */
    for (size_t i = 0; i < n->hooks.len && cfx_ok(); i++) {
        cfx__grad_hook h = n->hooks.data[i];
        bucket *b = &t->in[h.output];
        if (!h.fn || !b->sum || h.id > last)
            continue;
        size_t mark = cfx_scope_open();
        int below = outside(w->below);
        cfx_tensor *g = h.fn(b->sum, h.user);
        outside(below);
        if (g && !cfx__obj_is_bad(g) && g != b->sum) {
            if (!same_outline(g, b->sum)) {
                if (g->dtype != b->sum->dtype)
                    cfx_fail(CFX_RUNTIME_ERROR, w->at,
                             "hook '%lld' has changed the type of value (was torch.%s got "
                             "torch.%s)",
                             (long long)h.id, cfx_dtype_name((cfx_dtype)b->sum->dtype),
                             cfx_dtype_name((cfx_dtype)g->dtype));
                else
                    cfx_fail(CFX_RUNTIME_ERROR, w->at,
                             "hook '%lld' has changed the size of value", (long long)h.id);
            } else {
                cfx_keep(g);
                cfx_drop(b->sum);
                b->sum = g;
                b->own = false;
            }
        }
        cfx_scope_close(mark);
    }
    for (size_t i = 0; i < n->hooks.len && cfx_ok(); i++) {
        cfx__grad_hook h = n->hooks.data[i];
        if (!h.retain || !t->in[h.output].sum)
            continue;
        size_t mark = cfx_scope_open();
        cfx_tensor *g = t->in[h.output].sum;
        cfx_tensor *sum = h.retain->grad ? cfx_add(h.retain->grad, g) : cfx_clone(g);
        if (cfx_ok()) {
            cfx_keep(sum);
            cfx_drop(h.retain->grad);
            h.retain->grad = sum;
        }
        cfx_scope_close(mark);
    }
}

static void take_captures(walk *w, task *t) {
    for (size_t i = first_capture(w, t->node);
         i < w->captures.len && w->by_node[i]->node == t->node; i++)
        if (!w->by_node[i]->grad)
            w->by_node[i]->grad = cfx_keep(t->in[w->by_node[i]->output].sum);
}

bool cfx_set_detect_anomaly(bool on) {
    cfx__grad_state *s = cfx__grad_state_get();
    bool before = s->anomalies;
    s->anomalies = on;
    return before;
}

/* Whether what a node gave are numbers; else PyTorch's words. */
static bool are_numbers(walk *w, const cfx__grad_node *n, cfx_tensor *const *gin) {
    for (int i = 0; i < n->nin && cfx_ok(); i++)
        if (gin[i] && !cfx_tensor_is_fake(gin[i]) &&
            cfx_as_bool(cfx_item(cfx_any(cfx_isnan(gin[i]))))) {
            cfx_fail(CFX_RUNTIME_ERROR, w->at, "Function '%s' returned nan values in its %dth "
                     "output.", cfx__grad_node_name(n), i);
            return false;
        }
    return cfx_ok();
}

static void run_formula(walk *w, int at) {
    cfx__grad_node *n = w->tasks.data[at].node;
    size_t mark = cfx_scope_open();
    cfx_tensor **gin = cfx__alloc0((size_t)n->nin * sizeof *gin + 1),
               **gout = cfx__alloc0((size_t)n->nout * sizeof *gout + 1);
    bool any = false;
    for (int i = 0; i < n->nout; i++) {
        gout[i] = w->tasks.data[at].in[i].sum;
        any |= gout[i] != NULL;
    }
    if (any) {
        bool fine = cfx__grad_node_run(n, gout, gin) &&
                    (!cfx__grad_state_get()->anomalies || are_numbers(w, n, gin));
        if (!fine && n->at.file)
            cfx_error_note("in %s, of the call at %s:%d", cfx__grad_node_name(n), n->at.file,
                           n->at.line);
        for (int i = 0; i < n->nin && fine; i++)
            if (gin[i] && n->kept[i].to) {
                int to = find_task(w, n->kept[i].to);
                add_to(w, &w->tasks.data[to].in[n->kept[i].output], gin[i]);
            }
    }
    cfx__free(gin);
    cfx__free(gout);
    cfx_scope_close(mark);
}

static void run_task(walk *w, int at) {
    task *t = &w->tasks.data[at];
    cfx__grad_node *n = t->node;
    if (n->hooks.len)
        run_hooks(w, t);
    take_captures(w, t);
    if (cfx_ok() && n->kind == CFX__NODE_LEAF && !w->chosen)
        add_to_leaf(w, n, &t->in[0]);
    else if (cfx_ok() && t->runs && n->kind != CFX__NODE_LEAF)
        run_formula(w, at);
    t = &w->tasks.data[at];
    for (int i = 0; i < n->nout; i++) {
        cfx_drop(t->in[i].sum);
        t->in[i].sum = NULL;
    }
    if (t->runs && !w->keep_graph)
        cfx__grad_node_release(n);
    for (int i = 0; i < n->nin; i++)
        if (n->kept[i].to) {
            int to = find_task(w, n->kept[i].to);
            if (--w->tasks.data[to].waits == 0)
                push_ready(w, to);
        }
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct {
    cfx__grad_node *node;
    int output;
    cfx_tensor *grad;
} root;

static bool go(walk *w, size_t nroots, const root *roots) {
    cfx__dispatch *d = cfx__dispatcher();
    cfx_grad_mode before = cfx_set_grad_mode(w->create_graph ? CFX_GRAD_ON : CFX_NO_GRAD);
    cfx_site outer = d->at;
    w->below = d->below;
    if (!d->below++)
        d->at = w->at;
    sort_captures(w);
    for (size_t i = 0; i < nroots; i++)
        find_nodes(w, roots[i].node);
    for (size_t i = 0; i < nroots; i++) {
        int at = find_task(w, roots[i].node);
        add_to(w, &w->tasks.data[at].in[roots[i].output], roots[i].grad);
    }
    for (size_t i = 0; i < w->tasks.len; i++)
        if (!w->tasks.data[i].waits)
            push_ready(w, (int)i);
    while (w->heap.len && cfx_ok())
        run_task(w, pop_ready(w));
    for (size_t i = 0; i < w->tasks.len; i++) {
        for (int k = 0; k < w->tasks.data[i].node->nout; k++)
            cfx_drop(w->tasks.data[i].in[k].sum);
        cfx_drop(w->tasks.data[i].node);
    }
    VEC_FREE(w->tasks);
    VEC_FREE(w->heap);
    VEC_FREE(w->stack);
    cfx__free(w->table);
    cfx__free(w->by_node);
    cfx__arena_release(&w->arena);
    d->at = outer;
    d->below--;
    cfx_set_grad_mode(before);
    return cfx_ok();
}

/* The gradient that output i starts with. */
static cfx_tensor *first_gradient(cfx_site at, int i, cfx_tensor *out, cfx_value given) {
    if (given.tag == CFX_TAG_TENSOR) {
        cfx_tensor *g = cfx_as_tensor(given);
        if (!cfx__tensor_same_shape(g, out))
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and "
                     "output[%d] has a shape of torch.Size(%s).",
                     i, cfx__shape_text(g->ndim, g->shape), i,
                     cfx__shape_text(out->ndim, out->shape));
        else if (cfx__dtype_is_complex((cfx_dtype)g->dtype) !=
                 cfx__dtype_is_complex((cfx_dtype)out->dtype))
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "For complex Tensors, both grad_output and output are required to have the "
                     "same dtype. Mismatch in dtype: grad_output[%d] has a dtype of torch.%s and "
                     "output[%d] has a dtype of torch.%s.",
                     i, cfx_dtype_name((cfx_dtype)g->dtype), i,
                     cfx_dtype_name((cfx_dtype)out->dtype));
        return g->dtype == out->dtype ? g : cfx_to(g, cfx_dtype_value((cfx_dtype)out->dtype));
    }
    if (out->numel != 1)
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "grad can be implicitly created only for scalar outputs");
    else if (cfx__dtype_is_complex((cfx_dtype)out->dtype))
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "grad can be implicitly created only for real scalar outputs but got torch.%s",
                 cfx_dtype_name((cfx_dtype)out->dtype));
    return cfx_ok() ? cfx_ones_like(out, CFX_KW(pin_memory, cfx_bool(false)),
                                    CFX_KW(memory_format, cfx_preserve_format))
                    : NULL;
}

static bool root_of(cfx_site at, int i, cfx_tensor *out, cfx_value given, root *r) {
    if (!out || cfx__obj_is_bad(out))
        return false;
    r->output = 0;
    r->node = cfx__tensor_needs_grad(out) ? cfx__grad_edge_of(at, out, &r->output) : NULL;
    if (!r->node) {
        cfx_fail(CFX_RUNTIME_ERROR, at,
                 "element %d of tensors does not require grad and does not have a grad_fn", i);
        return false;
    }
    r->grad = first_gradient(at, i, out, given);
    return cfx_ok();
}

bool cfx_backward_from(cfx_site at, cfx_tensor *t, cfx_backward_options o) {
    if (!cfx_ok())
        return false;
    size_t mark = cfx_scope_open();
    walk w = {.at = at, .keep_graph = o.retain_graph || o.create_graph,
              .create_graph = o.create_graph};
    root r;
    cfx_grad_mode before = cfx_set_grad_mode(o.create_graph ? CFX_GRAD_ON : CFX_NO_GRAD);
    bool fine = root_of(at, 0, t, cfx_tensor_value(o.gradient), &r);
    cfx_set_grad_mode(before);
    fine = fine && go(&w, 1, &r);
    cfx_scope_close(mark);
    return fine;
}

static int64_t count_of(cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE ? cfx_as_list(v)->len
                                                           : v.tag != CFX_TAG_NONE;
}

static cfx_value item_of(cfx_value v, int64_t i) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        return i < cfx_as_list(v)->len ? cfx_as_list(v)->items[i] : cfx_none();
    return i ? cfx_none() : v;
}

/* The inputs that are asked for; false, with PyTorch's words, where one cannot have a gradient. */
static bool add_captures(walk *w, cfx_value inputs, bool allow_unused) {
    for (int64_t i = 0; i < count_of(inputs); i++) {
        cfx_value v = item_of(inputs, i);
        capture c = {0};
        if (v.tag == CFX_TAG_TENSOR && cfx__tensor_needs_grad(cfx_as_tensor(v)))
            c.node = cfx__grad_edge_of(w->at, cfx_as_tensor(v), &c.output);
        if (!c.node && !allow_unused) {
            cfx_fail(CFX_RUNTIME_ERROR, w->at,
                     "One of the differentiated Tensors does not require grad");
            return false;
        }
        VEC_PUSH(w->captures, c);
    }
    return true;
}

cfx_value cfx_grad_from(cfx_site at, cfx_value outputs, cfx_value inputs, cfx_grad_options o) {
    if (!cfx_ok() || cfx_is_bad(outputs) || cfx_is_bad(inputs))
        return cfx_bad();
    size_t mark = cfx_scope_open();
    walk w = {.at = at, .keep_graph = o.retain_graph || o.create_graph,
              .create_graph = o.create_graph, .chosen = true};
    size_t n = (size_t)count_of(outputs), done = 0;
    root *roots = cfx__alloc0(n * sizeof *roots + 1);
    cfx_grad_mode before = cfx_set_grad_mode(o.create_graph ? CFX_GRAD_ON : CFX_NO_GRAD);
    bool fine = add_captures(&w, inputs, o.allow_unused);
    for (; fine && done < n; done++) {
        cfx_value v = item_of(outputs, (int64_t)done);
        fine = root_of(at, (int)done, v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL,
                       item_of(o.grad_outputs, (int64_t)done), &roots[done]);
    }
    cfx_set_grad_mode(before);
    fine = fine && go(&w, n, roots);
    cfx__free(roots);
    cfx_value result = fine ? cfx_tuple_value(0, NULL) : cfx_bad();
    for (size_t i = 0; i < w.captures.len; i++) {
        cfx_tensor *g = w.captures.data[i].grad;
        if (fine && !g && !o.allow_unused) {
            cfx_fail(CFX_RUNTIME_ERROR, at,
                     "One of the differentiated Tensors appears to not have been used in the "
                     "graph. Set allow_unused=True if this is the desired behavior.");
            fine = false;
            result = cfx_bad();
        }
        if (fine)
            cfx_list_append(cfx_as_list(result), cfx_tensor_value(g));
        cfx_drop(g);
    }
    VEC_FREE(w.captures);
    return cfx_scope_return_value(mark, result);
}
