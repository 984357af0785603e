/* Single operators on a card: a call outside of a plan runs as a plan of one node, cached for
 * later calls with tensors of the same type and the same numbers. Operators without a GPU form
 * run on the host, on the same memory. Start at cfx__cuda_call. */
#include <cfx/graph.h>
#include <cfx/ops.h>
#include <cfx/run.h>

#include "../dispatch/dispatch.h"
#include "../plan/plan.h"
#include "plan.h"
#include "single.h"

enum {
    KEPT = 512,           /* plans */
    KEPT_BYTES = 256 << 20 /* that they have on the card, all together */
};

typedef struct entry {
    struct entry *newer, *older; /* by the last call */
    cfx_module *module;          /* has the graph; counted */
    cfx__cuda_plan *plan;        /* counted; NULL: the host's */
    int64_t bytes;
    char key[];
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cfx__map entries; /* by key */
static entry *newest, *oldest;
static int nkept;
static int64_t kept_bytes;

/* ---- what is kept ---------------------------------------------------------------------------- */

static void unlink_entry(entry *e) {
    *(e->newer ? &e->newer->older : &newest) = e->older;
    *(e->older ? &e->older->newer : &oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void put_first(entry *e) {
    e->older = newest;
    *(newest ? &newest->newer : &oldest) = e;
    newest = e;
}

/* The oldest, which is no longer in the table; NULL: there is none. */
static entry *take_oldest(void) {
    entry *e = oldest;
    if (!e) {
        cfx__map_release(&entries);
        return NULL;
    }
    unlink_entry(e);
    cfx__map_remove(&entries, e->key);
    nkept--;
    kept_bytes -= e->bytes;
    return e;
}

static void entry_free(entry *e) {
    cfx_drop(e->plan);
    cfx_drop(e->module);
    cfx__free(e);
}

void cfx__cuda_singles_forget(void) {
    for (entry *e = NULL;; entry_free(e)) {
        pthread_mutex_lock(&lock);
        e = take_oldest();
        pthread_mutex_unlock(&lock);
        if (!e)
            break;
    }
}

/* The plan for a key and its module, of which the caller owns counts; false: nothing is known. */
static bool find(const char *key, cfx__cuda_plan **plan, cfx_module **module) {
    pthread_mutex_lock(&lock);
    entry *e = cfx__map_get(&entries, key);
    if (e) {
        unlink_entry(e);
        put_first(e);
        *plan = e->plan ? cfx_keep(e->plan) : NULL;
        *module = e->plan ? cfx_keep(e->module) : NULL;
    }
    pthread_mutex_unlock(&lock);
    return e != NULL;
}

/* Keeps a plan, or that there is none; those that were not asked for longest go for it. */
static void keep(const char *key, cfx__cuda_plan *plan, cfx_module *module) {
    const int64_t bytes = plan ? plan->arena_bytes : 0;
    if (bytes > KEPT_BYTES)
        return;
    const size_t n = strlen(key) + 1;
    entry *e = cfx__alloc0(sizeof *e + n), *old[KEPT], *there = NULL;
    int nold = 0;
    memcpy(e->key, key, n);
    e->bytes = bytes;
    e->plan = plan ? cfx_keep(plan) : NULL;
    e->module = plan ? cfx_keep(module) : NULL;
    pthread_mutex_lock(&lock);
    there = cfx__map_get(&entries, key);
    while (!there && oldest && nold < KEPT &&
           (nkept >= KEPT || kept_bytes + bytes > KEPT_BYTES))
        old[nold++] = take_oldest();
    if (!there) {
        cfx__map_set(&entries, e->key, e);
        put_first(e);
        nkept++;
        kept_bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
    if (there)
        entry_free(e);
    while (nold)
        entry_free(old[--nold]);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A number that stands for a tensor takes part in promotion as a number; inputs of plans do not. So
 * it is given as a tensor without dims of a dtype with which the same comes out. */
static cfx_value plain_number(const cfx_tensor *number, const cfx_tensor *beside) {
    cfx_dtype d = (cfx_dtype)number->dtype;
    if (cfx__dtype_is_complex(d))
        return cfx_tensor_value((cfx_tensor *)number);
    const bool real = cfx__dtype_is_floating(d);
    if (beside) {
        const cfx_dtype b = (cfx_dtype)beside->dtype;
        const bool alike = real ? cfx__dtype_is_floating(b) : cfx__dtype_is_int(b);
        if (alike && (b == CFX_F64 || !beside->ndim))
            d = b;
        else if (real)
            d = cfx__dtype_of_number(cfx_float(0));
    }
    return cfx_tensor_value(cfx__tensor_scalar(cfx__tensor_get(number, 0), d));
}

/* The arguments of a call without numbers that stand for tensors. */
static void put_numbers(const cfx_op_call *c, cfx_value *args) {
    const cfx_tensor *beside = NULL;
    for (int i = 0; i < c->nargs && !beside; i++)
        if (c->args[i].tag == CFX_TAG_TENSOR &&
            !(cfx_as_tensor(c->args[i])->head.flags & CFX__WRAPPED))
            beside = cfx_as_tensor(c->args[i]);
    for (int i = 0; i < c->nargs; i++) {
        const bool number = c->args[i].tag == CFX_TAG_TENSOR &&
                            cfx_as_tensor(c->args[i])->head.flags & CFX__WRAPPED;
        args[i] = number ? plain_number(cfx_as_tensor(c->args[i]), beside) : c->args[i];
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_tensor(cfx__text *t, const cfx_tensor *x) {
    cfx__text_printf(t, "t%d", x->dtype);
    for (int i = 0; i < x->ndim; i++)
        cfx__text_printf(t, "%c%lld:%lld", i ? ',' : '[', (long long)x->shape[i],
                         (long long)x->stride[i]);
}

/* What a plan depends on of an argument; false where that cannot be told. */
static bool put_value(cfx__text *t, cfx_value v) {
    switch (v.tag) {
    case CFX_TAG_TENSOR: {
        const cfx_tensor *x = cfx_as_tensor(v);
        put_tensor(t, x);
        return x->data && !(x->head.flags & (CFX__QUANTIZED | CFX__FAKE | CFX__TRACED));
    }
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        cfx__text_putc(t, '(');
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            if (!put_value(t, cfx_as_list(v)->items[i]))
                return false;
        cfx__text_putc(t, ')');
        return true;
    case CFX_TAG_NONE:
    case CFX_TAG_BOOL:
    case CFX_TAG_INT:
    case CFX_TAG_FLOAT:
    case CFX_TAG_STR:
    case CFX_TAG_DTYPE:
    case CFX_TAG_LAYOUT:
    case CFX_TAG_MEMORY_FORMAT: cfx__text_printf(t, ";%s", cfx_value_repr(v)); return true;
    case CFX_TAG_DEVICE: cfx__text_putc(t, ';'); return true;
    default: return false;
    }
}

/* The text that tells calls of other plans apart; NULL: there is none for such. Scope. */
static const char *key_of(const cfx_op_call *c, int card) {
    cfx__text t = {0};
    bool fine = true;
    cfx__text_printf(&t, "%d %p %d %d", card, (void *)c->op, (int)cfx__ctx()->precision,
                     cfx__ctx()->float_dtype);
    for (int i = 0; i < c->nargs && fine; i++) {
        cfx__text_putc(&t, ' ');
        fine = put_value(&t, c->args[i]);
    }
    for (int i = 0; i < c->nout && fine; i++)
        cfx__text_putc(&t, c->out[i] ? '1' : '0');
    const char *key = fine ? cfx__text_format("%s", t.data) : NULL;
    cfx__text_release(&t);
    return key;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* An argument with placeholders where it has tensors, which are put into the list of inputs. */
static cfx_value as_input(cfx_graph *g, cfx_value v, cfx_list *inputs) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_list_append(inputs, v);
        if (!g)
            return v;
        return cfx_node_value(cfx_graph_input(g, cfx__text_format("x%d", (int)inputs->len)));
    }
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return v;
    cfx_value list = cfx__value_like(v);
    for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
        cfx_list_append(cfx_as_list(list), as_input(g, cfx_as_list(v)->items[i], inputs));
    return list;
}

/* The tensors of a call in the order of the placeholders; scope. */
static cfx_list *inputs_of(const cfx_op_call *c) {
    cfx_list *inputs = cfx_as_list(cfx_list_value(0, NULL));
    for (int i = 0; i < c->nargs; i++)
        as_input(NULL, c->args[i], inputs);
    return inputs;
}

/* A module that does what the call does; scope. */
static cfx_module *module_of(const cfx_op_call *c) {
    cfx_graph *g = cfx_graph_new();
    cfx_list *inputs = cfx_as_list(cfx_list_value(0, NULL));
    const cfx__schema *s = cfx__op_info_of(c->op)->schema;
    cfx_value args = cfx_tuple_value(0, NULL);
    cfx_dict *named = cfx_dict_new();
    for (int i = 0; i < c->nargs; i++) {
        const cfx_value v = as_input(g, c->args[i], inputs);
        if (i < s->npositional)
            cfx_list_append(cfx_as_list(args), v);
        else
            cfx_dict_set(named, s->args[i].name, v);
    }
    cfx_node *n = cfx_graph_create(g, CFX_CALL_FUNCTION,
                                   (cfx_target){.op = c->op, .name = cfx_op_name(c->op)}, args,
                                   cfx_dict_value(named), "y", NULL);
    cfx_value results = cfx_node_value(n);
    if (c->nout > 1) {
        results = cfx_tuple_value(0, NULL);
        for (int i = 0; i < c->nout; i++)
            if (c->out[i])
                cfx_list_append(cfx_as_list(results),
                                cfx_node_value(cfx_graph_call(g, "operator.getitem", n, i)));
    }
    cfx_graph_output(g, results);
    return cfx_graph_module(NULL, g, NULL);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool has_host_steps(const cfx__cuda_plan *p) {
    for (size_t i = 0; i < p->steps.len; i++)
        if (p->steps.data[i].kind == CFX__CUDA_HOST)
            return true;
    return !p->steps.len;
}

/* A plan for a call; NULL where the host has to run it, with an error where the card said no. */
static cfx__cuda_plan *plan_of(cfx__cuda_device *d, const cfx_execution *e) {
    cfx__cuda_plan *p = cfx__cuda_plan_make(d, e);
    if (!p) /* sizes that data tell, say: what else is wrong the host will say */
        cfx_error_clear();
    else if (p->failed)
        cfx_fail(p->failure, e->at, "%s", p->failed);
    else if (!has_host_steps(p))
        return p;
    cfx_drop(p);
    return NULL;
}

static bool is_argument(const cfx_op_call *c, const cfx_tensor *t) {
    for (int i = 0; i < c->nargs; i++)
        if (c->args[i].tag == CFX_TAG_TENSOR && cfx_as_tensor(c->args[i])->storage == t->storage)
            return true;
    return false;
}

/* A result goes to the tensor that the call has for it, which takes over its memory where that is
 * nobody else's. */
static bool take(cfx__cuda_device *d, const cfx_op_call *c, cfx_tensor *to, cfx_tensor *from) {
    if (!cfx__tensor_same_shape(to, from) || to->dtype != from->dtype) {
        cfx_fail(CFX_RUNTIME_ERROR, c->at, "%s gives %s on a card, and %s on the host",
                 cfx_op_name(c->op), cfx__shape_text(from->ndim, from->shape),
                 cfx__shape_text(to->ndim, to->shape));
        return false;
    }
    if (to->storage->head.refs == 1 && !is_argument(c, to) && cfx__plan_lies_like(to, from))
        cfx__tensor_become(to, from);
    else
        return cfx__cuda_copy_tensor(d, to, from);
    return true;
}

static bool run(cfx__cuda_plan *p, const cfx_op_call *c, const cfx_execution *e) {
    const cfx_value v = cfx__cuda_plan_run(p, e);
    for (int i = 0, k = 0; i < c->nout && cfx_ok(); i++) {
        if (!c->out[i])
            continue;
        const cfx_value one = c->nout == 1 ? v : cfx_at(v, k++);
        if (one.tag == CFX_TAG_TENSOR)
            take(p->device, c, c->out[i], cfx_as_tensor(one));
    }
    return true;
}

/* Whether the call is one that a plan of one node can be. */
static bool is_plannable(const cfx_op_call *c) {
    for (int i = 0; i < c->nout; i++)
        if (c->out[i] && (!c->out[i]->data || c->out[i]->head.flags & CFX__QUANTIZED))
            return false;
    return c->nout && !c->note && !(c->op->effects & (CFX_RANDOM | CFX_DATA_SHAPE | CFX_FOREIGN)) &&
           !cfx__op_call_writes(c->op, c->args);
}

static bool run_or_make(cfx__cuda_device *d, const cfx_op_call *c, const char *key) {
    cfx__cuda_plan *plan = NULL;
    cfx_module *module = NULL;
    const cfx_list *inputs = inputs_of(c);
    cfx_execution e = {.at = c->at, .inputs = {(int)inputs->len, inputs->items, NULL}};
    const bool known = find(key, &plan, &module);
    if (!known && inputs->len) {
        module = cfx_keep(module_of(c));
        e.module = module;
        e.graph = cfx_ok() ? module->graph : NULL;
        plan = cfx_ok() ? plan_of(d, &e) : NULL;
        if (cfx_ok())
            keep(key, plan, module);
    }
    e.module = module;
    e.graph = plan ? module->graph : NULL;
    const bool done = plan && run(plan, c, &e);
    cfx_drop(plan);
    cfx_drop(module);
    return done || !cfx_ok();
}

/* Whether a tensor can stand for a result: one of its kind, on its device. */
static bool is_alike(const cfx_tensor *t, const cfx_tensor *result) {
    return t->dtype == result->dtype && cfx__tensor_same_shape(t, result) &&
           cfx__device_card(t->device) == cfx__device_card(result->device);
}

/* A call that has no kernel by the calls that its operator is made of, each of which comes here in
 * turn: tensors stay on the card. False where it is not known what that is, or where it fails: what
 * is wrong the host will say. */
static bool run_parts(cfx__cuda_device *d, const cfx_op_call *c) {
    cfx_op_fn *parts = cfx__c_made_of(c->op);
    cfx_op_call made = *c;
    bool fits = true, any = false;
    if (!parts)
        return false;
    memset(made.out, 0, sizeof made.out);
    parts(&made);
    for (int i = 0; i < c->nout && cfx_ok(); i++) {
        any |= c->out[i] != NULL; /* else the kernel makes its results itself */
        fits = fits && (!c->out[i] || (made.out[i] && is_alike(made.out[i], c->out[i])));
    }
    if (!cfx_ok() || !fits || !any) {
        cfx__error_forgive();
        return false;
    }
    for (int i = 0; i < c->nout && cfx_ok(); i++)
        if (c->out[i])
            take(d, c, c->out[i], made.out[i]);
    return cfx_ok();
}

/* A batch norm in training as a call that writes to nothing: new running statistics are further
 * results, which are copied to the tensors that have the old ones. Any other call as it is. */
static cfx_op_call without_writes(const cfx_op_call *c) {
    cfx_op_call to = *c;
    const bool batch_norm = c->op == &cfx_op_batch_norm || c->op == &cfx_op_native_batch_norm ||
                            c->op == &cfx_op__native_batch_norm_legit;
    if (!batch_norm || c->nout > 3 || !cfx__op_call_writes(c->op, c->args) ||
        c->args[3].tag != CFX_TAG_TENSOR || c->args[4].tag != CFX_TAG_TENSOR)
        return to;
    to.op = &cfx_op__native_batch_norm_legit_functional;
    to.nargs = 8; /* the first ones are the same */
    to.nout = 5;
    for (int i = c->nout; i < 5; i++)
        to.out[i] = i < 3 ? NULL : cfx_as_tensor(c->args[i]);
    return to;
}

bool cfx__cuda_call(cfx_op_call *c, int card) {
    cfx_value args[CFX_MAX_ARGS];
    cfx_op_call own = without_writes(c);
    if (!is_plannable(&own))
        return false;
    cfx__cuda_device *d = cfx__cuda_device_open(card);
    if (!d)
        return true;
    size_t mark = cfx_scope_open();
    cfx__dispatch *dispatch = cfx__dispatcher(), before = *dispatch;
    const int outer = cfx__ctx()->card;
    *dispatch = (cfx__dispatch){.grad = CFX_INFERENCE, .at = before.at};
    cfx__ctx()->card = 0;
    own.args = args;
    put_numbers(c, args);
    const char *key = cfx_ok() ? key_of(&own, card) : NULL;
    bool done = key && run_or_make(d, &own, key);
    cfx__ctx()->card = outer;
    done = done || (cfx_ok() && run_parts(d, &own));
    for (int i = 3; done && own.op != c->op && i < own.nout; i++)
        own.out[i]->storage->version++;
    *dispatch = before;
    cfx_scope_close(mark);
    return done || !cfx_ok();
}
