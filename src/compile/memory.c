/* Places tensors: at the plan's offsets in the arena, in the caller's arrays, or among the
 * weights. Results of the program are computed directly in the caller's array, unless their
 * strides differ or they are views; these get arena space and are copied at the end. Start at
 * cfx__c_place. */
#include <cfx/ops.h>

#include "compile.h"

/* ---- refs ------------------------------------------------------------------------------------ */

static void *copied(cfx__c *c, const void *from, size_t size) {
    void *to = cfx__arena_alloc(&c->memory, size + 1);
    return size ? memcpy(to, from, size) : to;
}

static cfx__c_ref ref_to(cfx__c *c, const cfx_tensor *t) {
    const size_t size = (size_t)t->ndim * sizeof *t->shape;
    return (cfx__c_ref){.dtype = (cfx_dtype)t->dtype,
                        .ndim = t->ndim,
                        .shape = copied(c, t->shape, size),
                        .stride = copied(c, t->stride, size)};
}

cfx__c_ref *cfx__c_ref_like(cfx__c *c, const cfx__c_ref *of, int ndim, const int64_t *shape,
                            const int64_t *stride) {
    cfx__c_ref r = *of;
    r.ndim = ndim;
    r.shape = copied(c, shape, (size_t)ndim * sizeof *shape);
    r.stride = copied(c, stride, (size_t)ndim * sizeof *stride);
    return copied(c, &r, sizeof r);
}

const cfx__c_ref *cfx__c_shape_ref(cfx__c *c, const cfx_tensor *t) {
    const cfx__c_ref r = ref_to(c, t);
    return copied(c, &r, sizeof r);
}

bool cfx__c_is_there(const cfx__c_ref *a, const cfx__c_ref *b) {
    return a->where == b->where && a->number == b->number && a->base == b->base && a->at == b->at;
}

bool cfx__c_is_contiguous(const cfx__c_ref *r) {
    int64_t want = 1;
    for (int i = r->ndim - 1; i >= 0; i--) {
        if (r->shape[i] != 1 && r->stride[i] != want)
            return false;
        want *= r->shape[i];
    }
    return true;
}

int64_t cfx__c_count(const cfx__c_ref *r) {
    int64_t n = 1;
    for (int i = 0; i < r->ndim; i++)
        n *= r->shape[i];
    return n;
}

/* Bytes from the first element of a tensor that lies like t to the end of its last. */
static int64_t reach(const cfx_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (!t->shape[i])
            return 64;
        n += (t->shape[i] - 1) * t->stride[i];
    }
    return n * cfx_dtype_size((cfx_dtype)t->dtype);
}

/* ---- constants ------------------------------------------------------------------------------- */

const cfx__c_ref *cfx__c_constant(cfx__c *c, cfx_tensor *t, const char *name) {
    cfx_tensor *whole = cfx__tensor_contiguous(t);
    cfx__c_ref r = ref_to(c, whole);
    if (!cfx__c_type(r.dtype) || cfx__obj_is_bad(whole))
        return NULL;
    r.where = CFX__C_WEIGHT;
    r.number = cfx__c_weight_add(c, name, r.dtype, whole->numel, whole->data,
                                 cfx__text_format("%s%s", cfx_dtype_brief(r.dtype),
                                                  cfx__shape_text(whole->ndim, whole->shape)));
    r.name = c->weights.data[r.number].name;
    return copied(c, &r, sizeof r);
}

/* What the file calls the tensor that a node stands for; NULL: it is no parameter. */
static const char *parameter_name(const cfx__c_unit *u, const cfx_node *n) {
    if (u->c->program && n->op == CFX_PLACEHOLDER && n->graph == u->c->program->module->graph) {
        const cfx_input_spec *s = cfx_program_input(u->c->program, n);
        return s ? s->target : NULL;
    }
    return n->op == CFX_GET_ATTR ? n->target.name : NULL;
}

/* The name of the tensor that a node stands for: a parameter's own, else the node's. */
static const char *constant_name(const cfx__c_unit *u, const cfx_node *n) {
    const char *own = parameter_name(u, n);
    return own ? own : n->name;
}

