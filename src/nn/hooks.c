/* Hooks: functions of the caller's around the calls of a module, on the way there and on the way
 * back. Order and rules are PyTorch's: global hooks come before the module's own, each kind in the
 * order of registration, and what is registered when a kind's turn comes is what runs. */
#include <cfx/ops.h>

#include "../base/held.h"
#include "nn.h"

/* ---- put on and take off ----------------------------------------------------------------------
 */

static const cfx__obj_type handle_type = {.name = "hook"};

static cfx__hook_list *list_of(const cfx_hook_handle *h) {
    return h->module ? &h->module->own_->hooks : &cfx__nn_state_get()->hooks;
}

static cfx_hook_handle *add(cfx_module *m, cfx_hook_handle like) {
    cfx_hook_handle *h = cfx__obj_new(&handle_type, sizeof *h);
    cfx_obj head = h->head;
    *h = like;
    h->head = head;
    h->module = m;
    h->on = true;
    cfx__hook_list *list = list_of(h);
    VEC_PUSH(*list, cfx_keep(h));
    if (h->options.prepend) {
        memmove(list->data + 1, list->data, (list->len - 1) * sizeof *list->data);
        list->data[0] = h;
    }
    return h;
}

cfx_hook_handle *cfx_hook_from(cfx_site at, cfx_hook_kind kind, cfx_module *m, const char *path,
                               cfx_hook_fn *fn, void *user, cfx_hook_options options) {
    cfx_module *on = cfx_module_find(m, path);
    if (!fn) {
        cfx_fail(CFX_TYPE_ERROR, at, "a hook is a function, not NULL");
        return NULL;
    }
    if (!on || cfx__obj_is_bad(on)) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "%s has no module '%s' to hook", m ? m->type : "None",
                 path ? path : "");
        return NULL;
    }
    return add(
        on, (cfx_hook_handle){.kind = kind, .fn = fn, .user = user, .options = options, .at = at});
}

cfx_hook_handle *cfx_global_hook_from(cfx_site at, cfx_hook_kind kind, cfx_hook_fn *fn, void *user,
                                      cfx_hook_options options) {
    if (!fn) {
        cfx_fail(CFX_TYPE_ERROR, at, "a hook is a function, not NULL");
        return NULL;
    }
    return add(NULL, (cfx_hook_handle){
                         .kind = kind, .fn = fn, .user = user, .options = options, .at = at});
}

void cfx__hook_copy(cfx_module *to, const cfx_hook_handle *h) {
    if (h->stays)
        return;
    cfx_hook_handle like = *h;
    like.options.prepend = false;
    if (h->selector)
        like.selector = cfx__module_text(to, h->selector);
    add(to, like);
}

void cfx_hook_remove(cfx_hook_handle *h) {
    if (!h || !h->on)
        return;
    cfx__hook_list *list = list_of(h);
    h->on = false;
    h->module = NULL;
    size_t i = 0;
    while (list->data[i] != h)
        i++;
    list->len--;
    memmove(list->data + i, list->data + i + 1, (list->len - i) * sizeof *list->data);
    cfx_drop(h);
}

int cfx_hook_count(const cfx_module *m) { return m ? (int)m->own_->hooks.len : 0; }

void cfx__hook_list_free(cfx__hook_list *list) {
    for (size_t i = 0; i < list->len; i++) {
        list->data[i]->module = NULL;
        list->data[i]->on = false;
        cfx_drop(list->data[i]);
    }
    VEC_FREE(*list);
}

/* ---- those of a kind, now ---------------------------------------------------------------------
 */

/* Hooks that are to run, kept by the scope: a hook may add and remove hooks. */
typedef struct turn {
    cfx_hook_handle **hooks;
    size_t n;
} turn;

static turn hooks_now(const cfx_module *m, cfx_hook_kind kind) {
    const cfx__hook_list *lists[] = {&cfx__nn_state_get()->hooks, &m->own_->hooks};
    turn t = {0};
    t.hooks = cfx__alloc((lists[0]->len + lists[1]->len + 1) * sizeof *t.hooks);
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->len; i++)
            if (lists[l]->data[i]->kind == kind)
                t.hooks[t.n++] = cfx__scope_own(cfx_keep(lists[l]->data[i]));
    return t;
}

