/* Nodes: arguments, uses and replacement. Metadata is in meta.c.
 *
 * Arguments change in one place, cfx__node_put_args: as in torch.fx, all uses of a node are taken
 * back and registered anew, so a user whose arguments were set is the last user of its inputs. One
 * node of a long list is replaced where it is, though (swap_in_place). */
#include "meta.h"

/* A traced tensor has its graph in t->proxy, counted, so that the node lives as long as somebody
 * stands for it, and the number of the node there in t->offset, which means nothing otherwise. */
cfx_node *cfx__traced_node(cfx_value v) {
    if (v.tag == CFX_TAG_NODE)
        return cfx_as_node(v);
    if (v.tag != CFX_TAG_TENSOR || !(cfx_as_tensor(v)->head.flags & CFX__TRACED))
        return NULL;
    return &((cfx_graph *)cfx_as_tensor(v)->proxy)->made.data[cfx_as_tensor(v)->offset]->pub;
}

const char *cfx__node_name(const cfx_node *n) { return n ? n->name : "None"; }

/* ---- uses ----------------------------------------------------------------------------------- */

/* Takes a use out of those of the node that is used. */
static inline void take_user(cfx_use *u) {
    cfx_node *used = u->node;
    *(u->prev_ ? &u->prev_->next : &used->users) = u->next;
    if (u->next)
        u->next->prev_ = u->prev_;
    else
        cfx__node_of(used)->last_user = u->prev_;
    used->num_users--;
    if (cfx__node_of(used)->mark == u->user)
        cfx__node_of(used)->mark = NULL;
}

void cfx__node_drop_uses(cfx_node *n) {
    cfx_graph *g = n->graph;
    for (cfx_use *u = n->inputs, *next; u; u = next) {
        next = u->next_input;
        take_user(u);
        u->next_input = g->spare_uses;
        g->spare_uses = u;
    }
    n->inputs = NULL;
}

/* Whether g keeps `other`, itself or through graphs that it keeps. */
static bool keeps(const cfx_graph *g, const cfx_graph *other) {
    if (g == other)
        return true;
    for (size_t i = 0; i < g->foreign.len; i++)
        if (keeps(g->foreign.data[i], other))
            return true;
    return false;
}

/* A graph whose node is used here has to live as long. One that keeps this graph cannot be kept in
 * turn, or neither would ever go: when it goes, its nodes become None here. */
static void keep_foreign(cfx_graph *g, cfx_graph *other) {
    for (size_t i = 0; i < g->foreign.len; i++)
        if (g->foreign.data[i] == other)
            return;
    if (keeps(other, g))
        g->borrows = other->lent = true;
    else
        VEC_PUSH(g->foreign, cfx_keep(other));
}

enum { LONG = 64 }; /* lists of so many items are changed in place, where nobody else has them */

typedef struct uses {
    cfx_node *user;
    cfx_use *last;
    cfx_list *list; /* what the nodes come from, where it is a long list; or NULL */
    int64_t place;
} uses;

static inline void append_user(cfx_node *used, cfx_use *u) {
    cfx__node *own = cfx__node_of(used);
    u->prev_ = own->last_user;
    u->next = NULL;
    *(u->prev_ ? &u->prev_->next : &used->users) = u;
    own->last_user = u;
    used->num_users++;
}

static inline void add_use(uses *s, cfx_node *used) {
    cfx__node *own = cfx__node_of(used);
    if (own->mark == s->user) {
        own->last_user->several_ = true;
        return;
    }
    own->mark = s->user;
    cfx_graph *g = s->user->graph;
    if (unlikely(used->graph != g))
        keep_foreign(g, used->graph);
    cfx_use *u = g->spare_uses;
    if (u)
        g->spare_uses = u->next_input;
    else
        u = cfx__arena_alloc(&g->arena, sizeof *u);
    *u = (cfx_use){.node = used, .user = s->user, .prev_input_ = s->last, .long_ = s->list,
                   .place_ = s->place};
    append_user(used, u);
    *(s->last ? &s->last->next_input : &s->user->inputs) = u;
    s->last = u;
}

