/* The stack machine of pickles, protocols 2 to 5, and what it may call.
 *
 * Containers are filled after they are made, and what was made may be fetched again by number. So
 * that nothing comes to hold itself, a container that was fetched is closed: filling it after that
 * is an error. Python writes no such pickle but for values that do hold themselves. */
#include "pickle_names.h"

#include <errno.h>

/* On the stack a name is an ellipsis, which no pickle can make, with the callee in `spare` and
 * above it the dtype of a class of storages, plus one. */
static cfx_value name_value(cfx__pickle_callee c, int dtype) {
    cfx_value v = cfx_ellipsis();
    v.spare = c | (uint32_t)(dtype + 1) << 8;
    return v;
}

static cfx__pickle_callee callee_of(cfx_value v) {
    return v.tag == CFX_TAG_ELLIPSIS ? (cfx__pickle_callee)(v.spare & 255) : NO_CALLEE;
}

/* -1: none. */
static int dtype_of(cfx_value v) {
    return v.tag == CFX_TAG_DTYPE ? (int)cfx_as_dtype(v) : (int)(v.spare >> 8) - 1;
}

typedef struct item {
    cfx_value v;
    int32_t box; /* of a container: its number in boxes; -1 otherwise, MARK for a mark */
} item;

enum { MARK = -2 };
/* So many items a value may have on top of the bytes of its file: what is shared is gone through
 * once for each place that it is in. */
enum { UNFOLDED = 100000 };

/* What is known of a container. */
typedef struct box {
    int depth;
    bool closed;
    uint64_t size; /* of everything in it, what is in it twice counted twice */
} box;

typedef struct machine {
    const char *what;
    const unsigned char *start, *at, *end;
    VEC(item) stack;
    VEC(item) memo; /* by number; unset ones are marks */
    VEC(box) boxes;
    cfx__pickle_storage_fn *storage;
    void *user;
    bool look; /* for storages alone: tensors are None */
    bool failed;
} machine;