const char *cfx__c_parameter_name(const cfx__c_unit *u, cfx_value v, const char *otherwise) {
    enum { MOST = 8 }; /* views of it, one of the other */
    for (int i = 0; i < MOST && v.tag == CFX_TAG_NODE; i++) {
        const cfx__plan_kernel *k = &u->plan->kernels[v.spare];
        const char *own = parameter_name(u, k->step->node);
        if (own)
            return own;
        if (!k->step->op || !k->step->nbound)
            break;
        v = k->step->bound[0];
    }
    return otherwise;
}

static void note_constant(cfx__c_unit *u, int slot) {
    const cfx_value v = u->plan->constants[slot];
    cfx__c_refs *to = &u->refs[slot];
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    if (v.tag != CFX_TAG_TENSOR && !several)
        return;
    const int n = several ? (int)cfx_as_list(v)->len : 1;
    cfx__c_ref *refs = cfx__arena_alloc(&u->c->memory, (size_t)n * sizeof *refs + 1);
    for (int i = 0; i < n; i++) {
        const cfx_value item = several ? cfx_as_list(v)->items[i] : v;
        refs[i] = (cfx__c_ref){0};
        if (item.tag != CFX_TAG_TENSOR || !cfx_as_tensor(item)->data)
            continue;
        const cfx__c_ref *r = cfx__c_constant(u->c, cfx_as_tensor(item),
                                              constant_name(u, u->plan->kernels[slot].step->node));
        if (r)
            refs[i] = *r;
    }
    *to = (cfx__c_refs){n, refs};
}

const cfx__c_refs *cfx__c_slot(cfx__c_unit *u, int slot) {
    if (!u->refs[slot].n && !cfx_is_bad(u->plan->constants[slot]))
        note_constant(u, slot);
    return &u->refs[slot];
}

cfx_value cfx__c_known(const cfx__c_unit *u, cfx_value v) {
    return v.tag == CFX_TAG_NODE ? u->plan->constants[v.spare] : v;
}