static void add_use_of(cfx_node *used, void *data) { add_use(data, used); }

/* Adds the nodes of a list or tuple; the places of those in long ones are noted. */
static void add_uses_of(uses *s, cfx_value v) {
    cfx_list *l = cfx_as_list(v);
    for (int64_t i = 0; i < l->len; i++) {
        cfx_value item = l->items[i];
        s->list = l->len >= LONG ? l : NULL;
        s->place = i;
        if (item.tag == CFX_TAG_NODE) {
            add_use(s, cfx_as_node(item));
        } else if (item.tag > CFX_TAG_NODE) {
            s->list = NULL;
            if (cfx__value_object(v) == cfx__value_object(s->user->args) &&
                (item.tag == CFX_TAG_LIST || item.tag == CFX_TAG_TUPLE))
                add_uses_of(s, item);
            else
                cfx__node_each(item, add_use_of, s);
        }
    }
    s->list = NULL;
}

static void set_args(cfx_node *n, cfx_value args, cfx_value kwargs) {
    const cfx_graph *g = n->graph;
    if (cfx__value_object(n->args) != cfx__value_object(g->no_args))
        cfx_value_drop(n->args);
    if (cfx__value_object(n->kwargs) != cfx__value_object(g->no_kwargs))
        cfx_value_drop(n->kwargs);
    n->args = args;
    n->kwargs = kwargs;
}

void cfx__node_put_args(cfx_node *n, cfx_value args, cfx_value kwargs) {
    if (n->inputs)
        cfx__node_drop_uses(n);
    cfx__node_of(n)->stale = true;
    set_args(n, args, kwargs);
    uses s = {.user = n};
    add_uses_of(&s, args);
    if (cfx_as_dict(kwargs)->len)
        cfx__node_each(kwargs, add_use_of, &s);
    cfx__graph_count(n->graph, n);
}

/* The value as set_args wants it: nodes without arguments share the graph's empty ones. */
static cfx_value map_args(const cfx_graph *g, cfx_value v, cfx__node_fn *fn, void *user) {
    if (v.tag == CFX_TAG_TUPLE ? !cfx_as_list(v)->len : !cfx_as_dict(v)->len)
        return v.tag == CFX_TAG_TUPLE ? g->no_args : g->no_kwargs;
    return cfx__node_map(v, fn, user);
}

void cfx__node_map_args(cfx_node *n, cfx__node_fn *fn, void *user) {
    cfx__node_clone_args(n, n, fn, user);
}

/* Arguments stay as they are where one has nothing to stand for it: there is an error then. */
void cfx__node_clone_args(cfx_node *n, const cfx_node *from, cfx__node_fn *fn, void *user) {
    cfx_value args = map_args(n->graph, from->args, fn, user);
    if (cfx_is_bad(args))
        return;
    cfx_value kwargs = map_args(n->graph, from->kwargs, fn, user);
    if (!cfx_is_bad(kwargs))
        cfx__node_put_args(n, args, kwargs);
    else if (cfx__value_object(args) != cfx__value_object(n->graph->no_args))
        cfx_value_drop(args);
}

/* One more count for arguments that stay. */
static cfx_value keep_args(const cfx_node *n) {
    return cfx__value_object(n->args) == cfx__value_object(n->graph->no_args)
               ? n->args
               : cfx_value_keep(n->args);
}

static cfx_value keep_kwargs(const cfx_node *n) {
    return cfx__value_object(n->kwargs) == cfx__value_object(n->graph->no_kwargs)
               ? n->kwargs
               : cfx_value_keep(n->kwargs);
}

static cfx_value list_uses(const cfx_use *u, bool users) {
    cfx_value list = cfx_list_value(0, NULL);
    for (; u; u = users ? u->next : u->next_input)
        cfx_list_append(cfx_as_list(list), cfx_node_value(users ? u->user : u->node));
    return list;
}

cfx_value cfx_node_users(const cfx_node *n) { return list_uses(n ? n->users : NULL, true); }
cfx_value cfx_node_inputs(const cfx_node *n) { return list_uses(n ? n->inputs : NULL, false); }

