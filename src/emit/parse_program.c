/* What a program has behind its graphs: the signature, the trees of arguments and result, ranges of
 * sizes and what they were with the example inputs.
 *
 *     Graph signature:
 *         # inputs
 *         p_fc_weight: PARAMETER target='fc.weight'
 *         x: USER_INPUT
 *
 *         # outputs
 *         linear: USER_OUTPUT
 *
 *     Arguments: ((x,), {})
 *     Result: linear
 *     Range constraints: {s77: VR[2, 1024]}
 *     Hints: {s77: 4}
 *
 * Each part may be missing, and each line of the signature: what forward takes and returns beyond
 * it is the caller's. What a part does say must be so. */
#include "emit.h"

typedef struct reader reader;

static void read_signature(reader *r);
static void read_arguments(reader *r);
static void read_result(reader *r);
static void read_ranges(reader *r);
static void read_hints(reader *r);

static const struct part {
    const char *head;
    void (*read)(reader *r);
} parts[] = {
    {"Graph signature:", read_signature}, {"Arguments:", read_arguments},
    {"Result:", read_result},             {"Range constraints:", read_ranges},
    {"Hints:", read_hints},
};

/* What forward takes or returns, in its order, with what the signature says of it. */
typedef struct place {
    cfx_value v;     /* the placeholder, or what is returned */
    const char *at;  /* the line of the signature; NULL: it has none */
    bool named;      /* it stands in the tree of arguments or of the result */
    cfx_input_spec in;
    cfx_output_spec out;
    cfx_value grad; /* whether a gradient is wanted; None: not said */
} place;

struct reader {
    cfx__parser *p;
    cfx_graph *g;
    VEC(place) inputs, results;
    cfx_value arguments, result; /* specs, as cfx_tree_flatten gives them */
    cfx_dict *ranges, *hints;
    bool seen[COUNT(parts)];
};

static const struct part *part_at(const cfx__parser *p) {
    for (int i = 0; i < COUNT(parts); i++) {
        size_t n = strlen(parts[i].head);
        if ((size_t)(p->end - p->at) >= n && !memcmp(p->at, parts[i].head, n))
            return &parts[i];
    }
    return NULL;
}

bool cfx__parser_at_program_part(const cfx__parser *p) { return part_at(p) != NULL; }

/* To the next line that holds something. False at the end. */
static bool next_line(cfx__parser *p) {
    while (p->at < p->end && strchr(" \t\r\n", *p->at))
        p->at++;
    return p->at < p->end && !p->failed;
}

static void want_line_end(cfx__parser *p) {
    if (!p->failed && !cfx__parser_is_line_end(p))
        cfx__parse_fail(p, p->at, "expected the end of the line");
}

/* ---- what forward takes and returns ---------------------------------------------------------- */

static void collect(reader *r) {
    cfx_each_node(r->g, n) if (n->op == CFX_PLACEHOLDER)
        VEC_PUSH(r->inputs, ((place){.v = cfx_node_value(n), .in = {.persistent = true}}));
    const cfx_node *output = cfx_graph_output_node(r->g);
    cfx_value made =
        output && cfx_as_list(output->args)->len ? cfx_as_list(output->args)->items[0] : cfx_none();
    bool several = made.tag == CFX_TAG_TUPLE || made.tag == CFX_TAG_LIST;
    int64_t count = several ? cfx_as_list(made)->len : output ? 1 : 0;
    for (int64_t i = 0; i < count; i++)
        VEC_PUSH(r->results, ((place){.v = several ? cfx_as_list(made)->items[i] : made}));
}

/* Lets the text call the nodes of the first graph by their names again. */
static void bind_nodes(reader *r) {
    cfx__map_release(&r->p->nodes);
    cfx_each_node(r->g, n) cfx__parser_bind_node(r->p, n->name, strlen(n->name), n);
}

/* What Python has reserved is called otherwise in a graph that was read ("input_1"), and gets its
 * name back. */
static cfx_node *placeholder_named(reader *r, const char *name, size_t len) {
    cfx_node *n = cfx__parser_find_node(r->p, name, len);
    if (n)
        return n->op == CFX_PLACEHOLDER ? n : NULL;
    const char *text = cfx__string_new(name, len)->text;
    for (size_t i = 0; i < r->inputs.len && cfx__name_reserved(text); i++) {
        n = cfx_as_node(r->inputs.data[i].v);
        if (strncmp(n->name, text, len) || n->name[len] != '_')
            continue;
        cfx_node_set_name(n, text);
        cfx__parser_bind_node(r->p, name, len, n);
        return n;
    }
    return NULL;
}