const cfx__c_ref *cfx__c_arg(cfx__c_unit *u, cfx_value v) {
    if (v.tag == CFX_TAG_TENSOR)
        return cfx_as_tensor(v)->data ? cfx__c_constant(u->c, cfx_as_tensor(v), "constant") : NULL;
    if (v.tag != CFX_TAG_NODE)
        return NULL;
    const cfx__c_refs *r = cfx__c_slot(u, (int)v.spare);
    return r->n == 1 && r->refs[0].where != CFX__C_NOWHERE ? r->refs : NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */

static const char *slot_name(const cfx__c_unit *u, int slot) {
    return cfx__c_identifier(u->plan->kernels[slot].step->node->name);
}

static bool makes(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_CALL || k->kind == CFX__PLAN_LAYER || k->kind == CFX__PLAN_LOOP ||
           k->kind == CFX__PLAN_JOIN || k->kind == CFX__PLAN_HIGHER ||
           (k->kind == CFX__PLAN_NONE && k->stored);
}

const cfx_list *cfx__c_several(cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE ? cfx_as_list(v) : NULL;
}

/* The slot in whose memory a part is made; -1: in none's. */
static int home_of(const cfx__plan *p, int slot) {
    const int home = p->offset[slot] >= 0 ? p->home[slot] : -1;
    return home >= 0 && p->offset[home] >= 0 &&
                   p->offset[home] + cfx__plan_home_offset(p, slot) == p->offset[slot]
               ? home
               : -1;
}

/* On a card: the plan's place of a slot, or one behind all others. */
static int64_t place_on_card(cfx__c_unit *u, int slot, int64_t bytes) {
    const int64_t *offset = u->plan->offset, end = u->c->arena;
    const int home = home_of(u->plan, slot);
    if (offset[slot] >= 0)
        return offset[home >= 0 ? home : slot];
    u->c->arena += (bytes + 63) / 64 * 64;
    return end;
}

typedef struct {
    const cfx__c_unit *u;
    int root, times;
} counted;

static void count_root(void *user, int slot) {
    counted *c = user;
    const int root = c->u->lives->root[slot];
    c->times += root == c->root || root < 0;
}

/* Whether kernel `by` may write its result over slot `a`, which it updates: nothing reads that
 * later, and the kernel reads it nowhere else. */
bool cfx__c_updates(const cfx__c_unit *u, int by, int a) {
    const cfx__plan_kernel *k = &u->plan->kernels[by];
    counted c = {u, u->lives->root[a], 0};
    if (k->kind != CFX__PLAN_CALL || !cfx__c_call_updates(k->op) ||
        k->step->bound[0].tag != CFX_TAG_NODE || (int)k->step->bound[0].spare != a || c.root != a ||
        u->lives->last[a] != by)
        return false;
    cfx__plan_each_kernel_read(k, count_root, &c);
    return c.times == 1 &&
           cfx__plan_lies_like(cfx__plan_made(u->plan, by), cfx__plan_made(u->plan, a));
}

/* The slot whose memory attention `by` may write its result over: that of the queries, since it has
 * read rows of them when it writes those of the result; -1: none's. */
static int attended(const cfx__c_unit *u, int by) {
    const cfx__plan *p = u->plan;
    const cfx__plan_kernel *k = &p->kernels[by];
    if (k->kind != CFX__PLAN_CALL || k->op != &cfx_op_scaled_dot_product_attention ||
        k->step->bound[0].tag != CFX_TAG_NODE)
        return -1;
    const int query = (int)k->step->bound[0].spare, a = u->lives->root[query];
    const cfx_value v = p->given[query];
    if (a < 0 || u->lives->last[a] != by || u->room[a] < 0 || home_of(p, a) >= 0 ||
        v.tag != CFX_TAG_TENSOR)
        return -1;
    counted c = {u, a, 0};
    cfx__plan_each_kernel_read(k, count_root, &c);
    const cfx_tensor *q = query == a ? cfx__plan_made(p, a) : cfx_as_tensor(v);
    const cfx_tensor *out = cfx__plan_made(p, by);
    const bool fits = !q->offset && q->dtype == CFX_F32 && out->dtype == CFX_F32 &&
                      cfx__tensor_same_shape(q, out) && cfx__plan_lies_like(out, q) &&
                      reach(out) == reach(cfx__plan_made(p, a));
    return fits && c.times == 1 ? a : -1;
}

/* The slot whose memory kernel `by` overwrites with `slot`; -1: none's. The plan gave both one
 * place, or it is an update, or attention. */
static int overwritten(const cfx__c_unit *u, int slot, int by) {
    const cfx__plan *p = u->plan;
    const cfx__plan_kernel *k = &p->kernels[by];
    const int n = k->kind == CFX__PLAN_LAYER  ? k->add >= 0
                  : k->kind == CFX__PLAN_LOOP ? k->nreads
                                              : 0;
    for (int i = 0; i < n; i++) {
        const int a = k->kind == CFX__PLAN_LAYER ? k->add : k->reads[i];
        if (p->offset[slot] >= 0 && p->offset[a] == p->offset[slot] && u->lives->last[a] == by &&
            u->room[a] >= 0)
            return a;
    }
    const int a =
        k->kind == CFX__PLAN_CALL && k->step->nbound > 0 && k->step->bound[0].tag == CFX_TAG_NODE
            ? (int)k->step->bound[0].spare
            : -1;
    const bool updates = a >= 0 && u->room[a] >= 0 && home_of(p, a) < 0 && cfx__c_updates(u, by, a);
    return updates ? a : attended(u, by);
}

/* Finds the room of a slot, one tensor, that kernel `by` writes. */
static void find_room(cfx__c_unit *u, int slot, int by) {
    const cfx__plan *p = u->plan;
    const int last = u->lives->last[slot], home = home_of(p, slot);
    if (u->refs[slot].n || p->given[slot].tag != CFX_TAG_TENSOR || !cfx_is_bad(p->constants[slot]))
        return;
    const int64_t bytes = reach(cfx__plan_made(p, home >= 0 ? home : slot));
    const int over = home >= 0 ? home : overwritten(u, slot, by);
    if (u->room[slot] < 0)
        u->room[slot] =
            over >= 0 && u->room[over] >= 0 ? u->room[over] : cfx__c_room_for(u, bytes, by, last);
    cfx__c_room_keep(u->c, u->room[slot], bytes, by, last);
    if (home >= 0)
        u->room[home] = u->room[slot];
}

static void find_rooms(cfx__c_unit *u) {
    const cfx__plan *p = u->plan;
    u->room = cfx__arena_alloc(&u->c->memory, (size_t)p->n * sizeof *u->room);
    for (int k = 0; k < p->n; k++)
        u->room[k] = -1;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        for (int i = 0; i < kernel->nwrites; i++)
            find_room(u, kernel->writes[i], k);
        if (makes(kernel) && kernel->kind != CFX__PLAN_NONE && !kernel->nwrites)
            find_room(u, k, k);
    }
}

