/* Sessions: see session.h. A run takes the values of all inputs of a program; the session
 * replaces those that the program mutates by its own copies before the run, so executors need no
 * support for sessions. */
#include <cfx/session.h>

#include "../rewrite/rewrite.h"
#include "../value/later.h"
#include "plan.h"

/* A tensor of a program and the session's copy of it. */
typedef struct {
    cfx_tensor *of, *own; /* counted */
} copy;

/* Which inputs a program writes to. */
typedef struct {
    cfx_program *program; /* counted */
    uint64_t version;     /* of its graph */
    bool *writes;         /* by input */
} known;

struct cfx_session {
    cfx_obj head;
    VEC(copy) copies;
    VEC(known) programs;
};

static void forget(cfx_session *s) {
    for (size_t i = 0; i < s->copies.len; i++) {
        cfx_drop(s->copies.data[i].of);
        cfx_drop(s->copies.data[i].own);
    }
    s->copies.len = 0;
}

static void session_free(void *obj) {
    cfx_session *s = obj;
    forget(s);
    for (size_t i = 0; i < s->programs.len; i++) {
        cfx_drop(s->programs.data[i].program);
        cfx__free(s->programs.data[i].writes);
    }
    VEC_FREE(s->copies);
    VEC_FREE(s->programs);
}

static const cfx__obj_type session_type = {.name = "session", .free = session_free};

cfx_session *cfx_session_new(void) { return cfx__obj_new(&session_type, sizeof(cfx_session)); }

/* ---- what is written ------------------------------------------------------------------------- */

bool *cfx__program_writes(const cfx_program *p) {
    bool *writes = cfx__alloc0((size_t)p->ninputs + 1);
    cfx__alias alias;
    cfx__alias_open(&alias, p->module->graph);
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_node *n = cfx_graph_find(p->module->graph, p->inputs[i].name);
        writes[i] = n && cfx__alias_written(&alias, n);
    }
    cfx__alias_close(&alias);
    for (int k = 0; k < p->noutputs; k++) {
        const int i = cfx__program_written(p, &p->outputs[k]);
        if (i >= 0)
            writes[i] = true;
    }
    return writes;
}

static const bool *writes_of(cfx_session *s, cfx_program *p) {
    const uint64_t version = p->module->graph->version;
    for (size_t i = 0; i < s->programs.len; i++) {
        known *k = &s->programs.data[i];
        if (k->program != p)
            continue;
        if (k->version != version) {
            cfx__free(k->writes);
            k->writes = cfx__program_writes(p);
            k->version = version;
        }
        return k->writes;
    }
    known made = {cfx_keep(p), version, cfx__program_writes(p)};
    VEC_PUSH(s->programs, made);
    return made.writes;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The whole memory under t, copied: other tensors may be views of it. Scope. */
static cfx_tensor *copied(cfx_site at, const cfx_tensor *t) {
    const int64_t size = cfx_dtype_size((cfx_dtype)t->dtype);
    const int64_t n = (int64_t)t->storage->size / size;
    cfx_tensor *whole = cfx__tensor_empty(at, (cfx_dtype)t->dtype, false, 1, &n, NULL);
    if (cfx__obj_is_bad(whole))
        return whole;
    if (n)
        memcpy(whole->data, t->storage->data, (size_t)(n * size));
    if (t->storage->device.type == CFX_CUDA) /* where a program has it, so do its sessions */
        whole = cfx__later_rooms.to_card(at, whole, t->storage->device.index);
    if (cfx__obj_is_bad(whole))
        return whole;
    cfx__tensor_place(whole, t->device);
    return cfx__tensor_alias(whole, t->ndim, t->shape, t->stride, t->offset);
}

static cfx_tensor *own_of(cfx_site at, cfx_session *s, cfx_tensor *t) {
    const copy *shares = NULL;
    for (size_t i = 0; i < s->copies.len; i++) {
        const copy *c = &s->copies.data[i];
        if (c->of == t)
            return c->own;
        if (c->of->storage == t->storage)
            shares = c;
    }
    if (shares && shares->of->dtype != t->dtype) {
        cfx_fail(CFX_TYPE_ERROR, at,
                 "tensors of the program share memory as %s and %s: a session has no copy of that",
                 cfx_dtype_name((cfx_dtype)t->dtype), cfx_dtype_name((cfx_dtype)shares->of->dtype));
        return &cfx__tensor_bad;
    }
    cfx_tensor *own = shares ? cfx__tensor_alias(shares->own, t->ndim, t->shape, t->stride,
                                                 t->offset)
                             : copied(at, t);
    if (cfx__obj_is_bad(own))
        return own;
    copy made = {cfx_keep(t), cfx_keep(own)};
    VEC_PUSH(s->copies, made);
    return own;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct {
    cfx_site at;
    cfx_session *session;
    cfx_program *program;
} running;

/* Whether a tensor looks at memory that the session has a copy of. */
static bool is_copied(const cfx_session *s, const cfx_tensor *t) {
    bool copied = false;
    for (size_t i = 0; t->storage->head.refs > 1 && i < s->copies.len && !copied; i++)
        copied = s->copies.data[i].of->storage == t->storage;
    return copied;
}

/* Puts the session's own tensors among the inputs of a run: for what the program writes to, then
 * for what shares memory with that. */
static void put_own(void *user, cfx_value inputs) {
    const running *r = user;
    const cfx_program *p = r->program;
    const bool *writes = writes_of(r->session, r->program);
    for (int i = 0; i < 2 * p->ninputs && cfx_ok(); i++) {
        const int k = i % p->ninputs;
        cfx_value *v = &cfx_as_list(inputs)->items[k];
        if (p->inputs[k].kind == CFX_IN_USER || v->tag != CFX_TAG_TENSOR ||
            !cfx_as_tensor(*v)->storage || writes[k] != (i < p->ninputs) ||
            (!writes[k] && !is_copied(r->session, cfx_as_tensor(*v))))
            continue;
        cfx_value own = cfx_tensor_value(own_of(r->at, r->session, cfx_as_tensor(*v)));
        cfx_value_keep(own);
        cfx_value_drop(*v);
        *v = own;
    }
}

static bool is_given(cfx_site at, const cfx_session *s) {
    if (!s)
        cfx_fail(CFX_TYPE_ERROR, at, "there is no session");
    return s != NULL;
}

cfx_value cfx_session_run_from(cfx_site at, cfx_session *s, cfx_program *p, cfx_args a) {
    running r = {at, s, p};
    return is_given(at, s) ? cfx__program_run(at, p, NULL, NULL, a, put_own, &r) : cfx_bad();
}

cfx_tensor *cfx_session_tensor(cfx_session *s, cfx_tensor *t) {
    for (size_t i = 0; s && i < s->copies.len; i++)
        if (s->copies.data[i].of == t)
            return s->copies.data[i].own;
    return t;
}

void cfx_session_reset(cfx_session *s) {
    if (s)
        forget(s);
}
