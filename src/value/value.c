/* Values: making, looking, counting, comparing. Dicts are in dict.c, text in repr.c, trees in
 * pytree.c. */
#include "../base/given.h"
#include "dict.h"
#include "later.h"

static void list_free(void *p);
static void passing_list_free(void *p);
static void slice_free(void *p);
static void keyword_free(void *p);

static const cfx__obj_type list_type = {.name = "list", .free = list_free};
static const cfx__obj_type passing_list_type = {
    .name = "list", .free = passing_list_free, .frees_itself = true};
static const cfx__obj_type slice_type = {.name = "slice", .free = slice_free};
static const cfx__obj_type complex_type = {.name = "complex"};
static const cfx__obj_type keyword_type = {.name = "keyword", .free = keyword_free};

static cfx_value tagged(cfx_tag tag, void *obj) {
    cfx_value v = cfx_none();
    v.tag = tag;
    v.obj_ = obj;
    return v;
}

/* ---- make ------------------------------------------------------------------------------------ */

cfx_value cfx_bad(void) { return tagged(CFX_TAG_BAD, NULL); }

cfx_value cfx_tensor_value(const cfx_tensor *t) {
    if (!t)
        return cfx_none();
    return cfx__obj_is_bad(t) ? cfx_bad() : tagged(CFX_TAG_TENSOR, (void *)t);
}

cfx_value cfx_module_value(cfx_module *m) {
    return !m ? cfx_none() : cfx__obj_is_bad(m) ? cfx_bad() : tagged(CFX_TAG_MODULE, m);
}

cfx_value cfx_string_value_n(const char *text, size_t len) {
    return tagged(CFX_TAG_STR, text ? cfx__string_new(text, len) : cfx__string_new("", 0));
}

cfx_value cfx_string_value(const char *text) {
    return text ? cfx_string_value_n(text, strlen(text)) : cfx_none();
}

cfx_value cfx_complex_value(double re, double im) {
    cfx_complex *c = cfx__obj_new(&complex_type, sizeof *c);
    c->re = re;
    c->im = im;
    return tagged(CFX_TAG_COMPLEX, c);
}

cfx_value cfx_slice_value(cfx_value start, cfx_value stop, cfx_value step) {
    cfx_slice *s = cfx__obj_new(&slice_type, sizeof *s);
    s->start = cfx_value_keep(start);
    s->stop = cfx_value_keep(stop);
    s->step = cfx_value_keep(step);
    return tagged(CFX_TAG_SLICE, s);
}

cfx_value cfx_keyword_value(const char *name, cfx_value value) {
    if (!cfx__given((cfx_site){0}, name, "name of the keyword"))
        return cfx_bad();
    cfx_keyword *k = cfx__obj_new(&keyword_type, sizeof *k);
    k->name = cfx_keep(cfx__string_new(name, strlen(name)));
    k->value = cfx_value_keep(value);
    return tagged(CFX_TAG_KEYWORD, k);
}

/* The items lie in the object itself until the list grows. */
static cfx_value *inline_items(cfx_list *l) { return (cfx_value *)(l + 1); }

cfx_list *cfx__list_alloc(int64_t n) {
    cfx_list *l = cfx__obj_make(&list_type, sizeof *l + (size_t)n * sizeof(cfx_value));
    l->len = l->cap_ = n;
    l->items = inline_items(l);
    return l;
}

enum { PASSING = 4 };

/* Short lists that calls are made of come and go by the thousand: their blocks are recycled. */
static cfx_list *passing_list(int64_t n) {
    cfx_list *l =
        cfx__spare_alloc(CFX__SPARE_LIST, sizeof *l + PASSING * sizeof(cfx_value));
    l->head = (cfx_obj){.refs = 1, .type = &passing_list_type};
    l->len = n;
    l->cap_ = PASSING;
    l->items = inline_items(l);
    return l;
}

/* How many items there are: none, with an error, where they are missing. */
static int64_t count_given(int64_t n, const void *items) {
    if (likely(n == 0 || (n > 0 && items)))
        return n;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, n < 0 ? "a list of %lld items" : "%lld items are NULL",
             (long long)n);
    return 0;
}