cfx_node *cfx_node_user(const cfx_node *n, int k) {
    const cfx_use *u = n && k >= 0 ? n->users : NULL;
    for (; u && k > 0; k--)
        u = u->next;
    return u ? u->user : NULL;
}

cfx_node *cfx_node_input(const cfx_node *n, int k) {
    const cfx_use *u = n && k >= 0 ? n->inputs : NULL;
    for (; u && k > 0; k--)
        u = u->next_input;
    return u ? u->node : NULL;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* Freezes v and hands over a count; false, with an error, when it cannot be an argument. */
static bool freeze(cfx_value v, cfx_value *out) {
    *out = cfx__graph_freeze(v);
    if (cfx_is_bad(*out) && cfx_ok())
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "an argument of the node is bad");
    return !cfx_is_bad(*out);
}

/* Whether there is a node that is still in its graph. */
static bool is_live(const cfx_node *n) {
    if (!cfx__node_given(n))
        return false;
    if (n->erased)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "Node %s was erased", n->name);
    return !n->erased;
}

/* Whether a value is of this kind, or None, which stands for an empty one. */
static bool has_kind(cfx_value v, cfx_tag tag, const char *what) {
    bool fits = v.tag == tag || cfx_is_none(v);
    if (!fits && v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0}, "%s, got %s", what, cfx__value_python_type(v));
    return fits;
}

bool cfx_node_set_args(cfx_node *n, cfx_value args) {
    cfx_value a;
    if (!is_live(n) || !has_kind(args, CFX_TAG_TUPLE, "args must be a tuple") ||
        !freeze(cfx_is_none(args) ? n->graph->no_args : args, &a))
        return false;
    cfx__node_put_args(n, a, keep_kwargs(n));
    return true;
}

bool cfx_node_set_kwargs(cfx_node *n, cfx_value kwargs) {
    cfx_value k;
    if (!is_live(n) || !has_kind(kwargs, CFX_TAG_DICT, "kwargs must be a dict") ||
        (!cfx_is_none(kwargs) && !cfx__graph_keywords_fit(cfx_as_dict(kwargs))) ||
        !freeze(cfx_is_none(kwargs) ? n->graph->no_kwargs : kwargs, &k))
        return false;
    cfx__node_put_args(n, keep_args(n), k);
    return true;
}

/* The arguments with v at i instead of `gone` (0 or 1) old ones. */
static bool splice(cfx_node *n, int64_t i, int gone, cfx_value v) {
    const cfx_list *old = cfx_as_list(n->args);
    cfx_value frozen;
    if (!freeze(v, &frozen))
        return false;
    cfx_list *l = cfx__list_alloc(old->len + 1 - gone);
    for (int64_t k = 0; k < l->len; k++)
        l->items[k] = k == i ? frozen : cfx_value_keep(old->items[k < i ? k : k - 1 + gone]);
    l->head.flags |= CFX__FROZEN;
    cfx__node_put_args(n, cfx__value_of_list(n->args, l), keep_kwargs(n));
    return true;
}

bool cfx_node_set_arg(cfx_node *n, int i, cfx_value v) {
    if (!is_live(n))
        return false;
    int64_t len = cfx_as_list(n->args)->len, k = i < 0 ? i + len : i;
    if (k < 0 || k >= len) {
        cfx_fail(CFX_INDEX_ERROR, (cfx_site){0}, "list assignment index out of range");
        return false;
    }
    return splice(n, k, 1, v);
}

bool cfx_node_insert_arg(cfx_node *n, int i, cfx_value v) {
    if (!is_live(n))
        return false;
    if (i < 0 || i > cfx_as_list(n->args)->len) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0},
                 "insert_args index must be between 0 and len(self.args), got %d", i);
        return false;
    }
    return splice(n, i, 0, v);
}

