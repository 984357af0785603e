/* Writes a plan as functions: one for each module, which calls those of its submodules, with the
 * kernels in order and a comment at each. Start at cfx__c_unit_put. */
#include "compile.h"

/* ---- where kernels come from ----------------------------------------------------------------- */

const char *cfx__c_module_of(const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return "";
    const cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
    const bool pair = last.tag == CFX_TAG_TUPLE || last.tag == CFX_TAG_LIST;
    return cfx_value_str(pair ? cfx_at(last, 0) : last);
}

/* The last line of the stack trace that names a file: "model.py:12"; "" where there is none. */
static const char *source_of(const cfx_node *n) {
    const cfx_value trace = cfx_node_get_meta(n, "stack_trace");
    const cfx_value own = cfx_node_get_meta(n, "source");
    if (own.tag == CFX_TAG_STR)
        return cfx_text(own);
    if (trace.tag != CFX_TAG_STR)
        return "";
    const char *last = NULL, *at = cfx_text(trace);
    while ((at = strstr(at, "File \""))) {
        last = at += 6;
    }
    if (!last)
        return "";
    const size_t n_path = strcspn(last, "\"\n");
    const char *name = last;
    for (size_t i = 0; i < n_path; i++)
        if (last[i] == '/')
            name = last + i + 1;
    const char *line = last[n_path] ? strstr(last + n_path, "line ") : NULL;
    return cfx__text_format("%.*s:%.*s", (int)(last + n_path - name), name,
                            line ? (int)strspn(line + 5, "0123456789") : 0, line ? line + 5 : "");
}

static bool computes(const cfx__plan_kernel *k) {
    return k->kind == CFX__PLAN_CALL || k->kind == CFX__PLAN_LAYER || k->kind == CFX__PLAN_LOOP ||
           k->kind == CFX__PLAN_JOIN || k->kind == CFX__PLAN_HIGHER;
}

