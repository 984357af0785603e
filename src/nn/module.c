/* Modules: the tree, what it holds, and how things in it are found by name. Start at
 * cfx__module_get, which says what a name means; calls are in call.c, text and state in show.c. */
#include "nn.h"

static void module_free(void *p);

static const cfx__obj_type module_type = {.name = "module", .free = module_free};

static const cfx__module_children nobody;
static const struct cfx__module bad_own = {.children = (cfx__module_children *)&nobody};
static const cfx_dict bad_dict = {.head = {.refs = 1, .flags = CFX__BAD}};
cfx_module cfx__module_bad = {.head = {.refs = 1, .flags = CFX__BAD, .type = &module_type},
                              .type = "<bad>",
                              .path = "<bad>",
                              .name = "",
                              .signature = "",
                              .parameters = (cfx_dict *)&bad_dict,
                              .buffers = (cfx_dict *)&bad_dict,
                              .attrs = (cfx_dict *)&bad_dict,
                              .own_ = (struct cfx__module *)&bad_own};

bool cfx__module_given(const cfx_module *m) {
    if (likely(m && !cfx__obj_is_bad(m)))
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the module is %s", m ? "bad" : "NULL");
    return false;
}

/* ---- make ----------------------------------------------------------------------------------- */

const char *cfx__module_text(cfx_module *m, const char *text) {
    return cfx__arena_copy(&m->own_->arena, text, strlen(text));
}

static cfx__module_children *no_children(void) {
    cfx__module_children *c = cfx__alloc0(sizeof *c);
    c->refs = 1;
    return c;
}

static cfx_module *module_new(const char *type, int arity) {
    cfx_module *m = cfx__obj_new(&module_type, sizeof *m);
    m->own_ = cfx__alloc0(sizeof *m->own_);
    m->own_->arity = arity;
    m->own_->children = no_children();
    m->type = m->path = cfx__module_text(m, type ? type : "Module");
    const char *dot = strrchr(m->path, '.');
    if (dot && dot[1]) /* files may have "a." */
        m->type = dot + 1;
    m->name = m->signature = "";
    m->parameters = cfx_keep(cfx_dict_new());
    m->buffers = cfx_keep(cfx_dict_new());
    m->attrs = cfx_keep(cfx_dict_new());
    m->training = true;
    return m;
}

/* m with its signature, which with an arity has to name just as many plain parameters; else bad. */
static cfx_module *with_signature(cfx_module *m, const char *signature) {
    struct cfx__module *own = m->own_;
    m->signature = cfx__module_text(m, signature ? signature : "");
    cfx__signature *s = cfx__signature_parse(m->signature);
    if (s && own->arity && (s->npositional != own->arity || s->n != own->arity)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the forward of %s takes %d tensor%s, but its signature is \"%s\"", m->type,
                 own->arity, own->arity == 1 ? "" : "s", m->signature);
        cfx__signature_free(s);
        s = NULL;
    }
    own->signature = s;
    return s ? m : &cfx__module_bad;
}

cfx_module *cfx_module_new_n(const char *type, cfx_forward_fn *forward, const char *signature) {
    cfx_module *m = module_new(type, 0);
    m->own_->forward.args = forward;
    return with_signature(m, signature);
}

cfx_module *cfx_module_new_1(const char *type, cfx_forward_1 *forward, const char *signature) {
    cfx_module *m = module_new(type, 1);
    m->own_->forward.one = forward;
    return with_signature(m, signature);
}

cfx_module *cfx_module_new_2(const char *type, cfx_forward_2 *forward, const char *signature) {
    cfx_module *m = module_new(type, 2);
    m->own_->forward.two = forward;
    return with_signature(m, signature);
}

cfx_module *cfx_module_new_3(const char *type, cfx_forward_3 *forward, const char *signature) {
    cfx_module *m = module_new(type, 3);
    m->own_->forward.three = forward;
    return with_signature(m, signature);
}

cfx_module *cfx__module_new_raw(const char *type, cfx_forward_fn *forward) {
    cfx_module *m = module_new(type, 0);
    m->own_->forward.args = forward;
    m->own_->raw = true;
    return m;
}