bool cfx_node_set_kwarg(cfx_node *n, const char *key, cfx_value v) {
    if (!is_live(n) || !key)
        return false;
    size_t mark = cfx_scope_open();
    cfx_dict *d = cfx_dict_new();
    for (int64_t i = 0; i < cfx_as_dict(n->kwargs)->len; i++)
        cfx_dict_put(d, cfx_as_dict(n->kwargs)->entries[i].key,
                     cfx_as_dict(n->kwargs)->entries[i].value);
    cfx_dict_set(d, key, v);
    bool good = cfx_node_set_kwargs(n, cfx_dict_value(d));
    cfx_scope_close(mark);
    return good;
}

/* ---- replacement ---------------------------------------------------------------------------- */

typedef struct swap {
    cfx_node *old, *with;
} swap;

static cfx_value swap_node(cfx_node *n, void *data) {
    const swap *s = data;
    return cfx_node_value(n == s->old ? s->with : n);
}

enum { FEW = 8 };

/* The use of a node by a user, looked for where it came last and among a few; or NULL. */
static cfx_use *use_among_few(const cfx_node *n, const cfx_node *user) {
    const cfx__node *own = cfx__node_of(n);
    if (own->mark == user)
        return own->last_user;
    cfx_use *u = n->users;
    for (int i = 0; u && u->user != user; i++)
        u = i < FEW ? u->next : NULL;
    return u;
}

/* Takes u out of the inputs of its user; `by`, another of them, comes in its place, or NULL. */
static void take_input(cfx_use *u, cfx_use *by) {
    if (by)
        take_input(by, NULL);
    cfx_use *before = u->prev_input_, *after = u->next_input;
    if (by) {
        by->prev_input_ = before;
        by->next_input = after;
    }
    *(before ? &before->next_input : &u->user->inputs) = by ? by : after;
    if (after)
        after->prev_input_ = by ? by : before;
}

/* Puts `with` in the place of a node in a long list that only its user has, so that a call of many
 * nodes is not made anew for each. Unlike otherwise, the user stays where it is among the users of
 * its other inputs. False, with nothing done, where the list cannot be changed. */
static bool swap_in_place(cfx_node *user, cfx_node *old, cfx_node *with) {
    cfx_use *u = use_among_few(old, user), *other = use_among_few(with, user);
    const cfx_list *args = cfx_as_list(user->args);
    if (!u || !u->long_ || u->several_ || u->long_->head.refs != 1 || args->head.refs != 1 ||
        with->graph != user->graph)
        return false;
    if (other ? other->long_ != u->long_ : with->num_users > FEW)
        return false;
    u->long_->items[u->place_] = cfx_node_value(with);
    take_user(u);
    if (other) {
        bool later = other->place_ > u->place_;
        take_input(u, later ? other : NULL);
        other->place_ = later ? u->place_ : other->place_;
        other->several_ = true;
        u->next_input = user->graph->spare_uses;
        user->graph->spare_uses = u;
    } else {
        u->node = with;
        append_user(with, u);
        cfx__node_of(with)->mark = user;
    }
    cfx__graph_count(user->graph, user);
    return true;
}

/* What the user computes is then to be found out anew, unless `alike`: the results of the two are
 * the same but for their numbers. */
static void replace_in(cfx_node *user, cfx_node *old, cfx_node *with, bool alike) {
    swap s = {old, with};
    bool stale = cfx__node_of(user)->stale;
    if (!swap_in_place(user, old, with))
        cfx__node_map_args(user, swap_node, &s);
    cfx__node_of(user)->stale = stale || !alike;
}

static bool are_alike(const cfx_node *a, const cfx_node *b) {
    cfx_result x = cfx_node_result(a), y = cfx_node_result(b);
    return cfx_result_equal(&x, &y);
}

static void tell_replaced(cfx_node *old, cfx_node *with, cfx_node *user) {
    for (cfx_graph_hooks *h = old->graph->hooks, *next; h; h = next) {
        next = h->next_;
        if (h->replaced)
            h->replaced(h, old, with, user);
    }
}