cfx_list *cfx__list_make(int64_t n, const cfx_value *items) {
    n = count_given(n, items);
    cfx_list *l = cfx__scope_own(n <= PASSING ? passing_list(n) : cfx__list_alloc(n));
    for (int64_t i = 0; i < n; i++)
        l->items[i] =
            cfx__value_may_hold(&l->head, items[i]) ? cfx_value_keep(items[i]) : cfx_bad();
    return l;
}

cfx_value cfx_list_value(int64_t n, const cfx_value *items) {
    return tagged(CFX_TAG_LIST, cfx__list_make(n, items));
}

cfx_value cfx_tuple_value(int64_t n, const cfx_value *items) {
    return tagged(CFX_TAG_TUPLE, cfx__list_make(n, items));
}

cfx_value cfx_ints_value(int64_t n, const int64_t *ints) {
    n = count_given(n, ints);
    cfx_list *l = cfx__scope_own(cfx__list_alloc(n));
    for (int64_t i = 0; i < n; i++)
        l->items[i] = cfx_int(ints[i]);
    return tagged(CFX_TAG_LIST, l);
}

bool cfx__value_may_change(const cfx_obj *head, const char *kind) {
    if (likely(!(head->flags & CFX__FROZEN)))
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
             "'immutable_%s' object does not support mutation. If you are attempting to modify the "
             "kwargs or args of a torch.fx.Node object,\n"
             "instead create a new copy of it and assign the copy to the node:\n\n"
             "    new_args = ...  # copy and mutate args\n"
             "    node.args = new_args",
             kind);
    return false;
}

void cfx_list_append(cfx_list *l, cfx_value value) {
    if (!l || cfx__obj_is_bad(l)) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the list to append %s to is NULL",
                 cfx_value_repr(value));
        return;
    }
    if (!cfx__value_may_change(&l->head, "list") || !cfx__value_may_hold(&l->head, value))
        return;
    if (l->len == l->cap_) {
        size_t cap = (size_t)l->cap_;
        cfx_value *own = l->items == inline_items(l) ? NULL : l->items;
        cfx_value *items = cfx__vec_grow(own, &cap, cap + 1, sizeof *l->items);
        if (!own)
            memcpy(items, l->items, (size_t)l->len * sizeof *items);
        l->items = items;
        l->cap_ = (int64_t)cap;
    }
    l->items[l->len++] = cfx_value_keep(value);
}

/* ---- counting -------------------------------------------------------------------------------- */

cfx_value cfx_value_keep(cfx_value v) {
    if (cfx__value_tag_counted(v.tag))
        cfx_keep_obj(v.obj_);
    return v;
}

void cfx_value_drop(cfx_value v) {
    if (cfx__value_tag_counted(v.tag))
        cfx_drop(v.obj_);
}

cfx_value cfx_scope_return_value(size_t mark, cfx_value v) {
    if (cfx__value_tag_counted(v.tag))
        cfx_scope_return(mark, v.obj_);
    else
        cfx_scope_close(mark);
    return v;
}

static void list_free(void *p) {
    cfx_list *l = p;
    for (int64_t i = 0; i < l->len; i++)
        cfx_value_drop(l->items[i]);
    if (l->items != inline_items(l))
        cfx__free(l->items);
}

static void passing_list_free(void *p) {
    list_free(p);
    cfx__spare_free(CFX__SPARE_LIST, p);
}

static void slice_free(void *p) {
    cfx_slice *s = p;
    cfx_value_drop(s->start);
    cfx_value_drop(s->stop);
    cfx_value_drop(s->step);
}

static void keyword_free(void *p) {
    cfx_keyword *k = p;
    cfx_drop((void *)k->name);
    cfx_value_drop(k->value);
}

/* ---- look ------------------------------------------------------------------------------------ */

