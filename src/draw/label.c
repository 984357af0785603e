/* What stands in boxes and on stubs, and how large boxes get by it. */
#include "draw.h"

#include <ctype.h>

#include "../tensor/few.h"

/* ---- lines --------------------------------------------------------------------------------- */

/* The bytes of a character and its width in cells of a fixed width. */
static size_t character(const char *at, size_t left, int *width) {
    unsigned char c = (unsigned char)*at;
    size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    n = n > left ? left : n;
    uint32_t code = c < 0xc0 ? c : c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xd7a3) ||
                (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) ||
                (code >= 0xff00 && code <= 0xff60) || code >= 0x1f300;
    *width = wide ? 2 : 1;
    return n;
}

int cfx__draw_text_width(const char *text, size_t len) {
    int width = 0, w;
    for (size_t i = 0; i < len; width += w)
        i += character(text + i, len - i, &w);
    return width;
}

/* Adds at most `most` cells of a text; what is cut off leaves an ellipsis. */
static int clip(cfx__text *out, const char *text, size_t len, int most) {
    int width = cfx__draw_text_width(text, len);
    if (width <= most) {
        cfx__text_add(out, text, len);
        return width;
    }
    int used = 0, w;
    size_t at = 0;
    for (size_t n; n = character(text + at, len - at, &w), used + w < most; used += w)
        at += n;
    cfx__text_add(out, text, at);
    cfx__text_puts(out, "\xe2\x80\xa6");
    return used + 1;
}

/* Cut at the front: of a path the end says more. */
static int clip_front(cfx__text *out, const char *text, size_t len, int most) {
    int width = cfx__draw_text_width(text, len), w;
    if (width <= most)
        return clip(out, text, len, most);
    size_t at = 0;
    while (width >= most) {
        at += character(text + at, len - at, &w);
        width -= w;
    }
    cfx__text_puts(out, "\xe2\x80\xa6");
    cfx__text_add(out, text + at, len - at);
    return width + 1;
}

typedef struct labeller {
    cfx__draw_scene *s;
    cfx__draw_item *item;
    cfx__draw_sheet *sheet;
    cfx__text part, row; /* scratch */
} labeller;

static void end_line(labeller *l, cfx__draw_line_style style, size_t at, int width) {
    VEC_PUSH(l->s->lines, ((cfx__draw_line){.at = (uint32_t)at,
                                            .len = (uint32_t)(l->s->text.len - at),
                                            .width = (int16_t)width,
                                            .style = (uint8_t)style}));
    l->item->nlines++;
}

static void add_line(labeller *l, cfx__draw_line_style style, const char *text, size_t len) {
    size_t at = l->s->text.len;
    if (len)
        end_line(l, style, at, clip(&l->s->text, text, len, CFX__MAX_CHARS));
}

static void add_path(labeller *l, cfx__draw_line_style style, const char *text, size_t len) {
    size_t at = l->s->text.len;
    end_line(l, style, at, clip_front(&l->s->text, text, len, CFX__MAX_CHARS));
}

static void add_row(labeller *l, cfx__draw_line_style style) {
    add_line(l, style, l->row.data, l->row.len);
    l->row.len = 0;
}

/* ---- values -------------------------------------------------------------------------------- */

void cfx__draw_put_tensor(cfx__text *out, const cfx_tensor *t) {
    cfx__text_puts(out, cfx_dtype_brief(cfx_tensor_dtype(t)));
    cfx__text_putc(out, '[');
    const int64_t *shape = cfx_tensor_shape(t);
    for (int i = 0; i < cfx_tensor_ndim(t); i++) {
        if (i)
            cfx__text_add(out, ", ", 2);
        cfx__repr(out, cfx_int(shape[i]));
    }
    cfx__text_putc(out, ']');
}

bool cfx__draw_put_shape(cfx__text *out, const cfx_node *n) {
    size_t at = out->len;
    cfx__emit_writer w = {.out = out};
    static const cfx_readable_options plain = {0};
    if (!cfx__emit_shape(&w, n, &plain))
        return false;
    size_t len = out->len - at; /* : "f32[3, 4]" without what is around it */
    if (len < 4)
        return false;
    memmove(out->data + at, out->data + at + 3, len - 4);
    out->len = at + len - 4;
    out->data[out->len] = 0;
    return true;
}

