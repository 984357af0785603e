/* Layers, the part they share: options are bound to a Python signature, a row tells the rest. Start
 * at cfx_nn_make_from. */
#include <cfx/ops.h>

#include "layer.h"

#include <math.h>

static const cfx__layer *const tables[] = {
    cfx__layers_linear, cfx__layers_conv,      cfx__layers_norm,
    cfx__layers_pool,   cfx__layers_plain,     cfx__layers_sparse,
    cfx__layers_rnn,    cfx__layers_attention, cfx__layers_loss,
};

static const char *type_of(const cfx__layer *row) { return strrchr(row->path, '.') + 1; }

/* The layer called `type`, or number *i where type is NULL. NULL where there is none; *i is then
 * less by the number of layers. */
static const cfx__layer *find_row(const char *type, int *i) {
    for (int t = 0; t < COUNT(tables); t++)
        for (const cfx__layer *row = tables[t]; row->path; row++)
            if (type ? !strcmp(type_of(row), type) : (*i)-- == 0)
                return row;
    return NULL;
}

const char *cfx__layer_path(const char *type) {
    const cfx__layer *row = find_row(type, NULL);
    return row ? row->path : NULL;
}

int cfx_nn_count(void) {
    int i = INT32_MAX;
    find_row(NULL, &i);
    return INT32_MAX - i;
}

cfx_nn_layer cfx_nn_layer_at(int i) {
    const cfx__layer *row = i >= 0 ? find_row(NULL, &i) : NULL;
    if (!row)
        return (cfx_nn_layer){0};
    return (cfx_nn_layer){.name = type_of(row),
                          .path = row->path,
                          .options = row->options,
                          .inputs = row->inputs ? row->inputs : "input",
                          .call = row->call,
                          .leaf = !row->open};
}

/* ---- the struct of options to keyword arguments ---------------------------------------------- */

typedef enum kind { INT, INTS, REAL, REALS, FLAG, TEXT, TENSOR, MODULE } kind;

static const struct field {
    const char *name;
    kind kind;
    size_t at;
} fields[] = {
#define FIELD(kind, name) {#name, kind, offsetof(cfx_nn_options, name)},
#define F_INT(name) FIELD(INT, name)
#define F_INTS(name) FIELD(INTS, name)
#define F_REAL(name) FIELD(REAL, name)
#define F_REALS(name) FIELD(REALS, name)
#define F_FLAG(name) FIELD(FLAG, name)
#define F_TEXT(name) FIELD(TEXT, name)
#define F_TENSOR(name) FIELD(TENSOR, name)
#define F_MODULE(name) FIELD(MODULE, name)
    CFX_NN_OPTIONS(F_INT, F_INTS, F_REAL, F_REALS, F_FLAG, F_TEXT, F_TENSOR, F_MODULE)
#undef FIELD
};

static cfx_value int_value(int64_t i) {
    return i == CFX_ZERO    ? cfx_int(0)
           : i == CFX_SAME  ? cfx_string_value("same")
           : i == CFX_VALID ? cfx_string_value("valid")
                            : cfx_int(i);
}

static cfx_value real_value(double f) {
    return isnan(f) ? cfx_none() : cfx_float(f == (double)CFX_ZERO ? 0 : f);
}

/* The value of a field; false where it was left out. A tuple has `dims` numbers, or ends before the
 * zeros at its end where dims is 0. */
static bool field_value(const struct field *f, const char *p, int dims, cfx_value *out) {
    cfx_value v[3];
    int n = 0;
    switch (f->kind) {
    case INT:
        *out = int_value(*(const int64_t *)p);
        return *(const int64_t *)p != 0;
    case REAL:
        *out = real_value(*(const double *)p);
        return *(const double *)p != 0;
    case FLAG:
        *out = cfx_bool(strncmp(f->name, "no_", 3) != 0);
        return *(const bool *)p;
    case TEXT:
        *out = cfx_string_value(*(const char *const *)p);
        return *(const char *const *)p;
    case TENSOR:
        *out = cfx_tensor_value(*(cfx_tensor *const *)p);
        return *(cfx_tensor *const *)p;
    case MODULE:
        *out = cfx_module_value(*(cfx_module *const *)p);
        return *(cfx_module *const *)p;
    case INTS:
    case REALS:
        for (int i = 0; i < 3; i++) {
            v[i] = f->kind == INTS ? int_value(((const int64_t *)p)[i])
                                   : real_value(((const double *)p)[i]);
            if (cfx_is_none(v[i]) || cfx_number(v[i]) || v[i].tag == CFX_TAG_STR)
                n = i + 1;
        }
        *out = cfx_tuple_value(dims ? dims : n, v);
        return n > 0;
    }
    return false;
}