CFX_PRINTF(2, 3) static bool bad(machine *m, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *before = cfx__text_format("%s cannot be read: ", m->what);
    cfx__fail_list(CFX_FILE_ERROR, (cfx_site){0}, before, fmt, ap);
    va_end(ap);
    m->failed = true;
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const char *bytes(machine *m, uint64_t n) {
    if ((uint64_t)(m->end - m->at) < n) {
        bad(m, "its pickle is cut off");
        return NULL;
    }
    m->at += n;
    return (const char *)m->at - n;
}

/* An unsigned number of n bytes. */
static uint64_t number(machine *m, int n) {
    const unsigned char *p = (const unsigned char *)bytes(m, (uint64_t)n);
    uint64_t v = 0;
    for (int i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* The text up to the end of the line; scope. NULL, with an error. */
static const char *line(machine *m) {
    const unsigned char *stop = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!stop) {
        bad(m, "its pickle is cut off");
        return NULL;
    }
    const char *text = cfx__string_new((const char *)m->at, (size_t)(stop - m->at))->text;
    m->at = stop + 1;
    return text;
}

/* ---- the stack ------------------------------------------------------------------------------- */

static void push_item(machine *m, item it) {
    if (VEC_TRY(m->stack, 1))
        VEC_PUSH(m->stack, it);
    else
        m->failed = true;
}

static void push(machine *m, cfx_value v) { push_item(m, (item){v, -1}); }

static item *top(machine *m) {
    if (m->stack.len && m->stack.data[m->stack.len - 1].box != MARK)
        return &m->stack.data[m->stack.len - 1];
    bad(m, "its pickle takes more from the stack than there is");
    return NULL;
}

static item pop(machine *m) {
    item *it = top(m);
    if (!it)
        return (item){cfx_none(), -1};
    m->stack.len--;
    return *it;
}

/* The place behind the last mark, which is taken off: what lies there moves down by one. The number
 * of those; -1, with an error. */
static int64_t pop_mark(machine *m) {
    size_t at = m->stack.len;
    while (at && m->stack.data[at - 1].box != MARK)
        at--;
    if (!at) {
        bad(m, "its pickle lacks a mark on the stack");
        return -1;
    }
    size_t n = m->stack.len - at;
    memmove(m->stack.data + at - 1, m->stack.data + at, n * sizeof(item));
    m->stack.len--;
    return (int64_t)n;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* A new box; -1, with an error, where there is no room. */
static int32_t add_box(machine *m) {
    if (m->boxes.len == INT32_MAX)
        bad(m, "it holds more than %d lists and dicts", INT32_MAX);
    m->failed = m->failed || !VEC_TRY(m->boxes, 1);
    if (m->failed)
        return -1;
    VEC_PUSH(m->boxes, ((box){.depth = 1}));
    return (int32_t)(m->boxes.len - 1);
}

static void push_container(machine *m, cfx_value v) {
    int32_t made = add_box(m);
    if (made >= 0)
        push_item(m, (item){v, made});
}

/* Whether it may go into a container that is not closed; counts the levels. */
static bool enters(machine *m, int32_t into, const item *it) {
    box *b = &m->boxes.data[into];
    if (b->closed)
        return bad(m, "it holds a value that holds itself");
    int depth = it->box < 0 ? 1 : m->boxes.data[it->box].depth + 1;
    b->depth = depth > b->depth ? depth : b->depth;
    b->size += 1 + (it->box < 0 ? 0 : m->boxes.data[it->box].size);
    if (b->size > UNFOLDED + (uint64_t)(m->end - m->start))
        return bad(m, "its values unfold to far more than the file has");
    return b->depth <= CFX__PICKLE_DEPTH || bad(m, "its values are nested too deeply");
}

/* The first of the n values on top. */
static item *topmost(const machine *m, int64_t n) {
    return m->stack.len ? &m->stack.data[(int64_t)m->stack.len - n] : NULL;
}

/* A tuple of the n values on top. */
static void make_tuple(machine *m, int64_t n) {
    if (n < 0 || (int64_t)m->stack.len < n) {
        bad(m, "its pickle takes more from the stack than there is");
        return;
    }
    const item *from = topmost(m, n);
    cfx_value v = cfx_tuple_value(0, NULL);
    int32_t made = add_box(m);
    for (int64_t i = 0; i < n && !m->failed; i++) {
        if (from[i].box == MARK)
            bad(m, "its pickle has a mark in a tuple");
        else if (enters(m, made, &from[i]))
            cfx_list_append(cfx_as_list(v), from[i].v);
    }
    m->stack.len -= (size_t)n;
    if (made < 0)
        return;
    m->boxes.data[made].closed = true;
    push_item(m, (item){v, made});
}

/* Appends the n values on top to the list below them. */
static void append(machine *m, int64_t n) {
    if (n < 0 || (int64_t)m->stack.len < n + 1) {
        bad(m, "its pickle takes more from the stack than there is");
        return;
    }
    item *from = topmost(m, n), *list = from - 1;
    if (list->v.tag != CFX_TAG_LIST || list->box < 0) {
        bad(m, "its pickle appends to what is no list");
        return;
    }
    for (int64_t i = 0; i < n && enters(m, list->box, &from[i]); i++)
        cfx_list_append(cfx_as_list(list->v), from[i].v);
    m->stack.len -= (size_t)n;
}

static bool is_key(cfx_value v) {
    return v.tag == CFX_TAG_STR || v.tag == CFX_TAG_INT || v.tag == CFX_TAG_BOOL ||
           v.tag == CFX_TAG_NONE || v.tag == CFX_TAG_FLOAT;
}

/* Puts the n values on top, keys and values in turn, into the dict below them. */
static void set_items(machine *m, int64_t n) {
    if (n < 0 || n % 2 || (int64_t)m->stack.len < n + 1) {
        bad(m, "its pickle sets items in a wrong way");
        return;
    }
    item *from = topmost(m, n), *dict = from - 1;
    if (dict->v.tag != CFX_TAG_DICT || dict->box < 0) {
        bad(m, "its pickle sets items of what is no dict");
        return;
    }
    for (int64_t i = 0; i < n && !m->failed; i += 2)
        if (!is_key(from[i].v))
            bad(m, "a key of a dict is no string or number");
        else if (enters(m, dict->box, &from[i + 1]))
            cfx_dict_put(cfx_as_dict(dict->v), from[i].v, from[i + 1].v);
    m->stack.len -= (size_t)n;
}

/* ---- what was made before -------------------------------------------------------------------- */

static void put(machine *m, uint64_t at) {
    item *it = top(m);
    if (!it)
        return;
    if (at > (uint64_t)(m->end - m->start)) {
        bad(m, "its pickle numbers its values in an absurd way");
        return;
    }
    if (at >= m->memo.len && !VEC_TRY(m->memo, at + 1 - m->memo.len)) {
        m->failed = true;
        return;
    }
    while (m->memo.len <= at)
        VEC_PUSH(m->memo, ((item){cfx_none(), MARK}));
    if (callee_of(it->v) == ARRAY && at < UINT32_MAX >> 8)
        it->v.spare = ARRAY | (uint32_t)(at + 1) << 8; /* build() finds it again */
    m->memo.data[at] = *it;
}

static void get(machine *m, uint64_t at) {
    if (at >= m->memo.len || m->memo.data[at].box == MARK) {
        bad(m, "its pickle fetches a value that was not made");
        return;
    }
    item it = m->memo.data[at];
    if (it.box >= 0)
        m->boxes.data[it.box].closed = true;
    push_item(m, it);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Pushes what a name stands for: one on the list, or a dtype. */
static void push_name(machine *m, const char *module, const char *name) {
    int dtype;
    cfx_dtype d;
    const cfx__pickle_callee c = cfx__pickle_name(module, name, &dtype);
    if (c != NO_CALLEE)
        push(m, name_value(c, dtype));
    else if (!strcmp(module, "torch") && cfx_dtype_parse(name, &d))
        push(m, cfx_dtype_value(d));
    else
        bad(m, "its pickle names %.100s.%.100s, which is not among the names that may be read "
               "(nothing in a file is executed); save tensors, such as a state_dict(), instead",
            module, name);
}

/* A storage is a tuple: ("storage", class, key, location, length), old ones with a part or None. */
static bool rebuild_tensor(machine *m, const cfx_list *a, bool typed) {
    cfx_value s = a->len >= 4 ? a->items[0] : cfx_none(), class = cfx_none();
    const char *key = NULL;
    if (s.tag == CFX_TAG_TUPLE && cfx_as_list(s)->len >= 3) {
        class = cfx_as_list(s)->items[1];
        key = cfx_text(cfx_as_list(s)->items[2]);
        if (cfx_as_list(s)->len > 5 && !cfx_is_none(cfx_as_list(s)->items[5]))
            return bad(m, "a storage in it is a part of another one");
    }
    int64_t sizes[CFX_MAX_DIMS], strides[CFX_MAX_DIMS];
    cfx_value given = !typed && a->len >= 7 ? a->items[6] : cfx_none();
    int dtype = dtype_of(given.tag == CFX_TAG_DTYPE ? given : class);
    if (!key || callee_of(class) != STORAGE || dtype < 0 || a->items[1].tag != CFX_TAG_INT ||
        cfx_integer(a->items[1]) < 0)
        return bad(m, "a tensor in its pickle has no storage, offset or dtype that can be read");
    int n = cfx__pickle_ints(a->items[2], sizes), k = cfx__pickle_ints(a->items[3], strides);
    if (n < 0 || n != k)
        return bad(m, "a tensor in its pickle has wrong sizes or strides");
    cfx_tensor *base = m->storage ? m->storage(m->user, key, (cfx_dtype)dtype) : NULL;
    if (m->look)
        return push(m, cfx_none()), true;
    const int64_t from = cfx_integer(a->items[1]);
    const bool had = cfx_ok();
    cfx_tensor *t = base ? cfx_tensor_view(base, n, sizes, strides, from) : NULL;
    if (had && base)
        cfx__error_forgive(); /* the view's says nothing of the file */
    if (!t || cfx__obj_is_bad(t))
        return bad(m, "storage '%.100s' of a tensor is missing or too small", key);
    push(m, cfx_tensor_value(t));
    return true;
}

/* ---- NumPy's arrays -------------------------------------------------------------------------- */

static bool push_array(machine *m, cfx_value sizes, cfx_value descr, bool fortran, cfx_value data) {
    cfx_tensor *t = cfx__pickle_array(m->what, sizes, descr, fortran, data);
    m->failed |= cfx__obj_is_bad(t);
    push(m, cfx_tensor_value(t));
    return !m->failed;
}

/* BUILD: the state of an object. An array has its sizes, dtype, order and bytes there, and may have
 * been put away before it came; a dtype the order of its bytes; containers have none. */
static void build(machine *m) {
    cfx_value state = pop(m).v;
    item *it = top(m);
    const cfx_list *s = state.tag == CFX_TAG_TUPLE ? cfx_as_list(state) : NULL;
    if (!it || !s)
        return;
    if (callee_of(it->v) == ARRAY && s->len >= 5) {
        const uint32_t at = it->v.spare >> 8;
        m->stack.len--;
        const bool fortran = s->items[3].tag == CFX_TAG_BOOL && cfx_as_bool(s->items[3]);
        if (push_array(m, s->items[1], s->items[2], fortran, s->items[4]) && at &&
            at <= m->memo.len)
            m->memo.data[at - 1] = m->stack.data[m->stack.len - 1];
    } else if (it->v.tag == CFX_TAG_STR && s->len > 1 && cfx_text(s->items[1]) &&
               *cfx_text(s->items[1]) == '>') {
        bad(m, "an array of NumPy's in its pickle is not in little-endian order");
    }
}

static bool call(machine *m, cfx__pickle_callee c, const cfx_list *a) {
    cfx_value first = a->len ? a->items[0] : cfx_none();
    const char *text = cfx_text(first);
    int64_t sizes[CFX_MAX_DIMS];
    cfx_device d;
    switch (c) {
    case ORDERED_DICT:
    case FILLED_DICT:
        if (c == ORDERED_DICT && a->len)
            break;
        push_container(m, cfx_dict_value(cfx_dict_new()));
        return true;
    case REBUILD_TENSOR: return rebuild_tensor(m, a, true);
    case REBUILD_TENSOR_3: return rebuild_tensor(m, a, false);
    case REBUILD_PARAMETER:
        if (first.tag != CFX_TAG_TENSOR && !m->look)
            break;
        push(m, first);
        return true;
    case SIZE: /* of numbers alone: it has no levels and few items, and needs no box */
        if (cfx__pickle_ints(first, sizes) < 0)
            break;
        push(m, first);
        return true;
    case DEVICE:
        if (!text || !cfx__device_parse(text, &d))
            break;
        if (a->len > 1 && a->items[1].tag == CFX_TAG_INT && cfx_integer(a->items[1]) >= 0 &&
            cfx_integer(a->items[1]) < INT16_MAX)
            d.index = (int16_t)cfx_integer(a->items[1]);
        push(m, cfx_device_value(d));
        return true;
    case REBUILD_TYPED: {
        const cfx_value inner = a->len > 2 ? a->items[2] : cfx_none();
        const cfx__pickle_callee by = callee_of(first);
        if (inner.tag != CFX_TAG_TUPLE || by < REBUILD_TENSOR || by > REBUILD_PARAMETER)
            break;
        return call(m, by, cfx_as_list(inner));
    }
    case ARRAY_SCALAR:
        return a->len == 2 && push_array(m, cfx_tuple_value(0, NULL), first, false, a->items[1]);
    case ARRAY_DTYPE:
    case ENCODED:
        if (!text)
            break;
        push(m, c == ENCODED ? cfx__pickle_decoded(first) : first);
        return true;
    case ARRAY:
    case UNREAD:
        push(m, c == ARRAY ? name_value(ARRAY, -1) : cfx_none());
        return true;
    case LAYOUT:
        if (!text || strcmp(text, "torch.strided"))
            break;
        push(m, cfx_layout_value(CFX_STRIDED));
        return true;
    default: break;
    }
    return bad(m, "its pickle calls something with arguments that do not fit");
}

static void reduce(machine *m) {
    item args = pop(m), fn = pop(m);
    if (m->failed)
        return;
    if (callee_of(fn.v) == NO_CALLEE || args.v.tag != CFX_TAG_TUPLE)
        bad(m, "its pickle calls what is no function");
    else
        call(m, callee_of(fn.v), cfx_as_list(args.v));
}

/* ---- numbers and texts ----------------------------------------------------------------------- */

static const char more_bits[] = "a number in its pickle has more than 64 bits";

/* A signed number of n bytes, the lowest first. */
static void push_long(machine *m, uint64_t n) {
    const unsigned char *p = (const unsigned char *)bytes(m, n);
    uint64_t v = p && n && p[n - 1] & 0x80 ? UINT64_MAX : 0;
    if (n > 8) {
        bad(m, more_bits);
        return;
    }
    for (uint64_t i = 0; p && i < n; i++)
        v = (v & ~((uint64_t)0xff << 8 * i)) | (uint64_t)p[i] << 8 * i;
    push(m, cfx_int((int64_t)v));
}

static void push_double(machine *m) {
    const unsigned char *p = (const unsigned char *)bytes(m, 8);
    union { uint64_t u; double f; } x = {0};
    for (int i = 0; p && i < 8; i++)
        x.u = x.u << 8 | p[i];
    push(m, cfx_float(x.f));
}

static void push_text(machine *m, uint64_t n) {
    const char *p = bytes(m, n);
    if (p)
        push(m, cfx_string_value_n(p, n));
}

static void push_line_number(machine *m) {
    const char *text = line(m);
    char *end;
    if (!text)
        return;
    if (!strcmp(text, "00") || !strcmp(text, "01")) {
        push(m, cfx_bool(text[1] == '1'));
        return;
    }
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || (*end && strcmp(end, "L")))
        bad(m, "a number in its pickle is none");
    else if (errno)
        bad(m, more_bits);
    else
        push(m, cfx_int(v));
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void duplicate(machine *m) {
    item *it = top(m);
    if (!it)
        return;
    item copy = *it;
    if (copy.box >= 0)
        m->boxes.data[copy.box].closed = true;
    push_item(m, copy);
}

static void make_filled(machine *m, bool dict) {
    int64_t n = pop_mark(m);
    if (n < 0)
        return;
    push_container(m, dict ? cfx_dict_value(cfx_dict_new()) : cfx_list_value(0, NULL));
    if (m->failed)
        return;
    item made = *topmost(m, 1), *from = topmost(m, n + 1);
    memmove(from + 1, from, (size_t)n * sizeof *from);
    *from = made;
    if (dict)
        set_items(m, n);
    else
        append(m, n);
}

/* One step; false at the end. */
static bool step(machine *m) {
    const char *op = bytes(m, 1);
    if (!op)
        return false;
    switch ((unsigned char)*op) {
    case 0x80: number(m, 1); break;                      /* PROTO */
    case 0x95: number(m, 8); break;                      /* FRAME */
    case '.': return false;                              /* STOP */
    case '(': push_item(m, (item){cfx_none(), MARK}); break;
    case '0': pop(m); break;
    case '1': {
        int64_t n = pop_mark(m);
        m->stack.len -= n > 0 ? (size_t)n : 0;
        break;
    }
    case '2': duplicate(m); break;
    case 'N': push(m, cfx_none()); break;
    case 0x88: push(m, cfx_bool(true)); break;
    case 0x89: push(m, cfx_bool(false)); break;
    case 'I':
    case 'L': push_line_number(m); break;
    case 'J': push(m, cfx_int((int32_t)number(m, 4))); break;
    case 'K': push(m, cfx_int((int64_t)number(m, 1))); break;
    case 'M': push(m, cfx_int((int64_t)number(m, 2))); break;
    case 0x8a: push_long(m, number(m, 1)); break;
    case 0x8b: push_long(m, number(m, 4)); break;
    case 'G': push_double(m); break;
    case 'X':
    case 'T':
    case 'B': push_text(m, number(m, 4)); break;
    case 'U':
    case 'C':
    case 0x8c: push_text(m, number(m, 1)); break;
    case 0x8d:
    case 0x8e: push_text(m, number(m, 8)); break;
    case ']': push_container(m, cfx_list_value(0, NULL)); break;
    case '}': push_container(m, cfx_dict_value(cfx_dict_new())); break;
    case ')': make_tuple(m, 0); break;
    case 't': make_tuple(m, pop_mark(m)); break;
    case 0x85: make_tuple(m, 1); break;
    case 0x86: make_tuple(m, 2); break;
    case 0x87: make_tuple(m, 3); break;
    case 'l': make_filled(m, false); break;
    case 'd': make_filled(m, true); break;
    case 'a': append(m, 1); break;
    case 'e': append(m, pop_mark(m)); break;
    case 's': set_items(m, 2); break;
    case 'u': set_items(m, pop_mark(m)); break;
    case 'c': {
        const char *module = line(m), *name = module ? line(m) : NULL;
        if (name)
            push_name(m, module, name);
        break;
    }
    case 0x93: { /* STACK_GLOBAL */
        const char *name = cfx_text(pop(m).v), *module = cfx_text(pop(m).v);
        if (name && module)
            push_name(m, module, name);
        else
            bad(m, "a name in its pickle is no string");
        break;
    }
    case 'R':
    case 0x81: reduce(m); break; /* NEWOBJ: the same for a class */
    case 'b': build(m); break;
    case 'Q':                /* BINPERSID: a storage goes by the tuple that names it */
        if (top(m) && top(m)->v.tag != CFX_TAG_TUPLE)
            bad(m, "its pickle names a storage in a way that is not known");
        break;
    case 'q': put(m, number(m, 1)); break;
    case 'r': put(m, number(m, 4)); break;
    case 0x94: put(m, m->memo.len); break;
    case 'h': get(m, number(m, 1)); break;
    case 'j': get(m, number(m, 4)); break;
    default:
        bad(m, "its pickle has the instruction 0x%02x, which is not among those that may be read",
            (unsigned char)*op);
    }
    return !m->failed;
}

cfx_value cfx__pickle_part(const char *what, const char *data, size_t size, bool look,
                           cfx__pickle_storage_fn *storage, void *user, size_t *used) {
    size_t mark = cfx_scope_open();
    machine m = {.what = what, .start = (const unsigned char *)data,
                 .at = (const unsigned char *)data, .end = (const unsigned char *)data + size,
                 .storage = storage, .user = user, .look = look};
    bool before = cfx_ok();
    while (step(&m) && cfx_ok() == before)
        ;
    cfx_value v = m.failed ? cfx_bad() : pop(&m).v;
    if (m.failed || cfx_ok() != before)
        v = cfx_bad();
    VEC_FREE(m.stack);
    VEC_FREE(m.memo);
    VEC_FREE(m.boxes);
    *used = (size_t)(m.at - m.start);
    return cfx_scope_return_value(mark, v);
}