void cfx__module_set_graph(cfx_module *m, cfx_graph *g, const cfx__module_graph_owner *owner) {
    cfx_keep_obj(g);
    if (m->graph && m->own_->graph_owner)
        m->own_->graph_owner->gone(m->graph);
    cfx_drop(m->graph);
    m->graph = g;
    m->own_->graph_owner = owner;
}

static void set_name(cfx_module *child, cfx_string *name) {
    cfx_drop(child->own_->name);
    child->own_->name = cfx_keep(name);
    child->name = name ? name->text : "";
}

static void drop_child(struct cfx__module_child *c) {
    if (c->module->own_->name == c->name)
        set_name(c->module, NULL);
    cfx_drop(c->module);
    cfx_drop(c->name);
}

void cfx_module_keep_object(cfx_module *m, cfx_value object) {
    cfx_object *o = cfx_is_none(object) ? NULL : cfx_as_object(object);
    if (!cfx__module_given(m) || (!o && !cfx_is_none(object)))
        return;
    cfx_keep(o);
    cfx_drop(m->own_->object);
    m->own_->object = o;
    m->user = o ? o->data : NULL;
}

cfx_value cfx_module_object(const cfx_module *m) {
    return m && m->own_->object ? cfx__value_of_object(m->own_->object) : cfx_none();
}

static void drop_children(cfx__module_children *c) {
    if (--c->refs)
        return;
    for (size_t i = 0; i < c->all.len; i++)
        drop_child(&c->all.data[i]);
    VEC_FREE(c->all);
    cfx__map_release(&c->index);
    cfx__free(c);
}

void cfx__module_share_children(cfx_module *m, cfx_module *with) {
    with->own_->children->refs++;
    drop_children(m->own_->children);
    m->own_->children = with->own_->children;
}