cfx_value cfx_at(cfx_value v, int64_t i) {
    if (v.tag == CFX_TAG_BAD)
        return v;
    if (v.tag == CFX_TAG_TENSOR || v.tag == CFX_TAG_NODE)
        return cfx__later_rooms.item(v, i);
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "'%s' object is not subscriptable",
                 cfx_value_type_name(v));
        return cfx_bad();
    }
    int64_t k = i < 0 ? i + v.list_->len : i;
    if (k < 0 || k >= v.list_->len) {
        cfx_fail(CFX_INDEX_ERROR, (cfx_site){0}, "%s index out of range",
                 v.tag == CFX_TAG_LIST ? "list" : "tuple");
        return cfx_bad();
    }
    return v.list_->items[k];
}

const char *cfx_text(cfx_value v) { return v.tag == CFX_TAG_STR ? v.str_->text : NULL; }

size_t cfx_text_length(cfx_value v) { return v.tag == CFX_TAG_STR ? v.str_->len : 0; }

bool cfx_is_number(cfx_value v) {
    return v.tag == CFX_TAG_BOOL || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_FLOAT ||
           v.tag == CFX_TAG_COMPLEX;
}

/* What Python calls a tensor that was taken for a number. */
static const char *tensor_kind(cfx_value v) {
    return ((cfx_obj *)v.obj_)->flags & CFX__TRACED ? "Proxy" : "Tensor";
}

/* ---- reads of what v is not ------------------------------------------------------------------ */

/* Objects that say nothing; functions that change objects refuse bad ones. */
static const cfx_value no_items[32]; /* for who looks at items without asking how many there are */
static const cfx_list no_list = {.head = {1, CFX__BAD, NULL}, .items = (cfx_value *)no_items};
static const cfx_dict no_dict = {.head = {1, CFX__BAD, NULL}};
static const cfx_slice no_slice = {.head = {1, CFX__BAD, NULL}};
static const cfx_complex no_complex = {.head = {1, CFX__BAD, NULL}};
static const cfx_sym no_sym = {.head = {1, CFX__BAD, NULL}, .op = CFX__SYM_INT};
static const cfx_string no_string = {.obj = {1, CFX__BAD, NULL}, .text = ""};
static const cfx_keyword no_keyword = {.head = {1, CFX__BAD, NULL}, .name = &no_string};

/* What the error says was wanted, by tag. */
static const char *const wanted_names[] = {
    [CFX_TAG_BOOL] = "a bool",         [CFX_TAG_INT] = "an int",
    [CFX_TAG_FLOAT] = "a float",       [CFX_TAG_DTYPE] = "a torch.dtype",
    [CFX_TAG_DEVICE] = "a torch.device", [CFX_TAG_MEMORY_FORMAT] = "a torch.memory_format",
    [CFX_TAG_OP] = "an operator",      [CFX_TAG_NODE] = "a node",
    [CFX_TAG_STR] = "a str",           [CFX_TAG_COMPLEX] = "a complex number",
    [CFX_TAG_SLICE] = "a slice",       [CFX_TAG_SYM] = "a SymInt",
    [CFX_TAG_TENSOR] = "a tensor",     [CFX_TAG_MODULE] = "a module",
    [CFX_TAG_OBJECT] = "an object of the caller's",
    [CFX_TAG_LIST] = "a list or tuple", [CFX_TAG_DICT] = "a dict",
    [CFX_TAG_KEYWORD] = "a keyword argument",
};