static place *input_named(reader *r, const char *name, size_t len) {
    const cfx_node *n = placeholder_named(r, name, len);
    for (size_t i = 0; n && i < r->inputs.len; i++)
        if (cfx_as_node(r->inputs.data[i].v) == n)
            return &r->inputs.data[i];
    return NULL;
}

/* The first result that the signature has not named yet and that is this node or, without a name, a
 * plain value. */
static place *result_named(reader *r, const char *name, size_t len, bool *again) {
    const cfx_node *n = len ? cfx__parser_find_node(r->p, name, len) : NULL;
    *again = false;
    for (size_t i = 0; i < r->results.len && (n || !len); i++) {
        place *at = &r->results.data[i];
        bool node = at->v.tag == CFX_TAG_NODE, it = n ? node && cfx_as_node(at->v) == n : !node;
        if (it && !at->at)
            return at;
        *again |= it;
    }
    return NULL;
}

/* ---- the signature --------------------------------------------------------------------------- */

/* target='fc.weight' persistent=True value=3 requires_grad=False, up to the end of the line. */
static cfx_dict *take_words(cfx__parser *p) {
    static const char *const known[] = {"target", "persistent", "value", "requires_grad"};
    cfx_dict *words = cfx_dict_new();
    while (!p->failed && !cfx__parser_is_line_end(p)) {
        const char *start = p->at, *name;
        size_t len = cfx__parser_take_name(p, &name);
        cfx_value key = cfx_string_value_n(name, len);
        bool fine = false;
        for (int i = 0; i < COUNT(known); i++)
            fine |= !strcmp(known[i], cfx_text(key));
        if (!fine || cfx_dict_find(words, key))
            cfx__parse_fail(p, start, "expected target=, persistent=, value= or requires_grad=");
        cfx__parser_want(p, "=");
        cfx_value v = cfx__parser_take_value(p);
        if (!p->failed)
            cfx_dict_put(words, key, v);
    }
    return words;
}

static void want_bool(reader *r, const char *at, const cfx_dict *words, const char *key) {
    const cfx_value *v = cfx_dict_find(words, cfx_string_value(key));
    if (v && v->tag != CFX_TAG_BOOL)
        cfx__parse_fail(r->p, at, "%s is True or False", key);
}

static void read_input(reader *r, const char *name, size_t len, const char *at) {
    cfx__parser *p = r->p;
    const char *word;
    size_t n = cfx__parser_take_name(p, &word);
    int kind = cfx__parse_kind(true, word, n);
    place *in = input_named(r, name, len);
    if (!in)
        cfx__parse_fail(p, at, "the signature has an input '%.*s', which forward does not take",
                        (int)len, name);
    else if (in->at)
        cfx__parse_fail(p, at, "the signature has input '%.*s' twice", (int)len, name);
    else if (kind < 0)
        cfx__parse_fail(p, word, "an input is a USER_INPUT, PARAMETER, BUFFER, CONSTANT_TENSOR, "
                                 "CUSTOM_OBJ or TOKEN");
    cfx_dict *words = take_words(p);
    if (p->failed)
        return;
    bool held = kind != CFX_IN_USER && kind != CFX_IN_TOKEN;
    const char *target = cfx_text(cfx_dict_get(words, "target"));
    const cfx_value *value = cfx_dict_find(words, cfx_string_value("value"));
    if (held != (target != NULL))
        cfx__parse_fail(p, at, held ? "a %.*s is held by the program: target='NAME' says as what"
                                    : "a %.*s has no target", (int)n, word);
    if (value && kind != CFX_IN_USER)
        cfx__parse_fail(p, at, "only a USER_INPUT may be a value");
    want_bool(r, at, words, "persistent");
    want_bool(r, at, words, "requires_grad");
    cfx_value persistent = cfx_dict_get(words, "persistent");
    in->at = at;
    in->in = (cfx_input_spec){.kind = (cfx_input_kind)kind,
                              .target = target,
                              .persistent = cfx_is_none(persistent) || cfx_integer(persistent),
                              .constant = value != NULL,
                              .value = value ? *value : cfx_none()};
    in->grad = cfx_dict_get(words, "requires_grad");
}