/* Whether what a kernel gives has no elements, and that is all it does: nothing is written. */
static bool is_empty(cfx__c_unit *u, int slot) {
    const cfx__c_refs *r = cfx__c_slot(u, slot);
    const cfx_op *op = u->plan->kernels[slot].op;
    bool empty = r->n > 0 && !(op && op->updates);
    for (int i = 0; i < r->n; i++)
        empty = empty && cfx__c_count(&r->refs[i]) == 0;
    return empty;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const char *shape_of(const cfx__c_refs *r) {
    cfx__text t = {0};
    for (int i = 0; i < r->n; i++)
        cfx__text_printf(&t, "%s%s%s", i ? ", " : "", cfx_dtype_brief(r->refs[i].dtype),
                         cfx__shape_text(r->refs[i].ndim, r->refs[i].shape));
    return cfx__text_take(&t);
}

static const char *kernel_name(const cfx__c_unit *u, const cfx__plan_kernel *k) {
    if (k->kind != CFX__PLAN_LAYER)
        return cfx__plan_kernel_name(u->plan, k);
    cfx__text t = {0};
    cfx__text_puts(&t, cfx__op_info_of(k->layer->call.op)->schema->name);
    for (int i = 0; i < k->layer->epilogue.n; i++) {
        cfx_op *op = k->layer->epilogue.post[i].op;
        cfx__text_printf(&t, ", %s", op ? cfx__op_info_of(op)->schema->name : "add");
    }
    return cfx__text_take(&t);
}

/* The module whose function a kernel stands in: a layer's own, whatever is done behind it. */
static const char *module_of(const cfx__c_unit *u, const cfx__plan_kernel *k) {
    const bool layer = k->kind == CFX__PLAN_LAYER && k->nchain;
    return cfx__c_module_of((layer ? &u->plan->kernels[k->chain[0]] : k)->step->node);
}

static void put_comment(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_node *n = k->step->node;
    const char *source = source_of(n), *path = module_of(u, k), *last = cfx__c_module_of(n);
    if (strcmp(path, last) != 0 && *last)
        path = *path ? cfx__text_format("%s to %s", path, last) : last;
    cfx__text t = {0};
    /* each part is cut by itself: where does not depend on sizes */
    cfx__text_printf(&t, "%.60s: %.80s -> %.100s", n->name, kernel_name(u, k),
                     shape_of(cfx__c_slot(u, u->slot)));
    if (*path || *source)
        cfx__text_printf(&t, " (%.70s%s%.50s)", path, *path && *source ? ", " : "", source);
    cfx__c_line(u->c, "/* %s */", cfx__c_comment(cfx__text_take(&t)));
}

static void put_join(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const cfx_list *parts = cfx_as_list(k->step->bound[0]);
    const cfx__c_ref *whole = cfx__c_slot(u, u->slot)->refs;
    int64_t at = 0;
    for (int64_t i = 0; i < parts->len; i++) {
        const cfx__c_ref *part = cfx__c_arg(u, parts->items[i]);
        if (!part) {
            cfx__c_refuse(u, "joins a value that has no place");
            return;
        }
        cfx__c_ref *to = cfx__c_ref_like(u->c, whole, part->ndim, part->shape, whole->stride);
        to->at += at * whole->stride[k->index];
        if (!cfx__c_is_there(part, to))
            cfx__c_copy(u->c, to, part);
        at += part->shape[k->index];
    }
}

void cfx__c_unit_kernel(cfx__c_unit *u, int slot) {
    const cfx__plan_kernel *k = &u->plan->kernels[slot];
    u->slot = slot;
    switch (k->kind) {
    case CFX__PLAN_LOOP:
        cfx__c_loop(u, k);
        break;
    case CFX__PLAN_LAYER:
        cfx__c_layer(u, k);
        break;
    case CFX__PLAN_JOIN:
        put_join(u, k);
        break;
    case CFX__PLAN_HIGHER:
        cfx__c_higher(u, k);
        break;
    default:
        cfx__c_call(u, k);
    }
}

/* A kernel in a block of its own, or `alone` in that of its function. */
static void put_kernel(cfx__c_unit *u, int slot, bool alone) {
    cfx__c_kernel_time time;
    u->slot = slot;
    cfx__c_kernel_begin(u, &time);
    put_comment(u, &u->plan->kernels[slot]);
    if (!alone)
        cfx__c_block(u->c);
    cfx__c_unit_kernel(u, slot);
    if (!alone)
        cfx__c_close(u->c);
    cfx__c_kernel_end(&time);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* A kernel, and the path of the function that it stands in. */
typedef struct {
    int slot;
    const char *path;
} item;

typedef struct {
    cfx__c_unit *u;
    VEC(item) items;
} outline;

static bool is_below(const char *path, const char *top) {
    const size_t n = strlen(top);
    return !n || (!strncmp(path, top, n) && (path[n] == '.' || !path[n]));
}

static void find_items(outline *o) {
    const cfx__plan *p = o->u->plan;
    for (int k = 0; k < p->n; k++) {
        if (!computes(&p->kernels[k]) || !cfx_is_bad(p->constants[k]) || is_empty(o->u, k))
            continue;
        item it = {k, module_of(o->u, &p->kernels[k])};
        VEC_PUSH(o->items, it);
    }
}

/* The path one name longer than `top` that leads to `path`. */
static const char *step_towards(const char *top, const char *path) {
    const size_t n = strlen(top), from = n ? n + 1 : 0;
    return cfx__text_format("%.*s", (int)(from + strcspn(path + from, ".")), path);
}

/* Writes the function of module `top` for items [from, to), those of modules inside before it;
 * false: nothing is left to do in it, and there is none. */
static bool put_function(outline *o, const char *top, const char *name, size_t from, size_t to) {
    cfx__c *c = o->u->c;
    typedef struct {
        size_t from, to;
        const char *name; /* of the function that has them; NULL: they stand here */
        const char *path;
    } part;
    VEC(part) parts = {0};
    for (size_t i = from; i < to;) {
        const char *path = o->items.data[i].path;
        part p = {i, i + 1, NULL, ""};
        if (strcmp(path, top) && is_below(path, top)) {
            p.path = step_towards(top, path);
            while (p.to < to && is_below(o->items.data[p.to].path, p.path))
                p.to++;
            p.name = cfx__c_symbol(c, p.path);
            i = p.to;
            if (!put_function(o, p.path, p.name, p.from, p.to))
                continue;
        }
        i = p.to;
        VEC_PUSH(parts, p);
    }
    const size_t start = c->out.len;
    cfx__c_line(c, "static void %s(const struct %s_call *c) {", name, c->name);
    const size_t body = c->out.len;
    c->indent++;
    for (size_t i = 0; i < parts.len; i++) {
        if (i && !(parts.data[i].name && parts.data[i - 1].name)) /* calls stand together */
            cfx__text_putc(&c->out, '\n');
        if (parts.data[i].name)
            cfx__c_line(c, "%s(c); /* %s */", parts.data[i].name,
                        cfx__c_comment(parts.data[i].path));
        else
            put_kernel(o->u, o->items.data[parts.data[i].from].slot, parts.len == 1);
    }
    c->indent--;
    cfx__c_line(c, "}");
    cfx__text_putc(&c->out, '\n');
    VEC_FREE(parts);
    if (strstr(c->out.data + body, "c->") || strstr(c->out.data + body, "(c);"))
        return true;
    c->out.data[c->out.len = start] = 0;
    return false;
}

void cfx__c_unit_put(cfx__c_unit *u) {
    outline o = {.u = u};
    find_items(&o);
    if (u->c->indent) { /* a sub-graph: its kernels stand where it is called */
        for (size_t i = 0; i < o.items.len; i++)
            put_kernel(u, o.items.data[i].slot, false);
    } else if (o.items.len) {
        put_function(&o, "", cfx__c_symbol(u->c, "forward"), 0, o.items.len);
    }
    VEC_FREE(o.items);
}