void *cfx_as_other_from(cfx_site at, cfx_value v, cfx_tag wanted) {
    cfx_node *stood_for = wanted == CFX_TAG_NODE ? cfx__later_rooms.traced_node(v) : NULL;
    if (stood_for)
        return stood_for;
    if (v.tag != CFX_TAG_BAD)
        cfx_fail(CFX_TYPE_ERROR, at, "expected %s, got %s", wanted_names[wanted],
                 cfx__value_python_type(v));
    switch (wanted) {
    case CFX_TAG_TENSOR: return cfx__later_rooms.bad_tensor;
    case CFX_TAG_NODE: return *cfx__later_rooms.bad_node;
    case CFX_TAG_MODULE: return cfx__later_rooms.bad_module;
    case CFX_TAG_LIST: return (void *)&no_list;
    case CFX_TAG_DICT: return (void *)&no_dict;
    case CFX_TAG_STR: return (void *)&no_string;
    case CFX_TAG_SLICE: return (void *)&no_slice;
    case CFX_TAG_COMPLEX: return (void *)&no_complex;
    case CFX_TAG_SYM: return (void *)&no_sym;
    case CFX_TAG_KEYWORD: return (void *)&no_keyword;
    default: return NULL;
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

double cfx_number(cfx_value v) {
    if (unlikely(cfx__value_mark(v)))
        v = cfx__later_rooms.read_marked((cfx_site){0}, v);
    switch (v.tag) {
    case CFX_TAG_TENSOR:
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                 "float() argument must be a string or a real number, not '%s'", tensor_kind(v));
        return 0;
    case CFX_TAG_BOOL: return v.b_;
    case CFX_TAG_INT: return (double)v.i_;
    case CFX_TAG_FLOAT: return v.f_;
    case CFX_TAG_COMPLEX: return v.cplx_->re;
    case CFX_TAG_SYM: return (double)v.sym_->hint;
    case CFX_TAG_NONE:
    case CFX_TAG_BAD: return 0;
    default: return (double)cfx_integer(v);
    }
}

int64_t cfx_integer(cfx_value v) {
    if (unlikely(cfx__value_mark(v)))
        v = cfx__later_rooms.read_marked((cfx_site){0}, v);
    switch (v.tag) {
    case CFX_TAG_BOOL: return v.b_;
    case CFX_TAG_FLOAT: return v.f_ > 0 && !cfx__int64_fits(v.f_) ? INT64_MAX : cfx__int64_of(v.f_);
    case CFX_TAG_COMPLEX: return cfx_integer(cfx_float(v.cplx_->re));
    case CFX_TAG_SYM: return v.sym_->hint;
    case CFX_TAG_NONE: return 0;
    case CFX_TAG_TENSOR:
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "'%s' object cannot be interpreted as an integer",
                 tensor_kind(v));
        return 0;
    case CFX_TAG_INT:
    case CFX_TAG_DTYPE:
    case CFX_TAG_LAYOUT:
    case CFX_TAG_MEMORY_FORMAT: return v.i_;
    case CFX_TAG_BAD: return 0;
    default:
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "expected a number, not %s",
                 cfx_value_type_name(v));
        return 0;
    }
}

/* ---- typed reads ----------------------------------------------------------------------------- */

/* A number that may be marked, as one that C looks at. */
static cfx_value looked_at(cfx_site at, cfx_value v) {
    return unlikely(cfx__value_mark(v)) ? cfx__later_rooms.read_marked(at, v) : v;
}

double cfx_number_from(cfx_site at, cfx_value v) { return cfx_number(looked_at(at, v)); }

int64_t cfx_integer_from(cfx_site at, cfx_value v) { return cfx_integer(looked_at(at, v)); }

int64_t cfx_as_int_from(cfx_site at, cfx_value v) {
    if (v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL)
        return cfx_integer_from(at, v);
    cfx_as_other_from(at, v, CFX_TAG_INT);
    return 0;
}

double cfx_as_float_from(cfx_site at, cfx_value v) {
    if (v.tag == CFX_TAG_FLOAT || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL)
        return cfx_number_from(at, v);
    cfx_as_other_from(at, v, CFX_TAG_FLOAT);
    return 0;
}

bool cfx_as_bool_from(cfx_site at, cfx_value v) {
    if (v.tag == CFX_TAG_BOOL)
        return looked_at(at, v).b_;
    cfx_as_other_from(at, v, CFX_TAG_BOOL);
    return false;
}

const char *cfx_as_text_from(cfx_site at, cfx_value v) { return cfx_as_string_from(at, v)->text; }

/* ---- equality -------------------------------------------------------------------------------- */