static cfx_value call_hook(const cfx_hook_handle *h, cfx_event e) {
    e.user = h->user;
    if (!h->options.with_kwargs)
        e.args.kw = NULL;
    return h->fn(&e);
}

cfx_hook_handle **cfx__module_node_hooks(const cfx_module *m, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < m->own_->hooks.len; i++)
        *n += m->own_->hooks.data[i]->kind == CFX_NODE;
    if (!*n)
        return NULL;
    turn t = hooks_now(m, CFX_NODE);
    *n = t.n;
    return t.hooks;
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* What a pre-hook with keyword arguments gave: (args, kwargs). */
static bool take_both(const cfx_hook_handle *h, cfx_value v, cfx_args *a) {
    bool pair = v.tag == CFX_TAG_TUPLE && cfx_as_list(v)->len == 2 &&
                cfx_as_list(v)->items[0].tag == CFX_TAG_TUPLE &&
                cfx_as_list(v)->items[1].tag == CFX_TAG_DICT;
    if (!pair) {
        cfx_fail(CFX_RUNTIME_ERROR, h->at,
                 "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                 "%s.",
                 cfx_value_repr(v));
        return false;
    }
    cfx_value args = cfx_as_list(v)->items[0];
    *a = (cfx_args){(int)cfx_as_list(args)->len, cfx_as_list(args)->items,
                    cfx_as_dict(cfx_as_list(v)->items[1])};
    return true;
}

static cfx_args run_before(cfx_module *m, cfx_args a) {
    turn t = hooks_now(m, CFX_FORWARD_PRE);
    for (size_t i = 0; i < t.n && cfx_ok(); i++) {
        cfx_value v = call_hook(t.hooks[i], (cfx_event){.module = m, .args = a});
        if (cfx_is_none(v) || cfx_is_bad(v))
            continue;
        if (t.hooks[i]->options.with_kwargs) {
            take_both(t.hooks[i], v, &a);
            continue;
        }
        if (v.tag != CFX_TAG_TUPLE)
            v = cfx_tuple_value(1, &v);
        a = (cfx_args){(int)cfx_as_list(v)->len, cfx_as_list(v)->items, a.kw};
    }
    cfx__free(t.hooks);
    return a;
}

/* Forward hooks from number *next on; stops at the first that fails. */
static cfx_value run_after(cfx_module *m, cfx_args a, cfx_value out, const turn *t, size_t *next) {
    while (*next < t->n && cfx_ok()) {
        cfx_value v =
            call_hook(t->hooks[(*next)++], (cfx_event){.module = m, .args = a, .out = out});
        if (!cfx_is_none(v))
            out = v;
    }
    return out;
}

/* After a failure: the hooks that are always called and were not yet. What goes wrong in them is
 * forgotten, the error there was stays. */
