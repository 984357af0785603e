/* The messages of an ONNX file as structs. Each message is walked twice: its lists are counted,
 * then filled. Start at cfx__onnx_read_model. */
#include "onnx.h"

enum { MOST_NESTED = 64 }; /* graphs inside attributes of nodes of graphs */

void cfx__onnx_reader_close(cfx__onnx_reader *r) {
    for (size_t i = 0; i < r->external.cap; i++)
        if (r->external.slots[i].key)
            cfx_drop(r->external.slots[i].value);
    cfx__map_release(&r->external);
    cfx__map_release(&r->functions);
    cfx__arena_release(&r->arena);
}

/* How an error begins: the file, and the node that is being read. Scope. */
static const char *place(const cfx__onnx_reader *r, const char *what) {
    cfx__text t = {0};
    cfx__text_printf(&t, "'%s' %s: ", r->path, what);
    if (r->node && *r->node->name)
        cfx__text_printf(&t, "node '%s' (%s): ", r->node->name, r->node->op);
    else if (r->node)
        cfx__text_printf(&t, "a node %s: ", r->node->op);
    return cfx__text_take(&t);
}

bool cfx__onnx_bad(const cfx__onnx_reader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0},
                   place(r, "is not an ONNX file that can be read"), fmt, ap);
    va_end(ap);
    return false;
}

bool cfx__onnx_lacks(const cfx__onnx_reader *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__fail_list(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0}, place(r, "cannot be read"), fmt,
                   ap);
    va_end(ap);
    return false;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* How often a message has a field. */
static size_t count(cfx__slice message, uint32_t number) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    size_t n = 0;
    while (cfx__wire_next(&w, &f))
        n += f.number == number;
    return n;
}

const char *cfx__onnx_text(cfx__onnx_reader *r, cfx__slice s) {
    if (!memchr(s.at, 0, s.len))
        return cfx__arena_copy(&r->arena, s.at, s.len);
    cfx__onnx_bad(r, "there is a zero byte in a name");
    return NULL;
}

/* The text of a field; NULL, with an error. */
static const char *text(cfx__onnx_reader *r, cfx__wire *w, const cfx__wire_field *f) {
    cfx__slice s = cfx__wire_bytes(w, f);
    if (!w->broken)
        return cfx__onnx_text(r, s);
    cfx__onnx_bad(r, "there is a number where a text should be");
    return NULL;
}

static void *room(cfx__onnx_reader *r, size_t n, size_t size) {
    return cfx__arena_alloc(&r->arena, (n ? n : 1) * size);
}

static bool is_whole(const cfx__onnx_reader *r, const cfx__wire *w, const char *what) {
    return !w->broken || cfx__onnx_bad(r, "the message of %s is cut off or garbled", what);
}

/* Numbers of a field that has one, or many in a row; *out grows by them. */
static void read_ints(cfx__wire *w, const cfx__wire_field *f, int64_t *out, size_t *n) {
    if (f->type == CFX__WIRE_VARINT) {
        out[(*n)++] = (int64_t)f->value;
        return;
    }
    cfx__wire packed = cfx__wire_of(cfx__wire_bytes(w, f));
    uint64_t v;
    while (cfx__wire_varint(&packed, &v))
        out[(*n)++] = (int64_t)v;
    w->broken |= packed.broken;
}

static void read_floats(cfx__wire *w, const cfx__wire_field *f, float *out, size_t *n) {
    if (f->type == CFX__WIRE_32) {
        out[(*n)++] = cfx__wire_float(w, f);
        return;
    }
    cfx__slice s = cfx__wire_bytes(w, f);
    w->broken |= s.len % sizeof *out != 0;
    memcpy(out + *n, s.at, s.len / sizeof *out * sizeof *out);
    *n += s.len / sizeof *out;
}