static void module_free(void *p) {
    cfx_module *m = p;
    struct cfx__module *own = m->own_;
    cfx__module_set_graph(m, NULL, NULL);
    cfx__hook_list_free(&own->hooks);
    drop_children(own->children);
    cfx_drop(own->transient);
    cfx_drop(own->name);
    cfx_drop(own->object);
    cfx_drop(m->parameters);
    cfx_drop(m->buffers);
    cfx_drop(m->attrs);
    cfx__signature_free(own->signature);
    cfx__arena_release(&own->arena);
    cfx__free(own);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Every read of an attribute comes by here, so short names are looked up without an object. */
static const cfx_value *dict_find_n(const cfx_dict *d, const char *name, size_t len) {
    if (!d->len)
        return NULL;
    _Alignas(cfx_string) char room[sizeof(cfx_string) + 32];
    if (len < 32) {
        cfx_string *s = (cfx_string *)room;
        *s = (cfx_string){.len = len, .hash = cfx__text_key(name, len)};
        memcpy(s->text, name, len);
        s->text[len] = 0;
        return cfx_dict_find(d, cfx__value_of_string(s));
    }
    size_t mark = cfx_scope_open();
    const cfx_value *v = cfx_dict_find(d, cfx_string_value_n(name, len));
    cfx_scope_close(mark);
    return v;
}

static cfx_module *child_n(const cfx_module *m, const char *name, size_t len) {
    uintptr_t i = (uintptr_t)cfx__map_getn(&m->own_->children->index, name, len);
    return i ? m->own_->children->all.data[i - 1].module : NULL;
}

bool cfx__module_get(const cfx_module *m, const char *name, size_t len, cfx_value *out) {
    const cfx_value *v = dict_find_n(m->parameters, name, len);
    if (!v)
        v = dict_find_n(m->buffers, name, len);
    cfx_module *child = v ? NULL : child_n(m, name, len);
    if (!v && !child)
        v = dict_find_n(m->attrs, name, len);
    if (!v && !child)
        return false;
    *out = v ? *v : cfx_module_value(child);
    return true;
}

/* The module that the last name of a path is in; *last is that name. NULL when there is none. */
static cfx_module *parent_of(const cfx_module *m, const char *path, const char **last) {
    for (const char *dot; m && (dot = strchr(path, '.')); path = dot + 1)
        m = child_n(m, path, (size_t)(dot - path));
    *last = path;
    return (cfx_module *)m;
}

cfx_module *cfx_module_find(const cfx_module *m, const char *path) {
    if (!m || !path || !*path)
        return (cfx_module *)m;
    const char *last;
    const cfx_module *parent = parent_of(m, path, &last);
    return parent ? child_n(parent, last, strlen(last)) : NULL;
}

static bool find_at(const cfx_module *m, const char *path, cfx_value *out) {
    const char *last;
    const cfx_module *parent = m && path ? parent_of(m, path, &last) : NULL;
    return parent && cfx__module_get(parent, last, strlen(last), out);
}

cfx_value cfx_module_attr(const cfx_module *m, const char *path) {
    cfx_value v;
    return find_at(m, path, &v) ? v : cfx_none();
}

bool cfx_module_has(const cfx_module *m, const char *path) {
    cfx_value v;
    return find_at(m, path, &v);
}

int cfx_module_count(const cfx_module *m) { return m ? (int)m->own_->children->all.len : 0; }

cfx_module *cfx_module_child(const cfx_module *m, int i) {
    return i >= 0 && i < cfx_module_count(m) ? m->own_->children->all.data[i].module : NULL;
}

const char *cfx_module_child_name(const cfx_module *m, int i) {
    return i >= 0 && i < cfx_module_count(m) ? m->own_->children->all.data[i].name->text : NULL;
}

/* ---- add and remove ------------------------------------------------------------------------- */

/* PyTorch's rules for the name of a parameter, buffer or module; `kind` says which. */
static bool name_fits(const cfx_module *m, const char *kind, const char *name, const void *same) {
    if (!name || !*name) {
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "%s name can't be empty string \"\"", kind);
        return false;
    }
    if (strchr(name, '.')) {
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "%s name can't contain \".\", got: %s", kind, name);
        return false;
    }
    cfx_value v;
    bool taken = cfx__module_get(m, name, strlen(name), &v);
    if (taken && same ? !dict_find_n(same, name, strlen(name)) : taken && v.tag != CFX_TAG_MODULE) {
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "attribute '%s' already exists", name);
        return false;
    }
    return true;
}

typedef struct seek {
    const cfx_module *what;
    bool found;
} seek;

static void seek_visit(const char *path, cfx_module *m, void *user) {
    (void)path;
    seek *s = user;
    s->found |= m == s->what;
}

/* Whether `what` is m or below it. */
static bool contains(cfx_module *m, const cfx_module *what) {
    seek s = {what, m == what};
    if (m->own_->children->all.len)
        cfx_module_walk(m, seek_visit, &s);
    return s.found;
}

cfx_module *cfx_nn_add(cfx_module *parent, const char *name, cfx_module *child) {
    if (!cfx__module_given(parent) || !cfx__module_given(child) ||
        !name_fits(parent, "module", name, NULL))
        return child;
    if (contains(child, parent)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s cannot be a child of itself, as '%s'",
                 child->type, name);
        return child;
    }
    struct cfx__module *own = parent->own_;
    cfx_string *text = cfx_keep(cfx__string_new(name, strlen(name)));
    cfx_keep(child);
    uintptr_t at = (uintptr_t)cfx__map_get(&own->children->index, name);
    if (at) {
        struct cfx__module_child *slot = &own->children->all.data[at - 1], old = *slot;
        *slot = (struct cfx__module_child){text, child};
        cfx__map_remove(&own->children->index, name); /* its key goes with the old child */
        drop_child(&old);
    } else {
        VEC_PUSH(own->children->all, ((struct cfx__module_child){text, child}));
        at = own->children->all.len;
    }
    cfx__map_set(&own->children->index, text->text, (void *)at);
    if (strcmp(child->name, text->text) != 0) /* a program that others run is not written to; `name`
                                                 may have gone with the old child */
        set_name(child, text);
    return child;
}