enum { LIST_ITEMS = 6 };

/* A constant, briefly. */
static void put_value(cfx__text *out, cfx_value v) {
    switch ((cfx_tag)v.tag) {
    case CFX_TAG_DTYPE:
        cfx__text_puts(out, cfx_dtype_name(cfx_as_dtype(v)));
        break;
    case CFX_TAG_DEVICE:
        cfx__device_str(out, cfx_as_device(v));
        break;
    case CFX_TAG_NODE:
        cfx__text_puts(out, cfx_as_node(v)->name);
        break;
    case CFX_TAG_TENSOR:
        cfx__draw_put_tensor(out, cfx_as_tensor(v));
        break;
    case CFX_TAG_OP:
        cfx__text_puts(out, cfx_op_name(cfx_as_op(v)));
        break;
    case CFX_TAG_LIST:
    case CFX_TAG_TUPLE:
        cfx__text_putc(out, '[');
        for (int64_t i = 0; i < cfx_as_list(v)->len && i < LIST_ITEMS; i++) {
            if (i)
                cfx__text_add(out, ", ", 2);
            put_value(out, cfx_as_list(v)->items[i]);
        }
        if (cfx_as_list(v)->len > LIST_ITEMS)
            cfx__text_puts(out, ", \xe2\x80\xa6");
        cfx__text_putc(out, ']');
        break;
    default:
        cfx__repr(out, v);
    }
}

enum { CONSTANT_ROWS = 3 };

/* Adds l->part to the row being written, or to the next where it does not fit any more. */
static void add_part(labeller *l, int *rows) {
    if (l->row.len && l->row.len + l->part.len + 2 > CFX__MAX_CHARS) {
        bool full = ++*rows == CONSTANT_ROWS;
        cfx__text_puts(&l->row, full ? ", \xe2\x80\xa6" : ",");
        add_row(l, CFX__LINE_CONSTANT);
        if (full) {
            ++*rows;
            return;
        }
    }
    if (l->row.len)
        cfx__text_add(&l->row, ", ", 2);
    cfx__text_add(&l->row, l->part.data, l->part.len);
}

/* Adds the numbers of the tensor that a value stands for to l->part where they tell more than its
 * shape: there are few, and they are no parameter with a dimension. */
static bool add_few(labeller *l, cfx_value v) {
    uint32_t id = v.tag == CFX_TAG_NODE ? cfx__node_of(cfx_as_node(v))->id : 0;
    cfx__draw_fold *f = &l->sheet->fold[id];
    bool told = v.tag == CFX_TAG_NODE && l->sheet->item[id] == CFX__FOLDED && f->tensor &&
                (strcmp(f->kind, "parameter") || !cfx_tensor_ndim(f->tensor)) &&
                cfx__tensor_put_few(&l->part, f->tensor);
    if (told)
        f->last = (int)(l->item - l->s->items.data);
    return told;
}

/* One constant of a call. */
static void add_constant(labeller *l, const char *name, cfx_value v, int *rows) {
    bool list = v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE;
    if (v.tag == CFX_TAG_NONE || *rows > CONSTANT_ROWS)
        return;
    if (list && !cfx_as_list(v)->len && !name) /* no operands: nothing to tell */
        return;
    static const char *const dull[] = {"device", "layout", "pin_memory", "cudnn_enabled",
                                       "cudnn_enable"}; /* in every graph, and of no news */
    for (int i = 0; name && i < COUNT(dull); i++)
        if (!strcmp(name, dull[i]))
            return;
    l->part.len = 0;
    if (name)
        cfx__text_puts(&l->part, name), cfx__text_putc(&l->part, '=');
    bool few = add_few(l, v);
    if (!few && cfx__node_within(v))
        return;
    if (!few)
        put_value(&l->part, v);
    add_part(l, rows);
}