/* How many numbers the fields of that number have at most. */
static size_t count_numbers(cfx__slice message, uint32_t number) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    size_t n = 0;
    while (cfx__wire_next(&w, &f))
        if (f.number == number)
            n += f.type == CFX__WIRE_BYTES ? f.bytes.len : 1;
    return n;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static bool read_pair(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_pair *p) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    *p = (cfx__onnx_pair){"", ""};
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        if (f.number == 1)
            p->key = text(r, &w, &f);
        else if (f.number == 2)
            p->value = text(r, &w, &f);
    }
    return is_whole(r, &w, "a pair of texts") && cfx_ok();
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static cfx__onnx_graph *read_graph(cfx__onnx_reader *r, cfx__slice message, int depth);

/* The type of an attribute that files of the first version do not say. */
static cfx__onnx_attr_type type_of_field(uint32_t number) {
    switch (number) {
    case 2: return CFX__ONNX_FLOAT;
    case 3: return CFX__ONNX_INT;
    case 4: return CFX__ONNX_STRING;
    case 5: return CFX__ONNX_TENSOR;
    case 6: return CFX__ONNX_GRAPH;
    case 7: return CFX__ONNX_FLOATS;
    case 8: return CFX__ONNX_INTS;
    case 9: return CFX__ONNX_STRINGS;
    case 10: return CFX__ONNX_TENSORS;
    case 11: return CFX__ONNX_GRAPHS;
    case 14: return CFX__ONNX_TYPE;
    case 15: return CFX__ONNX_TYPES;
    case 22: return CFX__ONNX_SPARSE_TENSOR;
    case 23: return CFX__ONNX_SPARSE_TENSORS;
    default: return CFX__ONNX_UNSAID;
    }
}

/* Only the fields that the type is of count. */
static bool read_attr(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_attr *a, int depth) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    cfx__onnx_attr_type seen = CFX__ONNX_UNSAID;
    size_t nfloats = 0, nints = 0, nstrings = 0;
    *a = (cfx__onnx_attr){.name = ""};
    a->floats = room(r, count_numbers(message, 7) / sizeof(float) + count(message, 7),
                     sizeof *a->floats);
    a->ints = room(r, count_numbers(message, 8), sizeof *a->ints);
    a->strings = room(r, count(message, 9) + count(message, 10), sizeof *a->strings);
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        cfx__onnx_attr_type type = type_of_field(f.number);
        seen = type ? type : seen;
        switch (f.number) {
        case 1: a->name = text(r, &w, &f); break;
        case 21: a->ref = text(r, &w, &f); break;
        case 20: a->type = (cfx__onnx_attr_type)cfx__wire_int(&w, &f); break;
        case 2: a->f = cfx__wire_float(&w, &f); break;
        case 3: a->i = cfx__wire_int(&w, &f); break;
        case 4:
        case 5:
        case 14:
        case 22: a->s = cfx__wire_bytes(&w, &f); break;
        case 6: a->g = read_graph(r, cfx__wire_bytes(&w, &f), depth + 1); break;
        case 7: read_floats(&w, &f, a->floats, &nfloats); break;
        case 8: read_ints(&w, &f, a->ints, &nints); break;
        case 9:
        case 10: a->strings[nstrings++] = cfx__wire_bytes(&w, &f); break;
        default: break;
        }
    }
    a->type = a->type ? a->type : seen;
    a->n = a->type == CFX__ONNX_FLOATS ? nfloats : a->type == CFX__ONNX_INTS ? nints : nstrings;
    if (cfx_ok() && a->type == CFX__ONNX_GRAPH && !a->g && !a->ref)
        return cfx__onnx_bad(r, "attribute '%s' has no graph", a->name);
    return is_whole(r, &w, "an attribute") && cfx_ok();
}