static bool equal_items(const cfx_list *a, const cfx_list *b) {
    if (a->len != b->len)
        return false;
    for (int64_t i = 0; i < a->len; i++)
        if (!cfx_equal_values(a->items[i], b->items[i]))
            return false;
    return true;
}

static bool equal_dicts(const cfx_dict *a, const cfx_dict *b) {
    if (a->len != b->len)
        return false;
    for (int64_t i = 0; i < a->len; i++) {
        const cfx_value *other = cfx_dict_find(b, a->entries[i].key);
        if (!other || !cfx_equal_values(a->entries[i].value, *other))
            return false;
    }
    return true;
}

bool cfx_equal_values(cfx_value a, cfx_value b) {
    if (cfx_is_number(a) && cfx_is_number(b)) {
        if (a.tag == CFX_TAG_COMPLEX || b.tag == CFX_TAG_COMPLEX)
            return cfx_number(a) == cfx_number(b) &&
                   (a.tag == CFX_TAG_COMPLEX ? a.cplx_->im : 0) ==
                       (b.tag == CFX_TAG_COMPLEX ? b.cplx_->im : 0);
        if (a.tag != CFX_TAG_FLOAT && b.tag != CFX_TAG_FLOAT)
            return cfx_integer(a) == cfx_integer(b);
        return cfx_number(a) == cfx_number(b);
    }
    if (a.tag != b.tag)
        return false;
    switch (a.tag) {
    case CFX_TAG_NONE:
    case CFX_TAG_ELLIPSIS: return true;
    case CFX_TAG_STR:
        return a.str_->len == b.str_->len && !memcmp(a.str_->text, b.str_->text, a.str_->len);
    case CFX_TAG_DEVICE:
        return a.device_.type == b.device_.type && a.device_.index == b.device_.index;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE: return equal_items(a.list_, b.list_);
    case CFX_TAG_DICT: return equal_dicts(a.dict_, b.dict_);
    case CFX_TAG_SYM: return cfx__sym_equal(a.sym_, b.sym_);
    case CFX_TAG_OBJECT: return cfx__object_equal(a.object_, b.object_);
    case CFX_TAG_SLICE:
        return cfx_equal_values(a.slice_->start, b.slice_->start) &&
               cfx_equal_values(a.slice_->stop, b.slice_->stop) &&
               cfx_equal_values(a.slice_->step, b.slice_->step);
    default: return a.i_ == b.i_;
    }
}

uint64_t cfx__value_hash(cfx_value v) {
    uint64_t h = v.tag;
    switch (v.tag) {
    case CFX_TAG_STR: return v.str_->hash;
    case CFX_TAG_NONE:
    case CFX_TAG_ELLIPSIS: return h;
    case CFX_TAG_FLOAT:
        if (v.f_ != (double)cfx_integer(v))
            return cfx__text_key(&v.f_, sizeof v.f_);
        __attribute__((fallthrough)); /* 1.0 hashes as 1 */
    case CFX_TAG_BOOL:
    case CFX_TAG_INT: {
        int64_t i = cfx_integer(v);
        return cfx__text_key(&i, sizeof i);
    }
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        for (int64_t i = 0; i < v.list_->len; i++)
            h = cfx__hash_mix(h, cfx__value_hash(v.list_->items[i]));
        return h;
    case CFX_TAG_SLICE:
        return cfx__value_hash(v.slice_->start) * 31 + cfx__value_hash(v.slice_->stop) * 7 +
               cfx__value_hash(v.slice_->step);
    case CFX_TAG_COMPLEX:
        if (v.cplx_->im == 0)
            return cfx__value_hash(cfx_float(v.cplx_->re)); /* (1+0j) hashes as 1 */
        return cfx__text_key(&v.cplx_->re, 2 * sizeof(double));
    case CFX_TAG_SYM: return cfx__sym_hash(v.sym_);
    case CFX_TAG_OBJECT: return cfx__object_hash(v.object_);
    case CFX_TAG_DICT: return h + (uint64_t)v.dict_->len;
    default: return cfx__text_key(&v.i_, sizeof v.i_);
    }
}