/* What a result of this kind is written to: an input of the signature. */
static bool has_written(const reader *r, cfx_output_kind kind, const char *target) {
    for (size_t i = 0; i < r->inputs.len; i++) {
        const place *in = &r->inputs.data[i];
        bool same = in->at && in->in.target && !strcmp(in->in.target, target);
        switch (kind) {
        case CFX_OUT_BUFFER_MUTATION: same &= in->in.kind == CFX_IN_BUFFER; break;
        case CFX_OUT_PARAMETER_MUTATION:
        case CFX_OUT_PARAMETER_GRADIENT: same &= in->in.kind == CFX_IN_PARAMETER; break;
        default: same = in->in.kind == CFX_IN_USER && !strcmp(cfx_as_node(in->v)->name, target);
        }
        if (same)
            return true;
    }
    return false;
}

static void read_output(reader *r, const char *name, size_t len, const char *at) {
    cfx__parser *p = r->p;
    const char *word;
    size_t n = cfx__parser_take_name(p, &word);
    int kind = cfx__parse_kind(false, word, n);
    bool again;
    place *out = result_named(r, name, len, &again);
    if (kind < 0)
        cfx__parse_fail(p, word, "a result is a USER_OUTPUT, LOSS_OUTPUT, BUFFER_MUTATION, "
                                 "PARAMETER_MUTATION, USER_INPUT_MUTATION, GRADIENT_TO_PARAMETER, "
                                 "GRADIENT_TO_USER_INPUT or TOKEN");
    else if (!out)
        cfx__parse_fail(p, at, len ? "the signature has a result '%.*s', which forward does not "
                                     "return%s"
                                   : "the signature has a result that is a plain value%.*s, which "
                                     "forward does not return%s",
                        (int)len, name,
                        again ? " so often" : ": name what it returns, or leave the line out");
    cfx_dict *words = take_words(p);
    if (p->failed)
        return;
    const char *target = cfx_text(cfx_dict_get(words, "target"));
    bool written = kind != CFX_OUT_USER && kind != CFX_OUT_LOSS && kind != CFX_OUT_TOKEN;
    if (written != (target != NULL))
        cfx__parse_fail(p, at,
                        written ? "a %.*s is written to something: target='NAME' says to what"
                                : "a %.*s has no target", (int)n, word);
    else if (target && !has_written(r, (cfx_output_kind)kind, target))
        cfx__parse_fail(p, at, "a %.*s goes to '%s', which is not such an input of the signature",
                        (int)n, word, target);
    out->at = at;
    out->out.kind = (cfx_output_kind)kind;
    out->out.target = target;
}

/* Lines up to the next part: a name, or nothing for a plain value, a colon and what it is. */
static void read_signature(reader *r) {
    cfx__parser *p = r->p;
    bool inputs = true;
    while (next_line(p) && !part_at(p)) {
        if (*p->at == '#') {
            inputs = cfx__parser_take(p, "# inputs");
            if (!inputs)
                cfx__parser_want(p, "# outputs");
            want_line_end(p);
            continue;
        }
        const char *at = p->at, *name;
        size_t len = cfx__parser_take_name(p, &name);
        cfx__parser_want(p, ":");
        cfx__parser_skip(p);
        if (inputs)
            read_input(r, name, len, at);
        else
            read_output(r, name, len, at);
        want_line_end(p);
    }
}

/* ---- trees ----------------------------------------------------------------------------------- */

static bool is_users(const place *at, bool input) {
    return input ? at->in.kind == CFX_IN_USER
                 : at->out.kind == CFX_OUT_USER || at->out.kind == CFX_OUT_LOSS;
}

static const char *name_of(const place *at) {
    return at->v.tag == CFX_TAG_NODE ? cfx_as_node(at->v)->name : cfx_value_repr(at->v);
}

/* The spec of a tree whose leaves are the caller's inputs or results, in the order of forward. */
static cfx_value take_tree(reader *r, place *places, size_t count, bool input) {
    cfx__parser *p = r->p;
    cfx__parser_skip(p);
    const char *at = p->at, *what = input ? "takes" : "returns";
    cfx_value tree = cfx__parser_take_value(p);
    want_line_end(p);
    if (p->failed)
        return cfx_none();
    cfx_value leaves = cfx_list_value(0, NULL);
    cfx_value spec = cfx_tree_flatten(tree, cfx_as_list(leaves));
    size_t k = 0;
    for (int64_t i = 0; i < cfx_as_list(leaves)->len && !p->failed; i++) {
        cfx_value leaf = cfx_as_list(leaves)->items[i];
        while (k < count && !(is_users(&places[k], input) && cfx_equal_values(places[k].v, leaf))) {
            if (is_users(&places[k], input) && places[k].at)
                cfx__parse_fail(p, at, "here stands '%s' where forward %s '%s'",
                                cfx_value_repr(leaf), what, name_of(&places[k]));
            k++;
        }
        if (k == count)
            cfx__parse_fail(p, at, "'%s' is nothing of the caller's that forward %s here",
                            cfx_value_repr(leaf), what);
        else
            places[k++].named = true;
    }
    for (; k < count && !p->failed; k++)
        if (is_users(&places[k], input) && places[k].at)
            cfx__parse_fail(p, at, "forward %s '%s' too", what, name_of(&places[k]));
    return spec;
}