/* What a module says of itself: "in_features=4, out_features=8". */
static void add_extra(labeller *l, const char *extra) {
    int rows = 0, depth = 0;
    l->row.len = l->part.len = 0;
    for (const char *at = extra; rows <= CONSTANT_ROWS; at++) {
        depth += *at == '(' || *at == '[';
        depth -= *at == ')' || *at == ']';
        if (*at && (*at != ',' || depth)) {
            cfx__text_putc(&l->part, *at);
            continue;
        }
        if (l->part.len)
            add_part(l, &rows);
        l->part.len = 0;
        if (!*at)
            break;
        at += at[1] == ' ';
    }
    if (l->row.len)
        add_row(l, CFX__LINE_CONSTANT);
}

static void add_constants(labeller *l, const cfx_node *n) {
    const cfx__schema *schema = n->op == CFX_CALL_FUNCTION && n->target.op && !n->target.fn
                                    ? cfx__op_info_of(n->target.op)->schema
                                    : NULL;
    int rows = 0;
    l->row.len = 0;
    for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++)
        add_constant(l, schema && i < schema->nargs ? schema->args[i].name : NULL,
                     cfx_as_list(n->args)->items[i], &rows);
    for (int64_t i = 0; i < cfx_as_dict(n->kwargs)->len; i++) {
        const char *name = cfx_text(cfx_as_dict(n->kwargs)->entries[i].key);
        if (!cfx__draw_is_default(schema, name, cfx_as_dict(n->kwargs)->entries[i].value))
            add_constant(l, name, cfx_as_dict(n->kwargs)->entries[i].value, &rows);
    }
    if (l->row.len)
        add_row(l, CFX__LINE_CONSTANT);
}

/* ---- nodes --------------------------------------------------------------------------------- */

const char *cfx__draw_last_part(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && dot[1] ? dot + 1 : path;
}

void cfx__draw_put_op(cfx__text *out, const cfx__draw_sheet *sheet, const cfx_node *n) {
    const char *name = n->target.name;
    if (n->op == CFX_CALL_MODULE) {
        const cfx_module *m = sheet->module ? cfx_module_find(sheet->module, name) : NULL;
        cfx__text_puts(out, m ? m->type : name);
        return;
    }
    if (n->op == CFX_CALL_METHOD)
        cfx__text_puts(out, "Tensor.");
    if (!strncmp(name, "torch.ops.", 10))
        name += 10;
    if (!strncmp(name, "higher_order.", 13))
        name += 13;
    size_t len = strlen(name);
    if (len > 8 && !strcmp(name + len - 8, ".default"))
        len -= 8;
    cfx__text_add(out, name, len);
}

/* "weight f32[8, 4]": a parameter by its name in the module that the box belongs to. */
static void add_parameter(labeller *l, const char *name, const char *module, const cfx_tensor *t,
                          const cfx_node *n) {
    size_t len = module ? strlen(module) : 0;
    if (len && !strncmp(name, module, len) && name[len] == '.')
        name += len + 1;
    l->row.len = 0;
    clip_front(&l->row, name, strlen(name), CFX__MAX_CHARS - 14);
    cfx__text_putc(&l->row, ' ');
    if (t)
        cfx__draw_put_tensor(&l->row, t);
    else if (n)
        cfx__draw_put_shape(&l->row, n);
    add_row(l, CFX__LINE_PARAMETER);
}

enum { PARAMETER_ROWS = 6 };

static void add_more(labeller *l, int more) {
    l->row.len = 0;
    if (more > 0) {
        cfx__text_printf(&l->row, "+%d more", more);
        add_row(l, CFX__LINE_PARAMETER);
    }
}

/* The frame around the item; groups do not count. */
static const cfx__draw_item *frame_of(const labeller *l) {
    const cfx__draw_item *parent = &l->s->items.data[l->item->parent];
    while (parent->kind >= CFX__ITEM_REPEAT)
        parent = &l->s->items.data[parent->parent];
    return parent;
}