static void run_always(cfx_module *m, cfx_args a, cfx_value out, const turn *t, size_t next) {
    cfx__error_held held;
    cfx__error_hold(&held);
    for (; next < t->n; next++) {
        if (!t->hooks[next]->options.always_call)
            continue;
        cfx_value v = call_hook(t->hooks[next], (cfx_event){.module = m, .args = a, .out = out});
        if (!cfx_is_none(v) && !cfx_is_bad(v))
            out = v;
        cfx_error_clear();
    }
    cfx__error_put_back(&held);
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* One call of a module with backward hooks is a dict that both gates hold: "module", "hooks" (a
 * count: whether a gradient passes the inputs), "n", "places" and, once it came by, "grad_output".
 * A gate is an operator that gives its tensors on as views; the backward pass goes through its
 * gradient column, which calls the hooks. */

static turn backward_hooks(const cfx_dict *call, cfx_hook_kind kind) {
    return hooks_now(cfx_as_module(cfx_dict_get(call, "module")), kind);
}

/* A tuple of n values in which the items of `grads` are at their places, None elsewhere. */
static cfx_value spread(cfx_value places, int64_t n, int64_t count, cfx_tensor *const *grads) {
    cfx_value out = cfx_tuple_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        cfx_list_append(cfx_as_list(out), cfx_none());
    for (int64_t i = 0; i < count && i < cfx_as_list(places)->len; i++)
        cfx_as_list(out)->items[cfx_integer(cfx_as_list(places)->items[i])] =
            cfx_value_keep(cfx_tensor_value(grads[i]));
    return out;
}

/* What a backward hook gave in place of `was`: as many, each a tensor or None. */
static bool replaces(const cfx_hook_handle *h, const char *what, cfx_value v, cfx_value was) {
    bool pre = h->kind == CFX_BACKWARD_PRE;
    int64_t n = v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST ? cfx_as_list(v)->len : 1;
    if (n != cfx_as_list(was)->len) {
        cfx_fail(CFX_RUNTIME_ERROR, h->at,
                 "%s returned an invalid number of %s, got %lld, but expected %lld",
                 pre ? "Backward pre hook" : "Backward hook", what, (long long)n,
                 (long long)cfx_as_list(was)->len);
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        cfx_value g = n == 1 && v.tag == CFX_TAG_TENSOR ? v : cfx_at(v, i);
        const cfx_tensor *old = cfx_as_list(was)->items[i].tag == CFX_TAG_TENSOR
                                    ? cfx_as_tensor(cfx_as_list(was)->items[i])
                                    : NULL;
        if (g.tag != CFX_TAG_TENSOR && g.tag != CFX_TAG_NONE) {
            cfx_fail(CFX_TYPE_ERROR, h->at, "expected Variable, but hook returned '%s'",
                     cfx__value_python_type(g));
            return false;
        }
        if (g.tag == CFX_TAG_TENSOR && old && !cfx__tensor_same_shape(cfx_as_tensor(g), old)) {
            cfx_fail(CFX_RUNTIME_ERROR, h->at, "hook 'hook' has changed the size of value");
            return false;
        }
    }
    return true;
}

static cfx_value as_tuple(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tuple_value(1, &v) : v;
}

/* Runs the hooks of a kind on a tuple of gradients; what they make of it. */
static cfx_value run_backward(const cfx_dict *call, cfx_hook_kind kind, cfx_value in,
                              cfx_value out) {
    cfx_module *m = cfx_as_module(cfx_dict_get(call, "module"));
    bool pre = kind == CFX_BACKWARD_PRE;
    turn t = backward_hooks(call, kind);
    for (size_t i = 0; i < t.n && cfx_ok(); i++) {
        cfx_event e = {.module = m, .grad_in = in, .grad_out = out};
        cfx_value v = call_hook(t.hooks[i], e), *to = pre ? &out : &in;
        if (cfx_is_none(v) || cfx_is_bad(v))
            continue;
        if (replaces(t.hooks[i], pre ? "grad_output" : "grad_input", v, *to))
            *to = as_tuple(v);
    }
    cfx__free(t.hooks);
    return pre ? out : in;
}

/* Where no input takes a gradient the hooks run at the outputs, and can replace nothing. */
static void run_without_inputs(const cfx_dict *call, cfx_value out) {
    cfx_value in = spread(cfx_list_value(0, NULL), cfx_integer(cfx_dict_get(call, "n")), 0, NULL);
    cfx_value given = run_backward(call, CFX_BACKWARD, in, out);
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(given)->len; i++)
        if (!cfx_is_none(cfx_as_list(given)->items[i]))
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                     "Backward hook for Modules where no input requires gradient should always "
                     "return None or None for all gradients.");
}

/* The gradient of a gate: self, call, places, n, after. */
static void grad_gate(cfx_back *b) {
    cfx_dict *call = cfx_as_dict(b->args[1]);
    cfx_value places = b->args[2], grads, given = cfx_list_value(0, NULL);
    bool after = cfx_integer(b->args[4]) != 0;
    grads = spread(places, cfx_integer(b->args[3]), b->nout, b->gout);
    if (after) {
        grads = run_backward(call, CFX_BACKWARD_PRE, cfx_none(), grads);
        cfx_dict_set(call, "grad_output", grads);
        if (cfx_ok() && cfx_integer(cfx_dict_get(call, "alone")))
            run_without_inputs(call, grads);
    } else {
        grads = run_backward(call, CFX_BACKWARD, grads, cfx_dict_get(call, "grad_output"));
        cfx_dict_remove(call, cfx_string_value("grad_output"));
    }
    for (int64_t i = 0; cfx_ok() && i < cfx_as_list(places)->len; i++)
        cfx_list_append(cfx_as_list(given),
                        cfx_as_list(grads)->items[cfx_integer(cfx_as_list(places)->items[i])]);
    b->gin[0] = given;
}