/* Where a tensor of a slot lies; the slot has several where `alone` is false. */
static void place_at(cfx__c_unit *u, int slot, cfx__c_ref *r, bool alone, int64_t bytes) {
    const cfx__plan *p = u->plan;
    if (alone && home_of(p, slot) >= 0)
        r->at = cfx__plan_home_offset(p, slot) / cfx_dtype_size(r->dtype);
    if (u->c->card)
        r->base = place_on_card(u, slot, bytes);
    else if (alone && u->room[slot] >= 0)
        r->base = u->room[slot];
    else
        r->base = cfx__c_room_for(u, bytes, slot, u->lives->last[slot]);
}

static void place_made(cfx__c_unit *u, int slot) {
    const cfx__plan *p = u->plan;
    const cfx_value v = p->given[slot];
    const cfx_list *several = cfx__c_several(v);
    const int n = several ? (int)several->len : v.tag == CFX_TAG_TENSOR;
    cfx__c_ref *refs = u->refs[slot].refs;
    if ((refs && !several) || !n)
        return;
    if (!refs) /* some of several may have their places */
        refs = cfx__arena_alloc(&u->c->memory, (size_t)n * sizeof *refs);
    for (int i = 0; i < n; i++) {
        const cfx_value item = several ? several->items[i] : v;
        if (item.tag != CFX_TAG_TENSOR || refs[i].where != CFX__C_NOWHERE)
            continue;
        const cfx_tensor *t = several ? cfx_as_tensor(item) : cfx__plan_made(p, slot);
        refs[i] = ref_to(u->c, t);
        refs[i].where = CFX__C_ARENA;
        refs[i].name = slot_name(u, slot);
        place_at(u, slot, &refs[i], !several, reach(t));
    }
    u->refs[slot] = (cfx__c_refs){n, refs};
}

/* A look into the memory of `root`: its elements count from the root's first. */
static cfx__c_ref look(cfx__c_unit *u, const cfx__c_ref *root, const cfx_tensor *t, int slot) {
    cfx__c_ref r = ref_to(u->c, t);
    r.where = root->where;
    r.moves = root->moves;
    r.number = root->number;
    r.name = slot_name(u, slot);
    r.base = root->base;
    r.at = root->at * cfx_dtype_size(root->dtype) / cfx_dtype_size(r.dtype) + t->offset;
    return r;
}

bool cfx__c_may_look(const cfx__c_ref *r, cfx_dtype as) {
    return r->dtype == as || (!r->moves && cfx__c_part(r->dtype) == cfx__c_part(as));
}

static void place_view(cfx__c_unit *u, int slot) {
    const cfx__plan *p = u->plan;
    const cfx_value v = p->given[slot];
    const int root = cfx__plan_root(p, slot);
    const cfx__c_refs *of = cfx__c_slot(u, root);
    const bool several = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    const int n = several ? (int)cfx_as_list(v)->len : 1;
    if (!of->n)
        return;
    cfx__c_ref *refs = cfx__arena_alloc(&u->c->memory, (size_t)n * sizeof *refs + 1);
    for (int i = 0; i < n; i++) {
        refs[i] = look(u, of->refs, cfx_as_tensor(several ? cfx_as_list(v)->items[i] : v), slot);
        if (!cfx__c_may_look(of->refs, refs[i].dtype))
            cfx__c_refuse(u, "looks at %s as at %s, which C does not let it",
                          cfx_dtype_name(of->refs->dtype), cfx_dtype_name(refs[i].dtype));
    }
    u->refs[slot] = (cfx__c_refs){n, refs};
}

static void place_all(cfx__c_unit *u) {
    const cfx__plan *p = u->plan;
    for (int k = 0; k < p->n; k++) {
        const cfx__plan_kernel *kernel = &p->kernels[k];
        u->slot = k;
        if (!cfx_is_bad(p->constants[k]))
            continue;
        for (int i = 0; i < kernel->nwrites; i++)
            place_made(u, kernel->writes[i]);
        if (makes(kernel)) {
            place_made(u, k);
        } else if (kernel->kind == CFX__PLAN_PASS) {
            u->refs[k] = *cfx__c_slot(u, kernel->x);
        } else if (kernel->kind == CFX__PLAN_ITEM) {
            const cfx__c_refs *from = cfx__c_slot(u, kernel->x);
            if (kernel->index < from->n)
                u->refs[k] = (cfx__c_refs){1, &from->refs[kernel->index]};
        } else if (kernel->kind == CFX__PLAN_VIEW) {
            place_view(u, k);
        }
    }
}