static void read_arguments(reader *r) {
    cfx__parser *p = r->p;
    const char *at = p->at;
    r->arguments = take_tree(r, r->inputs.data, r->inputs.len, true);
    bool pair = r->arguments.tag == CFX_TAG_TUPLE && cfx_as_list(r->arguments)->len == 2 &&
                cfx_as_list(r->arguments)->items[0].tag == CFX_TAG_TUPLE &&
                cfx_as_list(r->arguments)->items[1].tag == CFX_TAG_DICT;
    if (!p->failed && !pair)
        cfx__parse_fail(p, at, "arguments are a tuple of those by position and a dict of those by "
                               "name: ((x, y), {'scale': scale})");
}

static void read_result(reader *r) {
    r->result = take_tree(r, r->results.data, r->results.len, false);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static cfx_value take_bound(cfx__parser *p) {
    cfx__parser_skip(p);
    if (cfx__parser_take(p, "int_oo") || cfx__parser_take(p, "-int_oo") ||
        cfx__parser_take(p, "oo") || cfx__parser_take(p, "-oo")) /* the latter of floats */
        return cfx_none();
    const char *at = p->at;
    cfx_value v = cfx__parser_is_number_next(p) ? cfx__parser_take_number(p) : cfx_none();
    if (v.tag != CFX_TAG_INT)
        cfx__parse_fail(p, at, "expected an integer, int_oo or -int_oo");
    return v;
}

/* VR[2, 1024] */
static cfx_value take_range(cfx__parser *p) {
    const char *at = p->at;
    cfx__parser_want(p, "VR[");
    cfx_value low = take_bound(p);
    cfx__parser_want(p, ",");
    cfx_value high = take_bound(p);
    cfx__parser_want(p, "]");
    if (!p->failed && low.tag == CFX_TAG_INT && high.tag == CFX_TAG_INT &&
        cfx_integer(low) > cfx_integer(high))
        cfx__parse_fail(p, at, "nothing lies in this range");
    return cfx_tuple(low, high);
}

static cfx_value take_example(cfx__parser *p) {
    const char *at = p->at;
    cfx_value v = cfx__parser_is_number_next(p) ? cfx__parser_take_number(p) : cfx_none();
    if (v.tag != CFX_TAG_INT)
        cfx__parse_fail(p, at, "expected an integer");
    return v;
}

/* {2*s77: VALUE, u0: VALUE}: expressions of sizes, by their text. */
static cfx_dict *take_sizes(cfx__parser *p, cfx_value (*take)(cfx__parser *p)) {
    cfx_dict *d = cfx_dict_new();
    cfx__parser_skip(p);
    cfx__parser_want(p, "{");
    for (bool more = !cfx__parser_take(p, "}"); more && !p->failed;) {
        cfx__parser_skip(p);
        const char *at = p->at, *rest = at;
        cfx_value size;
        if (!cfx__sym_parse(at, p->end, &rest, &size) || size.tag != CFX_TAG_SYM)
            cfx__parse_fail(p, at, "this is not an expression of sizes");
        while (rest > at && rest[-1] == ' ')
            rest--;
        p->at = rest;
        cfx__parser_want(p, ":");
        cfx__parser_skip(p);
        cfx_value v = take(p);
        if (!p->failed)
            cfx_dict_put(d, cfx_string_value_n(at, (size_t)(rest - at)), v);
        cfx__parser_skip(p);
        more = cfx__parser_take(p, ",");
        if (!more)
            cfx__parser_want(p, "}");
    }
    want_line_end(p);
    return d;
}

static void read_ranges(reader *r) { r->ranges = take_sizes(r->p, take_range); }

static void read_hints(reader *r) { r->hints = take_sizes(r->p, take_example); }

static void hint_list(const cfx_dict *hints, cfx_dict *d, const char *key) {
    cfx_value list = cfx_dict_get(d, key), made = cfx_tuple_value(0, NULL);
    if (list.tag != CFX_TAG_TUPLE)
        return;
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++)
        cfx_list_append(cfx_as_list(made), cfx__sym_hinted(cfx_as_list(list)->items[i], hints));
    cfx_dict_set(d, key, made);
}