/* A path as it reads inside the frame that the item is in: "conv1" of "layer1.0.conv1". */
static const char *inside(const labeller *l, const char *path) {
    const cfx__draw_item *parent = frame_of(l);
    size_t len = parent->kind == CFX__ITEM_MODULE ? strlen(parent->path) : 0;
    return len && !strncmp(path, parent->path, len) && path[len] == '.' ? path + len + 1 : path;
}

static const char *module_of(const labeller *l) {
    if (l->item->path)
        return l->item->path;
    const cfx__draw_item *parent = frame_of(l);
    return parent->kind == CFX__ITEM_MODULE ? parent->path : NULL;
}

static void add_parameters(labeller *l, const cfx_node *n) {
    int rows = 0;
    cfx_each_input(n, u) {
        uint32_t id = cfx__node_of(u->node)->id;
        if (l->sheet->item[id] != CFX__FOLDED || l->sheet->fold[id].graph)
            continue;
        const cfx__draw_fold *f = &l->sheet->fold[id];
        if (f->last == l->item - l->s->items.data) /* its numbers stand among the constants */
            continue;
        if (rows++ < PARAMETER_ROWS)
            add_parameter(l, f->target, module_of(l), f->tensor, u->node);
    }
    const cfx_module *m = n->op == CFX_CALL_MODULE && l->sheet->module
                              ? cfx_module_find(l->sheet->module, n->target.name)
                              : NULL;
    for (int k = 0; m && !m->graph && k < 2; k++) {
        const cfx_dict *d = k ? m->buffers : m->parameters;
        for (int64_t i = 0; i < d->len; i++)
            if (d->entries[i].value.tag == CFX_TAG_TENSOR && rows++ < PARAMETER_ROWS)
                add_parameter(l, cfx_text(d->entries[i].key), NULL,
                              cfx_as_tensor(d->entries[i].value), NULL);
    }
    add_more(l, rows - PARAMETER_ROWS);
}

const char *cfx__draw_next_line(const char *text, size_t *len) {
    if (!text || !*text)
        return NULL;
    *len = strcspn(text, "\n");
    return text + *len + (text[*len] == '\n');
}

bool cfx__draw_is_colour(const char *text) {
    size_t n = strlen(text);
    if (!n || n > 64)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("#(),.% -", text[i]))
            return false;
    return true;
}

/* What the caller wants of a node; false, with an error, where it cannot be had. */
static bool add_style(labeller *l, const cfx_node *n) {
    const cfx_draw_options *o = l->s->options;
    if (!o->style)
        return true;
    cfx_node_style style = {0};
    o->style(n, &style, o->user);
    if (style.fill && !cfx__draw_is_colour(style.fill)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s', wanted for node %s, is no CSS colour",
                 style.fill, n->name);
        return false;
    }
    if (style.fill)
        l->item->fill = cfx__arena_copy(&l->s->arena, style.fill, strlen(style.fill));
    size_t len;
    for (const char *at = style.lines, *next; (next = cfx__draw_next_line(at, &len)); at = next)
        add_line(l, CFX__LINE_EXTRA, at, len);
    return true;
}

static bool label_node(labeller *l) {
    const cfx_node *n = l->item->node;
    add_line(l, CFX__LINE_NAME, n->name, strlen(n->name));
    if (n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT) {
        l->row.len = 0;
        cfx__draw_put_op(&l->row, l->sheet, n);
        add_row(l, CFX__LINE_OP);
    }
    const char *path = l->item->path;
    if (n->op == CFX_CALL_MODULE)
        path = strcmp(n->target.name, n->name) ? n->target.name : NULL;
    if (path) {
        const char *type = n->op == CFX_CALL_MODULE ? NULL : l->item->type;
        l->row.len = 0;
        cfx__text_puts(&l->row, inside(l, path));
        if (type)
            cfx__text_printf(&l->row, " \xc2\xb7 %s", cfx__draw_last_part(type));
        add_path(l, CFX__LINE_MODULE, l->row.data, l->row.len);
        l->row.len = 0;
    }
    const cfx_module *m = n->op == CFX_CALL_MODULE && l->sheet->module
                              ? cfx_module_find(l->sheet->module, n->target.name)
                              : NULL;
    if (m && m->extra_repr)
        add_extra(l, m->extra_repr(m));
    if (n->op != CFX_OUTPUT)
        add_constants(l, n);
    add_parameters(l, n);
    l->row.len = 0;
    if (n->op != CFX_OUTPUT && cfx__draw_put_shape(&l->row, n))
        add_row(l, CFX__LINE_SHAPE);
    return add_style(l, n);
}