void cfx__c_place(cfx__c_unit *u) {
    if (!u->c->card)
        find_rooms(u);
    place_all(u);
}

/* ---- places of results ----------------------------------------------------------------------- */

int cfx__c_maker(const cfx__plan *p, int s) {
    while (p->kernels[s].kind == CFX__PLAN_PASS)
        s = p->kernels[s].x;
    return s;
}

bool cfx__c_is_made_here(const cfx__plan *p, int s) {
    return makes(&p->kernels[s]) && p->given[s].tag == CFX_TAG_TENSOR && p->offset[s] < 0;
}

void cfx__c_put_ref(cfx__c_unit *u, int slot, cfx__c_ref r) {
    cfx__c_ref *one = cfx__arena_alloc(&u->c->memory, sizeof *one);
    *one = r;
    u->refs[slot] = (cfx__c_refs){1, one};
}

/* One of the results of a call or of control flow that gives several, if slot s is that. */
static bool place_part(cfx__c_unit *u, int s, cfx__c_ref to) {
    const cfx__plan *p = u->plan;
    const cfx__plan_kernel *item = &p->kernels[s];
    const int from = item->kind == CFX__PLAN_ITEM ? cfx__c_maker(p, item->x) : -1;
    if (from < 0 || !cfx_is_bad(p->constants[from]) ||
        (p->kernels[from].kind != CFX__PLAN_CALL && p->kernels[from].kind != CFX__PLAN_HIGHER))
        return false;
    const cfx_list *given = cfx__c_several(p->given[from]);
    if (!given || item->index >= given->len || given->items[item->index].tag != CFX_TAG_TENSOR)
        return false;
    const cfx_tensor *t = cfx_as_tensor(given->items[item->index]);
    cfx__c_refs *refs = &u->refs[from];
    if (!refs->n)
        *refs = (cfx__c_refs){(int)given->len,
                              cfx__arena_alloc(&u->c->memory, (size_t)given->len * sizeof to)};
    if (refs->refs[item->index].where != CFX__C_NOWHERE || !cfx__tensor_is_contiguous(t) ||
        (cfx_dtype)t->dtype != to.dtype)
        return false;
    refs->refs[item->index] = to;
    return true;
}

void cfx__c_place_at(cfx__c_unit *u, int slot, cfx__c_ref to) {
    const cfx__plan *p = u->plan;
    const int s = cfx__c_maker(p, slot);
    if (!cfx_is_bad(p->constants[slot]) || p->wanted[slot].tag != CFX_TAG_TENSOR ||
        !cfx__c_is_contiguous(&to) || place_part(u, s, to) || !cfx__c_is_made_here(p, s) ||
        u->refs[s].n)
        return;
    const cfx_tensor *made = cfx__plan_made(p, s);
    if (cfx__plan_lies_like(made, cfx_as_tensor(p->wanted[slot])) &&
        cfx__tensor_is_contiguous(made) && (cfx_dtype)made->dtype == to.dtype)
        cfx__c_put_ref(u, s, to);
}

/* ---- pointers -------------------------------------------------------------------------------- */

void cfx__c_pointer(cfx__c *c, const cfx__c_ref *r, const char *name, bool written) {
    if (c->card) {
        c->card->pointer(c, r, name, written);
        return;
    }
    const char *type = cfx__c_type(r->dtype);
    const char *constant = written ? "" : "const ";
    const char *more = r->at ? cfx__text_format(" + %lld", (long long)r->at) : "";
    cfx_dtype whole = r->dtype; /* of what it is a look into */
    const char *from = "", *moves = r->moves ? cfx__text_format(" + %s", r->moves) : "";
    switch (r->where) {
    case CFX__C_ARENA:
        cfx__c_line(c, "%s%s *%s = (%s%s *)(%s)%s%s;", constant, type, name, constant, type,
                    cfx__c_room_text(r->base, 0), more, moves);
        return;
    case CFX__C_INPUT:
        whole = c->inputs.of[r->number].dtype;
        from = cfx__text_format("c->%s", c->inputs.of[r->number].name);
        break;
    case CFX__C_OUTPUT:
        whole = c->outputs.of[r->number].dtype;
        from = cfx__text_format("c->%s", c->outputs.of[r->number].name);
        break;
    case CFX__C_STATE:
        whole = c->states.of[r->number].dtype;
        from = cfx__text_format("c->state->%s", c->states.of[r->number].name);
        break;
    default:
        whole = c->weights.data[r->number].dtype;
        from = cfx__text_format("c->w->%s", c->weights.data[r->number].name);
    }
    if (whole != r->dtype)
        from = cfx__text_format("(%s%s *)%s", constant, type, from);
    cfx__c_line(c, "%s%s *%s = %s%s%s;", constant, type, name, from, more, moves);
}