/* A parameter as it is: one that is frozen stays so. False with an error. */
static bool put_parameter(cfx_module *m, const char *name, cfx_tensor *value) {
    if (!cfx__module_given(m) || cfx__obj_is_bad(value) ||
        !name_fits(m, "parameter", name, m->parameters))
        return false;
    if (value && !cfx_tensor_is_leaf(value)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "Cannot assign non-leaf Tensor to parameter '%s'. Model parameters must be "
                 "created explicitly. To express '%s' as a function of another Tensor, compute the "
                 "value in the forward() method.",
                 name, name);
        return false;
    }
    cfx_dict_set(m->parameters, name, cfx_tensor_value(value));
    return true;
}

void cfx_nn_parameter(cfx_module *m, const char *name, cfx_tensor *value) {
    if (put_parameter(m, name, value) && value && !value->proxy &&
        (cfx__dtype_is_floating((cfx_dtype)value->dtype) ||
         cfx__dtype_is_complex((cfx_dtype)value->dtype)))
        cfx_requires_grad(value, true);
}

void cfx_nn_buffer(cfx_module *m, const char *name, cfx_tensor *value, bool persistent) {
    if (!cfx__module_given(m) || cfx__obj_is_bad(value) ||
        !name_fits(m, "buffer", name, m->buffers))
        return;
    cfx_dict_set(m->buffers, name, cfx_tensor_value(value));
    if (!persistent) {
        if (!m->own_->transient)
            m->own_->transient = cfx_keep(cfx_dict_new());
        cfx_dict_set(m->own_->transient, name, cfx_none());
    } else if (m->own_->transient) {
        cfx_dict_remove(m->own_->transient, cfx_string_value(name));
    }
}

/* The parent of a path, made of empty modules where it is missing. */
static cfx_module *make_parent(cfx_module *m, const char *path, const char **last) {
    enum { LEVELS = 500 }; /* of those that walk through modules each takes some stack */
    int levels = 0;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        if (++levels > LEVELS) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "modules are nested more than %d levels deep", LEVELS);
            return NULL;
        }
        cfx_module *child = child_n(m, path, (size_t)(dot - path));
        if (!child) {
            const char *name = cfx__string_new(path, (size_t)(dot - path))->text;
            child = cfx_nn_add(m, name, cfx_module_new_n("Module", NULL, ""));
            if (!cfx_ok())
                return NULL;
        }
        m = child;
    }
    *last = path;
    return m;
}

cfx_module *cfx__module_make(cfx_module *m, const char *path) {
    const char *last = path;
    if (!*path)
        return m;
    m = make_parent(m, path, &last);
    cfx_module *child = m ? child_n(m, last, strlen(last)) : NULL;
    if (m && !child)
        child = cfx_nn_add(m, last, cfx_module_new_n("Module", NULL, ""));
    return cfx_ok() ? child : NULL;
}

static bool is_empty(const cfx_dict *d, cfx_value key) { return !cfx_dict_find(d, key); }

bool cfx__module_adopt(cfx_module *m, const char *as, const cfx_module *from, const char *path) {
    if (cfx_module_has(m, as))
        return true;
    size_t mark = cfx_scope_open();
    const char *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path, *last = as;
    size_t above = dot ? (size_t)(dot - path) : 0;
    const cfx_module *owner = cfx_module_find(from, cfx__string_new(path, above)->text);
    m = make_parent(m, as, &last);
    if (!owner || !m) {
        cfx_scope_close(mark);
        return false;
    }
    cfx_value key = cfx_string_value(name), v = cfx_module_attr(owner, name);
    bool tensor = v.tag == CFX_TAG_TENSOR || v.tag == CFX_TAG_NONE;
    cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
    if (cfx_dict_find(owner->parameters, key))
        put_parameter(m, last, t);
    else if (cfx_dict_find(owner->buffers, key) || (tensor && t))
        cfx_nn_buffer(m, last, t, !cfx_dict_find(owner->own_->transient, key));
    else
        cfx_module_set_attr(m, last, v);
    cfx_scope_close(mark);
    return cfx_ok();
}