int cfx_node_replace_if(cfx_node *n, cfx_node *with, cfx_node_filter *keep, void *data) {
    if (!cfx__node_given(n) || !is_live(with) || n == with)
        return 0;
    cfx_value users = cfx_node_users(n);
    bool alike = are_alike(n, with);
    int changed = 0;
    for (int64_t i = 0; i < cfx_as_list(users)->len; i++) {
        cfx_node *user = cfx_as_node(cfx_as_list(users)->items[i]);
        if (user == with || (keep && !keep(user, data)))
            continue;
        if (!cfx__limit_time())
            break;
        tell_replaced(n, with, user);
        replace_in(user, n, with, alike);
        changed++;
    }
    return changed;
}

int cfx_node_replace_with(cfx_node *n, cfx_value with) {
    return cfx_node_replace_if(n, cfx_is_bad(with) ? cfx__node_bad : cfx__traced_node(with), NULL,
                               NULL);
}

void cfx__node_replace_inputs(cfx_node *n, cfx__node_fn *fn, void *user) {
    bool stale = cfx__node_of(n)->stale, others = false;
    cfx_each_input(n, u) {
        cfx_node *with = cfx_as_node(fn(u->node, user));
        if (with == u->node)
            continue;
        others = true;
        stale = stale || !are_alike(u->node, with);
        tell_replaced(u->node, with, n);
    }
    if (!others)
        return;
    cfx__node_map_args(n, fn, user);
    cfx__node_of(n)->stale = stale;
}

int cfx_node_replace_with_meta(cfx_node *n, cfx_value with) {
    cfx_node *to = cfx_is_bad(with) ? cfx__node_bad : cfx__traced_node(with);
    if (!cfx__node_given(n) || !is_live(to))
        return 0;
    if (to->meta && to->meta->len) {
        cfx_fail(CFX_ASSERTION_ERROR, (cfx_site){0},
                 "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                 "replace_with already has .meta keys");
        return 0;
    }
    for (int64_t i = 0; n->meta && i < n->meta->len; i++)
        cfx_node_set_meta(to, cfx_text(n->meta->entries[i].key), n->meta->entries[i].value);
    return cfx_node_replace_if(n, to, NULL, NULL);
}

bool cfx_node_replace_input(cfx_node *n, cfx_node *old, cfx_node *with) {
    if (!is_live(n) || !cfx__node_given(old) || !is_live(with))
        return false;
    tell_replaced(old, with, n);
    replace_in(n, old, with, are_alike(old, with));
    return true;
}

/* ---- the rest ------------------------------------------------------------------------------- */

void cfx__node_put_target(cfx_node *n, cfx_target target) {
    cfx_keep(target.object);
    cfx_drop(n->target.object);
    target.name = n->target.name;
    n->target = target;
}

bool cfx_node_set_call(cfx_node *n, cfx_opcode op, cfx_target target) {
    if (!cfx__node_given(n))
        return false;
    if (!target.name && target.op)
        target.name = cfx_op_name(target.op);
    if (!target.name || (unsigned)op >= CFX__OPCODES) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the new %s of %s has no name",
                 target.name ? "op" : "target", n->name);
        return false;
    }
    if (!cfx__target_fits(op, target))
        return false;
    if (op == CFX_CALL_METHOD && !target.fn)
        target = cfx__graph_row_named(n->graph, op, target.name)->target;
    cfx__target_row *row = cfx__graph_row(n->graph, op, target);
    if (!n->erased) {
        cfx__target_row_remove(cfx__node_of(n));
        cfx__target_row_add(row, cfx__node_of(n));
    }
    cfx__graph_count(n->graph, n); /* it may be no placeholder any more */
    n->op = op;
    n->target.name = row->target.name;
    cfx__node_put_target(n, target);
    cfx__node_of(n)->stale = true;
    cfx__graph_count(n->graph, n);
    return true;
}

bool cfx_node_set_target(cfx_node *n, cfx_target target) {
    return cfx_node_set_call(n, n ? n->op : CFX_PLACEHOLDER, target);
}

void cfx_node_set_type(cfx_node *n, const char *type) {
    if (!cfx__node_given(n))
        return;
    n->type = type ? cfx__arena_copy(&n->graph->arena, type, strlen(type)) : NULL;
    n->graph->version++;
}