static bool read_node(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_node *n, int depth) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    *n = (cfx__onnx_node){.name = "", .op = "", .domain = "", .overload = ""};
    n->inputs = room(r, count(message, 1), sizeof *n->inputs);
    n->outputs = room(r, count(message, 2), sizeof *n->outputs);
    n->attrs = room(r, count(message, 5), sizeof *n->attrs);
    n->props = room(r, count(message, 9), sizeof *n->props);
    while (cfx__wire_next(&w, &f) && cfx_ok())
        switch (f.number) {
        case 1: n->inputs[n->ninputs++] = text(r, &w, &f); break;
        case 2: n->outputs[n->noutputs++] = text(r, &w, &f); break;
        case 3: n->name = text(r, &w, &f); break;
        case 4: n->op = text(r, &w, &f); break;
        case 7: n->domain = text(r, &w, &f); break;
        case 8: n->overload = text(r, &w, &f); break;
        case 9: read_pair(r, cfx__wire_bytes(&w, &f), &n->props[n->nprops++]); break;
        default: break;
        }
    if (!is_whole(r, &w, "a node") || !cfx_ok())
        return false;
    n->domain = strcmp(n->domain, "ai.onnx") ? n->domain : "";
    r->node = n;
    w = cfx__wire_of(message);
    while (cfx__wire_next(&w, &f) && cfx_ok())
        if (f.number == 5)
            read_attr(r, cfx__wire_bytes(&w, &f), &n->attrs[n->nattrs++], depth);
    r->node = NULL;
    return is_whole(r, &w, "a node") && cfx_ok();
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The name of a message, which has it in this field; "" where it has none. NULL, with an error. */
static const char *name_of(cfx__onnx_reader *r, cfx__slice message, uint32_t number) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    const char *name = "";
    while (cfx__wire_next(&w, &f) && name)
        if (f.number == number)
            name = text(r, &w, &f);
    return name && is_whole(r, &w, "a tensor or value") ? name : NULL;
}

/* The message inside another that has the name of a sparse tensor: its values. */
static cfx__slice first(cfx__slice message, uint32_t number) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    while (cfx__wire_next(&w, &f))
        if (f.number == number && f.type == CFX__WIRE_BYTES)
            return f.bytes;
    return (cfx__slice){"", 0};
}

static bool read_value(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_named *v) {
    *v = (cfx__onnx_named){name_of(r, message, 1), first(message, 2)};
    return v->name != NULL;
}

static cfx__onnx_graph *read_graph(cfx__onnx_reader *r, cfx__slice message, int depth) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    if (depth > MOST_NESTED) {
        cfx__onnx_bad(r, "graphs are nested more than %d deep", MOST_NESTED);
        return NULL;
    }
    cfx__onnx_graph *g = room(r, 1, sizeof *g);
    *g = (cfx__onnx_graph){.name = ""};
    g->nodes = room(r, count(message, 1), sizeof *g->nodes);
    g->tensors = room(r, count(message, 5), sizeof *g->tensors);
    g->sparse = room(r, count(message, 15), sizeof *g->sparse);
    g->inputs = room(r, count(message, 11), sizeof *g->inputs);
    g->outputs = room(r, count(message, 12), sizeof *g->outputs);
    const cfx__onnx_node *around = r->node;
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        cfx__slice s = f.type == CFX__WIRE_BYTES ? f.bytes : (cfx__slice){"", 0};
        switch (f.number) {
        case 1: read_node(r, s, &g->nodes[g->nnodes++], depth); break;
        case 2: g->name = text(r, &w, &f); break;
        case 5: g->tensors[g->ntensors++] = (cfx__onnx_named){name_of(r, s, 8), s}; break;
        case 15: g->sparse[g->nsparse++] = (cfx__onnx_named){name_of(r, first(s, 1), 8), s}; break;
        case 11: read_value(r, s, &g->inputs[g->ninputs++]); break;
        case 12: read_value(r, s, &g->outputs[g->noutputs++]); break;
        default: break;
        }
        r->node = around;
    }
    return is_whole(r, &w, "a graph") && cfx_ok() ? g : NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Later versions may give an operator another meaning. */
enum { NEWEST_SET = 28 };