void cfx_module_set_attr(cfx_module *m, const char *path, cfx_value value) {
    if (!cfx__module_given(m) || cfx_is_bad(value))
        return;
    size_t mark = cfx_scope_open();
    const char *last = "";
    m = path && *path ? make_parent(m, path, &last) : m;
    if (m && !*last) {
        cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "attribute name can't be empty string \"\"");
    } else if (m) {
        cfx_value key = cfx_string_value(last);
        bool holds = value.tag == CFX_TAG_TENSOR || value.tag == CFX_TAG_NONE;
        cfx_dict *d = !is_empty(m->parameters, key) ? m->parameters
                      : !is_empty(m->buffers, key)  ? m->buffers
                                                    : NULL;
        if (value.tag == CFX_TAG_MODULE)
            cfx_nn_add(m, last, cfx_as_module(value));
        else if (d && !holds)
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                     "cannot assign '%s' object to %s '%s' (torch.Tensor or None required)",
                     cfx__value_python_type(value), d == m->parameters ? "parameter" : "buffer",
                     last);
        else if (d || name_fits(m, "attribute", last, m->attrs))
            cfx_dict_put(d ? d : m->attrs, key, value);
    }
    cfx_scope_close(mark);
}

static bool remove_child(cfx_module *m, const char *name) {
    struct cfx__module *own = m->own_;
    uintptr_t at = (uintptr_t)cfx__map_get(&own->children->index, name);
    if (!at)
        return false;
    struct cfx__module_child old = own->children->all.data[at - 1];
    cfx__map_remove(&own->children->index, name);
    own->children->all.len--;
    for (size_t i = at - 1; i < own->children->all.len; i++) {
        own->children->all.data[i] = own->children->all.data[i + 1];
        cfx__map_set(&own->children->index, own->children->all.data[i].name->text, (void *)(i + 1));
    }
    drop_child(&old);
    return true;
}

bool cfx_module_remove(cfx_module *m, const char *path) {
    const char *last;
    m = cfx__module_given(m) && path ? parent_of(m, path, &last) : NULL;
    if (!m)
        return false;
    size_t mark = cfx_scope_open();
    cfx_value key = cfx_string_value(last);
    bool removed = cfx_dict_remove(m->parameters, key) || cfx_dict_remove(m->buffers, key) ||
                   cfx_dict_remove(m->attrs, key) || remove_child(m, last);
    cfx_dict_remove(m->own_->transient, key);
    cfx_scope_close(mark);
    return removed;
}

/* ---- walk ----------------------------------------------------------------------------------- */

typedef struct walk {
    cfx_visit_fn *visit;
    void *user;
    cfx_dict *seen;
    cfx__text path;
} walk;

static void walk_module(walk *w, cfx_module *m) {
    cfx_value key = cfx_int((int64_t)(intptr_t)m);
    if (cfx_dict_find(w->seen, key))
        return;
    cfx_dict_put(w->seen, key, cfx_none());
    w->visit(w->path.len ? w->path.data : "", m, w->user);
    size_t len = w->path.len;
    for (int i = 0; i < cfx_module_count(m); i++) {
        if (len)
            cfx__text_putc(&w->path, '.');
        cfx__text_puts(&w->path, cfx_module_child_name(m, i));
        walk_module(w, cfx_module_child(m, i));
        w->path.len = len;
        if (w->path.data)
            w->path.data[len] = 0;
    }
}

void cfx_module_walk(cfx_module *m, cfx_visit_fn *visit, void *user) {
    if (!cfx__module_given(m))
        return;
    if (!visit) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "what to visit modules with is NULL");
        return;
    }
    walk w = {.visit = visit, .user = user, .seen = cfx_keep(cfx_dict_new())};
    walk_module(&w, m);
    cfx__text_release(&w.path);
    cfx_drop(w.seen);
}

static void set_training(const char *path, cfx_module *m, void *user) {
    (void)path;
    m->training = *(bool *)user;
}

void cfx_module_train(cfx_module *m, bool training) { cfx_module_walk(m, set_training, &training); }