/* ---- modules ------------------------------------------------------------------------------- */

static void put_count(cfx__text *out, int64_t n, const char *what) {
    static const struct {
        double one;
        const char *sign;
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (int i = 0; i < COUNT(units); i++)
        if ((double)n >= 10 * units[i].one || (i < 2 && (double)n >= units[i].one)) {
            cfx__text_printf(out, "%.3g%s %s%s", (double)n / units[i].one, units[i].sign, what,
                             "s");
            return;
        }
    cfx__text_printf(out, "%lld %s%s", (long long)n, what, n == 1 ? "" : "s");
}

static int64_t numel(const cfx_dict *d) {
    int64_t n = 0;
    for (int64_t i = 0; i < d->len; i++)
        if (d->entries[i].value.tag == CFX_TAG_TENSOR)
            n += cfx_tensor_numel(cfx_as_tensor(d->entries[i].value));
    return n;
}

/* A closed frame: what it is, how much is in it, what comes out of it. */
static void label_closed(labeller *l, int self) {
    const cfx__draw_item *items = l->s->items.data;
    int64_t numbers = 0;
    const cfx_node *out = NULL;
    int outs = 0;
    for (int i = self + 1; i < l->item->end; i++) {
        if (!items[i].node)
            continue;
        cfx__draw_sheet *sheet = &l->s->sheets.data[items[i].graph];
        bool leaves = false;
        cfx_each_user(items[i].node, u) {
            int to = sheet->item[cfx__node_of(u->user)->id];
            leaves |= to >= 0 && (to < self || to >= l->item->end);
        }
        if (leaves) {
            out = items[i].node;
            outs++;
        }
        cfx_each_input(items[i].node, u) {
            uint32_t id = cfx__node_of(u->node)->id;
            cfx__draw_fold *f = &sheet->fold[id];
            if (sheet->item[id] != CFX__FOLDED || f->last == self || !f->tensor)
                continue;
            f->last = self;
            numbers += cfx_tensor_numel(f->tensor);
        }
        if (items[i].node->op == CFX_CALL_MODULE && sheet->module) {
            const cfx_module *m = cfx_module_find(sheet->module, items[i].node->target.name);
            numbers += m ? numel(m->parameters) + numel(m->buffers) : 0;
        }
    }
    l->row.len = 0;
    put_count(&l->row, l->item->nodes, "node");
    if (numbers) {
        cfx__text_add(&l->row, ", ", 2);
        put_count(&l->row, numbers, "weight");
    }
    add_row(l, CFX__LINE_CONSTANT);
    if (outs == 1 && cfx__draw_put_shape(&l->row, out))
        add_row(l, CFX__LINE_SHAPE);
}

static void label_module(labeller *l, int self) {
    const cfx__draw_item *item = l->item;
    const char *type = item->type ? cfx__draw_last_part(item->type) : NULL;
    if (item->kind == CFX__ITEM_REPEAT)
        type = cfx__text_format("%d \xc3\x97 %s", item->times, type ? type : "module");
    l->row.len = 0;
    cfx__text_puts(&l->row, item->kind == CFX__ITEM_ASIDE ? cfx__draw_side_name(l->s, self)
                                                          : inside(l, item->path));
    if (item->kind == CFX__ITEM_REPEAT)
        cfx__text_printf(&l->row, "\xe2\x80\x93%s", cfx__draw_last_part(item->until));
    else if (item->kind == CFX__ITEM_SECTION)
        cfx__text_printf(&l->row, " \xe2\x80\xa6 %s", item->until);
    else if (item->call > 1)
        cfx__text_printf(&l->row, " (call %d)", item->call);
    if (item->open && type)
        cfx__text_printf(&l->row, " \xc2\xb7 %s", type);
    add_path(l, CFX__LINE_NAME, l->row.data, l->row.len);
    if (item->open)
        return;
    if (type)
        add_line(l, CFX__LINE_OP, type, strlen(type));
    label_closed(l, self);
}

/* What stands in an item as it is now, open or closed. */
static bool label_item(labeller *l, int i) {
    size_t mark = cfx_scope_open();
    bool ok = true;
    l->item = cfx__draw_item_at(l->s, i);
    l->sheet = &l->s->sheets.data[l->item->graph];
    l->item->line = (int)l->s->lines.len;
    l->item->nlines = 0;
    switch ((cfx__draw_item_kind)l->item->kind) {
    case CFX__ITEM_BOX:
        ok = label_node(l);
        break;
    case CFX__ITEM_HOLDER:
        ok = label_node(l);
        if (!l->item->open)
            label_closed(l, i);
        break;
    case CFX__ITEM_MODULE:
    case CFX__ITEM_REPEAT:
    case CFX__ITEM_SECTION:
    case CFX__ITEM_ASIDE:
        label_module(l, i);
        break;
    case CFX__ITEM_GRAPH:
        add_path(l, CFX__LINE_NAME, l->item->path, strlen(l->item->path));
        break;
    }
    cfx_scope_close(mark);
    return ok;
}

void cfx__draw_label_closed(cfx__draw_scene *s, int i) {
    labeller l = {.s = s};
    cfx__draw_item_at(s, i)->open = false;
    label_item(&l, i);
    cfx__draw_item_at(s, i)->open = true;
    cfx__text_release(&l.part);
    cfx__text_release(&l.row);
}

/* ---- stubs and sizes ----------------------------------------------------------------------- */

const char *cfx__draw_stub_text(const cfx__draw_scene *s, const cfx__draw_item *item, int k) {
    if (k == CFX__MAX_STUBS && item->nstubs > CFX__MAX_STUBS + 1)
        return cfx__text_format("+%d more", item->nstubs - CFX__MAX_STUBS);
    const cfx__draw_stub *stub = &s->stubs.data[item->stub + k];
    const char *text = stub->node ? stub->node->name : s->items.data[stub->from].path;
    cfx__text out = {0};
    clip_front(&out, text, strlen(text), CFX__STUB_CHARS);
    return cfx__text_take(&out);
}

static void measure(cfx__draw_scene *s, cfx__draw_item *item) {
    int width = 0;
    for (int i = 0; i < item->nlines; i++) {
        int w = s->lines.data[item->line + i].width;
        width = w > width ? w : width;
    }
    item->w = width * CFX__CHAR_W + 2 * CFX__PAD;
    item->h = item->nlines * CFX__LINE_H + 10;
    int rows = item->nstubs > CFX__MAX_STUBS ? CFX__MAX_STUBS + 1 : item->nstubs;
    int label = 0;
    for (int k = 0; k < rows; k++) {
        const char *text = cfx__draw_stub_text(s, item, k);
        int w = cfx__draw_text_width(text, strlen(text));
        label = w > label ? w : label;
    }
    if (rows * CFX__LINE_H + 6 > item->h)
        item->h = rows * CFX__LINE_H + 6;
    item->left = rows ? label * CFX__STUB_W + CFX__STUB_LINE + 4 : 0;
    item->right = item->uses ? CFX__STUB_LINE + 4 + 8 * CFX__STUB_W : 0;
}

bool cfx__draw_labels(cfx__draw_scene *s) {
    labeller l = {.s = s};
    bool ok = true;
    for (int i = 1; i < (int)s->items.len && ok; i++) {
        if (!cfx__draw_item_at(s, i)->seen)
            continue;
        ok = label_item(&l, i);
        CFX_SCOPE measure(s, l.item);
    }
    cfx__text_release(&l.part);
    cfx__text_release(&l.row);
    return ok;
}