static const char *field_option(const struct field *f) {
    if (f->kind == INTS || f->kind == REALS)
        return cfx__string_new(f->name, strlen(f->name) - 1)->text;
    return strncmp(f->name, "no_", 3) ? f->name : f->name + 3;
}

static cfx_args with_options(cfx_args a, const cfx_nn_options *options, int dims) {
    a = cfx__dispatch_args_split(a);
    cfx_dict *kw = a.kw ? a.kw : cfx_dict_new();
    for (int i = 0; i < COUNT(fields); i++) {
        cfx_value v;
        if (field_value(&fields[i], (const char *)options + fields[i].at, dims, &v))
            cfx_dict_set(kw, field_option(&fields[i]), v);
    }
    a.kw = kw;
    return a;
}

/* ---- options while a layer is made ----------------------------------------------------------- */

cfx_value cfx__layer_option(const cfx__layer_options *o, const char *name) {
    for (int i = 0; i < o->signature->n; i++)
        if (!strcmp(o->signature->params[i].name, name))
            return o->values[i];
    return cfx_none();
}

int64_t cfx__layer_option_int(const cfx__layer_options *o, const char *name) {
    cfx_value v = cfx__layer_option(o, name);
    if (v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL)
        return cfx_integer(v);
    cfx__layer_fail(o, TYPE, "%s: argument '%s' must be int, not %s", type_of(o->row), name,
                    cfx_value_type_name(v));
    return 0;
}

double cfx__layer_option_float(const cfx__layer_options *o, const char *name) {
    cfx_value v = cfx__layer_option(o, name);
    if (cfx_is_number(v))
        return cfx_number(v);
    cfx__layer_fail(o, TYPE, "%s: argument '%s' must be float, not %s", type_of(o->row), name,
                    cfx_value_type_name(v));
    return 0;
}

bool cfx__layer_option_on(const cfx__layer_options *o, const char *name) {
    return cfx_integer(cfx__layer_option(o, name)) != 0;
}

cfx_value cfx__layer_option_tuple(const cfx__layer_options *o, const char *name, int n) {
    cfx_value v = cfx__layer_option(o, name), items[6];
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    if (!cfx_is_number(v) && (!list || cfx_as_list(v)->len != n)) {
        cfx__layer_fail(o, VALUE, "%s: argument '%s' must be a number or %d of them, not %s",
                        type_of(o->row), name, n, cfx_value_repr(v));
        return cfx_bad();
    }
    for (int i = 0; i < n; i++)
        items[i] = list ? cfx_as_list(v)->items[i] : v;
    return cfx_tuple_value(n, items);
}

/* ---- initial values -------------------------------------------------------------------------- */

static cfx_value sizes(int ndim, const int64_t *shape) { return cfx_ints_value(ndim, shape); }

cfx_tensor *cfx__layer_init_uniform(int ndim, const int64_t *shape, double bound) {
    return cfx_uniform_(cfx_empty(sizes(ndim, shape)), -bound, bound);
}

cfx_tensor *cfx__layer_init_full(int ndim, const int64_t *shape, double value) {
    return cfx_full(sizes(ndim, shape), value);
}

cfx_tensor *cfx__layer_init_kaiming(int ndim, const int64_t *shape) {
    double fan_in = 1, slope = sqrt(5.0), gain = sqrt(2.0 / (1 + slope * slope));
    for (int i = 1; i < ndim; i++)
        fan_in *= (double)shape[i];
    return cfx__layer_init_uniform(ndim, shape, fan_in > 0 ? sqrt(3.0) * (gain / sqrt(fan_in)) : 0);
}