const cfx__c_ref *cfx__c_own(cfx__c_unit *u, const cfx__c_ref *r, cfx_memory_format format,
                             bool copied) {
    int64_t stride[CFX_MAX_DIMS];
    cfx__strides_of_format(format, r->ndim, r->shape, stride);
    cfx__c_ref *own = cfx__c_ref_like(u->c, r, r->ndim, r->shape, stride);
    own->where = CFX__C_ARENA;
    own->base = cfx__c_room_now(u, cfx__c_count(own) * cfx_dtype_size(own->dtype));
    own->at = 0;
    own->moves = NULL;
    if (copied)
        cfx__c_copy(u->c, own, r);
    return own;
}

/* A ref as one of 64-bit integers, `n` elements of dim in each; NULL where it does not lie so. */
static const cfx__c_ref *in_words(cfx__c *c, const cfx__c_ref *r, int dim, int64_t n) {
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    if (r->where != CFX__C_ARENA || r->moves || r->at % n || r->base % 8 || r->stride[dim] != 1 ||
        r->shape[dim] % n)
        return NULL;
    for (int i = 0; i < r->ndim; i++) {
        if (i != dim && r->shape[i] > 1 && r->stride[i] % n)
            return NULL;
        shape[i] = i == dim ? r->shape[i] / n : r->shape[i];
        stride[i] = i == dim ? 1 : r->stride[i] / n;
    }
    cfx__c_ref *words = cfx__c_ref_like(c, r, r->ndim, shape, stride);
    words->dtype = CFX_I64;
    words->at = r->at / n;
    return words;
}

/* A thread of a card moves one element: 8 bytes rather than 2, where both sides lie so. */
static void take_words(cfx__c *c, const cfx__c_ref **to, const cfx__c_ref **from) {
    const int64_t n = 8 / cfx_dtype_size((*to)->dtype);
    for (int i = (*to)->ndim - 1; i >= 0 && n > 1; i--) {
        const cfx__c_ref *a = in_words(c, *to, i, n), *b = a ? in_words(c, *from, i, n) : NULL;
        if (!b)
            continue;
        *to = a, *from = b;
        return;
    }
}

void cfx__c_copy(cfx__c *c, const cfx__c_ref *to, const cfx__c_ref *from) {
    if (!cfx__c_count(to))
        return;
    if (c->card && to->dtype == from->dtype)
        take_words(c, &to, &from);
    cfx__c_block(c);
    cfx__c_pointer(c, from, "from", false);
    cfx__c_pointer(c, to, "to", true);
    cfx__c_walk w = cfx__c_walk_over(to->ndim, to->shape);
    cfx__c_walk_add(&w, to);
    cfx__c_walk_add(&w, from);
    cfx__c_walk_settle(&w, 0);
    const bool same = to->dtype == from->dtype;
    const char *a = cfx__c_at(&w, 0), *b = cfx__c_at(&w, 1);
    if (same && !c->card && w.ndim == 1 && w.stride[0][0] == 1 && w.stride[1][0] == 1) {
        cfx__c_line(c, "memcpy(to, from, %lld * sizeof *to);", (long long)w.shape[0]);
    } else {
        cfx__c_walk_open(c, &w);
        cfx__c_line(c, "to[%s] = %s;", a,
                    same ? cfx__text_format("from[%s]", b)
                         : cfx__c_store(c,
                                        cfx__c_convert(c, cfx__c_load(c, "from", b, from->dtype),
                                                       from->dtype, to->dtype),
                                        to->dtype));
        cfx__c_walk_close(c, &w);
    }
    cfx__c_close(c);
}