/* Descriptions of values get the hints back. */
static void add_hints(const cfx_dict *hints, cfx_graph *g) {
    cfx_each_node(g, n) {
        size_t mark = cfx_scope_open();
        cfx_value val = cfx_node_get_meta(n, "val");
        if (val.tag == CFX_TAG_SYM)
            cfx_node_set_meta(n, "val", cfx__sym_hinted(val, hints));
        if (val.tag == CFX_TAG_DICT) {
            hint_list(hints, cfx_as_dict(val), "shape");
            hint_list(hints, cfx_as_dict(val), "stride");
        }
        cfx_scope_close(mark);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void add_inputs(cfx_program *made, reader *r) {
    for (size_t i = 0; i < r->inputs.len; i++) {
        place *in = &r->inputs.data[i];
        cfx_node *n = cfx_as_node(in->v);
        if (!in->at && !in->named)
            continue;
        in->in.name = n->name;
        cfx_program_add_input(made, in->in);
        bool grad = cfx_is_none(in->grad) ? cfx__input_learns(in->in.kind, cfx_node_result(n).dtype)
                                          : cfx_integer(in->grad);
        cfx__result_set_grad(n, grad);
    }
}

/* What forward gives alone is a result, whether it is listed or not. */
static void add_outputs(cfx_program *made, reader *r) {
    const cfx_node *output = cfx_graph_output_node(r->g);
    bool alone = output && r->results.len == 1 &&
                 cfx_equal_values(cfx_as_list(output->args)->items[0], r->results.data[0].v);
    for (size_t i = 0; i < r->results.len; i++) {
        place *out = &r->results.data[i];
        if (!out->at && !out->named && !alone)
            continue;
        out->out.name = out->v.tag == CFX_TAG_NODE ? cfx_as_node(out->v)->name : NULL;
        out->out.value = out->out.name ? cfx_none() : out->v;
        cfx_program_add_output(made, out->out);
    }
}

static cfx_program *finish(reader *r, cfx_module *m) {
    cfx_program *made = cfx_program_new(m);
    add_inputs(made, r);
    add_outputs(made, r);
    made->in_spec = cfx_value_keep(r->arguments);
    made->out_spec = cfx_value_keep(r->result);
    for (int64_t i = 0; r->ranges && i < r->ranges->len; i++)
        cfx_dict_put(made->ranges, r->ranges->entries[i].key, r->ranges->entries[i].value);
    if (r->hints)
        add_hints(r->hints, r->g);
    return made;
}

static cfx_program *read_parts(cfx__parser *p, cfx_module *m) {
    reader r = {.p = p, .g = m->graph};
    collect(&r);
    bind_nodes(&r);
    while (next_line(p)) {
        const struct part *part = part_at(p);
        if (!part)
            cfx__parse_fail(p, p->at, "expected a part of a program: Graph signature, Arguments, "
                                      "Result, Range constraints or Hints");
        else if (r.seen[part - parts])
            cfx__parse_fail(p, p->at, "this part stands here for the second time");
        if (p->failed)
            break;
        r.seen[part - parts] = true;
        p->at += strlen(part->head);
        part->read(&r);
    }
    cfx_program *made = p->failed ? &cfx__program_bad : finish(&r, m);
    VEC_FREE(r.inputs);
    VEC_FREE(r.results);
    return made;
}

cfx_program *cfx__program_parse(const char *text, const char *what) {
    static const char head[] = "ExportedProgram:";
    if (!text) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "the text to read is NULL");
        return &cfx__program_bad;
    }
    size_t mark = cfx_scope_open();
    cfx__parser p;
    cfx__parser_open(&p, text, what);
    if (next_line(&p))
        cfx__parser_take(&p, head);
    cfx__parse(&p);
    cfx_module *m = cfx__parser_build(&p);
    cfx_program *made = m->graph ? read_parts(&p, m) : &cfx__program_bad;
    cfx__parser_close(&p);
    return cfx_scope_return(mark, made);
}

cfx_program *cfx_program_parse(const char *text, const char *what) {
    cfx_program *p = cfx__program_parse(text, what);
    return cfx_program_sync(p) ? p : &cfx__program_bad;
}