cfx_tensor *cfx__layer_init_xavier(int64_t rows, int64_t columns) {
    double deviation = sqrt(2.0 / (double)(rows + columns));
    return cfx__layer_init_uniform(2, (int64_t[]){rows, columns}, sqrt(3.0) * deviation);
}

/* ---- what it prints -------------------------------------------------------------------------- */

/* A name at *p up to one of `ends`, after which *p stands; `!r` before the end is noted. */
static size_t read_name(const char **p, const char *ends, bool *repr) {
    size_t n = strcspn(*p, ends), len = n;
    *repr = n > 2 && !strncmp(*p + n - 2, "!r", 2);
    if (*repr)
        len -= 2;
    *p += n + 1;
    return len;
}

/* The value to show: a parameter shows whether it is there. */
static cfx_value shown(const cfx_module *m, const char *name, size_t len) {
    cfx_value v = cfx_none();
    cfx__module_get(m, name, len, &v);
    const cfx_value *p = cfx_dict_find(m->parameters, cfx_string_value_n(name, len));
    return p ? cfx_bool(p->tag == CFX_TAG_TENSOR) : v;
}

static bool is_default(const cfx__signature *s, const char *name, size_t len, cfx_value v) {
    for (int i = 0; i < s->n; i++) {
        const cfx__signature_param *p = &s->params[i];
        if (strncmp(p->name, name, len) || p->name[len])
            continue;
        if (v.tag != CFX_TAG_TUPLE || p->fallback.tag == CFX_TAG_TUPLE)
            return cfx_equal_values(v, p->fallback);
        for (int64_t j = 0; j < cfx_as_list(v)->len; j++)
            if (!cfx_equal_values(cfx_as_list(v)->items[j], p->fallback))
                return false;
        return true;
    }
    return false;
}

static const char *layer_repr(const cfx_module *m) {
    const cfx__layer *row = m->own_->layer;
    cfx__signature *s = cfx__signature_parse(row->options);
    cfx__text t = {0};
    for (const char *p = row->shows; *p;) {
        bool repr, some = *p == '[';
        if (*p != '{' && *p != '[') {
            cfx__text_putc(&t, *p++);
            continue;
        }
        const char *name = ++p;
        size_t len = read_name(&p, "}]", &repr);
        cfx_value v = shown(m, name, len);
        if (some && is_default(s, name, len, v))
            continue;
        if (some)
            cfx__text_printf(&t, "%s%.*s=", t.len ? ", " : "", (int)len, name);
        cfx__text_puts(&t, repr ? cfx_value_repr(v) : cfx_value_str(v));
    }
    cfx__signature_free(s);
    return t.len ? cfx__text_take(&t) : "";
}

/* ---- what it calls --------------------------------------------------------------------------- */

/* What a name in a row's call stands for. */
static cfx_value meant(cfx_module *self, cfx_args a, const char *name) {
    const cfx__signature *s = self->own_->signature;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->params[i].name, name))
            return a.v[i];
    if (*name == '\'')
        return cfx_string_value_n(name + 1, strlen(name) - 2);
    return strcmp(name, "training") ? cfx__layer_attr(self, name) : cfx_bool(self->training);
}

/* The next `len` characters of *p as a text of their own; *p moves behind them. */
static const char *take_word(const char **p, size_t len, char *to, size_t room) {
    len = len < room ? len : room - 1;
    memcpy(to, *p, len);
    to[len] = 0;
    *p += len;
    return to;
}