static void view_gate(cfx_op_call *c) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(c->args[0])->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(cfx_as_list(c->args[0])->items[i]);
        cfx_list_append(cfx_as_list(list), cfx_tensor_value(cfx__tensor_alias(t, t->ndim, t->shape,
                                                                      t->stride, t->offset)));
    }
    c->result = list;
}

/* Not in the registry: nobody calls it by name. */
cfx_op cfx__hook_gate = {
    "cfx::gate(Tensor[] self, t call, t places, int n, bool after) -> Tensor[]", NULL,
    .kernel = view_gate, .shape = view_gate, .grad = grad_gate};

/* Leads the tensors among n values that take a gradient through a gate; whether there were any. */
static bool pass_gate(cfx_dict *call, cfx_value *v, int64_t n, bool after) {
    cfx_value list = cfx_list_value(0, NULL), places = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < n; i++)
        if (v[i].tag == CFX_TAG_TENSOR && cfx_tensor_requires_grad(cfx_as_tensor(v[i]))) {
            cfx_list_append(cfx_as_list(list), v[i]);
            cfx_list_append(cfx_as_list(places), cfx_int(i));
        }
    if (!cfx_as_list(list)->len || !cfx__grad_records())
        return false;
    cfx_value out = cfx_op_do(&cfx__hook_gate, list, call, places, n, cfx_bool(after));
    for (int64_t i = 0; !cfx_is_bad(out) && i < cfx_as_list(places)->len; i++)
        v[cfx_integer(cfx_as_list(places)->items[i])] = cfx_at(out, i);
    return true;
}

static bool has_backward(const cfx_module *m) {
    const cfx__hook_list *lists[] = {&cfx__nn_state_get()->hooks, &m->own_->hooks};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->len; i++)
            if (lists[l]->data[i]->kind == CFX_BACKWARD_PRE ||
                lists[l]->data[i]->kind == CFX_BACKWARD)
                return true;
    return false;
}

/* The inputs of a call as its forward gets them. */
static cfx_args gate_inputs(cfx_module *m, cfx_args a, cfx_dict **call) {
    cfx_value tuple = cfx_tuple_value(a.n, a.v);
    *call = cfx_dict_new();
    cfx_dict_set(*call, "module", cfx_module_value(m));
    cfx_dict_set(*call, "n", cfx_int(a.n));
    cfx_value *v = cfx__alloc((size_t)(a.n + 1) * sizeof *v);
    memcpy(v, a.v, (size_t)a.n * sizeof *v);
    bool some = pass_gate(*call, v, a.n, false);
    cfx_dict_set(*call, "alone", cfx_bool(!some));
    if (some)
        tuple = cfx_tuple_value(a.n, v);
    cfx__free(v);
    return (cfx_args){a.n, cfx_as_list(tuple)->items, a.kw};
}

static cfx_value gate_outputs(cfx_dict *call, cfx_value out) {
    if (out.tag == CFX_TAG_TENSOR) {
        pass_gate(call, &out, 1, true);
        return out;
    }
    if (out.tag != CFX_TAG_TUPLE)
        return out; /* dicts and lists pass: PyTorch's hooks do not see them either */
    int64_t n = cfx_as_list(out)->len;
    cfx_value *v = cfx__alloc((size_t)(n + 1) * sizeof *v);
    memcpy(v, cfx_as_list(out)->items, (size_t)n * sizeof *v);
    out = pass_gate(call, v, n, true) ? cfx_tuple_value(n, v) : out;
    cfx__free(v);
    return out;
}

/* ---- a call with hooks ------------------------------------------------------------------------
 */

cfx_value cfx__module_call_hooked(cfx_site at, cfx_module *m, cfx_args a, cfx__module_run_fn *run) {
    bool backward = has_backward(m);
    cfx_dict *call = NULL;
    a = run_before(m, a);
    cfx_args inner = backward && cfx_ok() ? gate_inputs(m, a, &call) : a;
    cfx_value v = cfx_ok() ? run(at, m, inner) : cfx_bad();
    turn after = hooks_now(m, CFX_FORWARD);
    size_t next = 0;
    if (!cfx_is_bad(v))
        v = run_after(m, a, v, &after, &next);
    if (!cfx_ok())
        run_always(m, a, cfx_is_bad(v) ? cfx_none() : v, &after, next);
    cfx__free(after.hooks);
    return call && cfx_ok() ? gate_outputs(call, v) : cfx_ok() ? v : cfx_bad();
}