static bool read_opset(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_opset *o) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    *o = (cfx__onnx_opset){"", 1};
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        if (f.number == 1)
            o->domain = text(r, &w, &f);
        else if (f.number == 2)
            o->version = cfx__wire_int(&w, &f);
    }
    if (!is_whole(r, &w, "an operator set") || !cfx_ok())
        return false;
    if (!strcmp(o->domain, "ai.onnx"))
        o->domain = "";
    if (!*o->domain && o->version > NEWEST_SET)
        return cfx__onnx_lacks(r, "it is of version %lld of ONNX's operator set, and the newest "
                               "known here is %d: what operators mean in it is not known",
                               (long long)o->version, NEWEST_SET);
    if (!*o->domain && o->version < 1)
        return cfx__onnx_bad(r, "it is of version %lld of ONNX's operator set, which there is not",
                             (long long)o->version);
    return true;
}

static bool read_function(cfx__onnx_reader *r, cfx__slice message, cfx__onnx_function *n) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    *n = (cfx__onnx_function){.name = "", .domain = "", .overload = ""};
    n->inputs = room(r, count(message, 4), sizeof *n->inputs);
    n->outputs = room(r, count(message, 5), sizeof *n->outputs);
    n->attrs = room(r, count(message, 6), sizeof *n->attrs);
    n->defaults = room(r, count(message, 11), sizeof *n->defaults);
    n->nodes = room(r, count(message, 7), sizeof *n->nodes);
    n->opsets = room(r, count(message, 9), sizeof *n->opsets);
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        cfx__slice s = f.type == CFX__WIRE_BYTES ? f.bytes : (cfx__slice){"", 0};
        switch (f.number) {
        case 1: n->name = text(r, &w, &f); break;
        case 4: n->inputs[n->ninputs++] = text(r, &w, &f); break;
        case 5: n->outputs[n->noutputs++] = text(r, &w, &f); break;
        case 6: n->attrs[n->nattrs++] = text(r, &w, &f); break;
        case 7: read_node(r, s, &n->nodes[n->nnodes++], 1); break;
        case 9: read_opset(r, s, &n->opsets[n->nopsets++]); break;
        case 10: n->domain = text(r, &w, &f); break;
        case 11: read_attr(r, s, &n->defaults[n->ndefaults++], 1); break;
        case 13: n->overload = text(r, &w, &f); break;
        default: break;
        }
    }
    if (!is_whole(r, &w, "a function") || !cfx_ok())
        return false;
    n->domain = strcmp(n->domain, "ai.onnx") ? n->domain : "";
    return true;
}

bool cfx__onnx_read_model(cfx__onnx_reader *r, cfx__slice message) {
    cfx__wire w = cfx__wire_of(message);
    cfx__wire_field f;
    cfx__onnx_model *m = &r->model;
    *m = (cfx__onnx_model){.producer = "", .producer_version = ""};
    m->opsets = room(r, count(message, 8), sizeof *m->opsets);
    m->functions = room(r, count(message, 25), sizeof *m->functions);
    m->props = room(r, count(message, 14), sizeof *m->props);
    while (cfx__wire_next(&w, &f) && cfx_ok()) {
        cfx__slice s = f.type == CFX__WIRE_BYTES ? f.bytes : (cfx__slice){"", 0};
        switch (f.number) {
        case 1: m->ir_version = cfx__wire_int(&w, &f); break;
        case 2: m->producer = text(r, &w, &f); break;
        case 3: m->producer_version = text(r, &w, &f); break;
        case 7: m->graph = read_graph(r, s, 0); break;
        case 8: read_opset(r, s, &m->opsets[m->nopsets++]); break;
        case 14: read_pair(r, s, &m->props[m->nprops++]); break;
        case 25: read_function(r, s, &m->functions[m->nfunctions++]); break;
        default: break;
        }
    }
    if (!is_whole(r, &w, "the model") || !cfx_ok())
        return false;
    return m->graph || cfx__onnx_bad(r, "it has no graph");
}