cfx_value cfx__layer_call(cfx_module *self, cfx_args a) {
    const char *p = self->own_->layer->call;
    char fn[64], name[32], key[32];
    take_word(&p, strcspn(p, "("), fn, sizeof fn);
    cfx_value args[12];
    int n = 0;
    for (p++; *p != ')'; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ",)=");
        bool keyed = p[len] == '=';
        if (keyed) {
            take_word(&p, len, key, sizeof key);
            p++;
            len = strcspn(p, ",)");
        }
        cfx_value v = meant(self, a, take_word(&p, len, name, sizeof name));
        args[n++] = keyed ? cfx_keyword_value(key, v) : v;
    }
    return cfx_py_from(cfx__site(), fn, (cfx_args){n, args, NULL});
}

/* ---- make ------------------------------------------------------------------------------------ */

/* Options that are tuples in PyTorch's module, whatever the caller gave. */
static void make_tuples(cfx_module *m, const cfx__layer_options *o) {
    const cfx__layer *row = o->row;
    bool pads = !strncmp(row->path, "padding.", 8);
    for (const char *p = row->each; p && *p;) {
        size_t len = strcspn(p, " ");
        const char *name = cfx__string_new(p, len)->text;
        cfx_value v = cfx__layer_option(o, name);
        if (v.tag != CFX_TAG_STR && !cfx_module_has(m, name))
            cfx_module_set_attr(m, name,
                                cfx__layer_option_tuple(o, name, row->dims * (pads ? 2 : 1)));
        p += len + strspn(p + len, " ");
    }
}

/* C's true and false are numbers: they are meant where the default is a bool. */
static void read_bools(const cfx__layer_options *o) {
    for (int i = 0; i < o->signature->n; i++)
        if (o->signature->params[i].fallback.tag == CFX_TAG_BOOL &&
            o->values[i].tag == CFX_TAG_INT)
            o->values[i] = cfx_bool(cfx_integer(o->values[i]) != 0);
}

static void keep_options(cfx_module *m, const cfx__layer_options *o) {
    for (int i = 0; i < o->signature->n; i++)
        if (o->values[i].tag != CFX_TAG_MODULE && !cfx_module_has(m, o->signature->params[i].name))
            cfx_module_set_attr(m, o->signature->params[i].name, o->values[i]);
}

static cfx_module *bare(cfx_site at, const char *type) {
    const cfx__layer *row = type ? find_row(type, NULL) : NULL;
    if (!row) {
        cfx_fail(CFX_ATTRIBUTE_ERROR, at, "module 'torch.nn' has no attribute '%s'",
                 type ? type : "None");
        return &cfx__module_bad;
    }
    cfx_module *m = cfx_module_new_n(type, row->call ? cfx__layer_call : row->forward,
                                     row->inputs ? row->inputs : "input");
    size_t mark = cfx_scope_open();
    m->path = cfx__module_text(m, cfx__text_format("torch.nn.modules.%s", row->path));
    cfx_scope_close(mark);
    m->leaf = !row->open;
    m->own_->layer = row;
    m->extra_repr = layer_repr;
    return m;
}

cfx_module *cfx_nn_bare(const char *type) { return bare((cfx_site){0}, type); }

cfx_module *cfx_nn_make_from(cfx_site at, const char *type, cfx_args args, cfx_nn_options options) {
    size_t mark = cfx_scope_open();
    cfx_module *m = bare(at, type);
    if (cfx__obj_is_bad(m)) {
        cfx_scope_close(mark);
        return m;
    }
    const cfx__layer *row = m->own_->layer;
    cfx_site outer = cfx__site_enter(at);
    cfx__signature *s = cfx__signature_parse(row->options);
    cfx_value *values = cfx__alloc0((size_t)(s->n + 1) * sizeof *values);
    args = with_options(args, &options, row->dims);
    if (!cfx__dispatch_args_bad(at, args) &&
        cfx__signature_bind(s, at, cfx__text_format("%s.__init__", type), true, args, values)) {
        cfx__layer_options o = {row, s, values, at};
        read_bools(&o);
        make_tuples(m, &o);
        if (row->make && cfx_ok())
            row->make(m, &o);
        if (cfx_ok())
            keep_options(m, &o);
    }
    cfx__free(values);
    cfx__signature_free(s);
    cfx__site_leave(outer);
    return cfx_scope_return(mark, cfx_ok() ? m : &cfx__module_bad);
}
