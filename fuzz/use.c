/* The ways to use a program, and what they have to agree on: however it is run, printed, saved,
 * decomposed or optimised, it is one program. What ran into a limit is not compared. */
#include "use.h"

#include "dispatch/dispatch.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- look ------------------------------------------------------------------------------------ */

static void show(cfx_program *p) {
    cfx_program_str(p);
    cfx_graph_str(p->module->graph);
    cfx_module_code(p->module);
    cfx_graph_tabular(p->module->graph);
    cfx_module_readable(p->module, (cfx_readable_options){0});
    fuzz_fine();
    cfx_program_cost(p, NULL);
    fuzz_fine();
    for (cfx_draw_form form = CFX_SVG; form <= CFX_HTML; form++) {
        cfx_program_draw(p, (cfx_draw_options){.form = form});
        fuzz_fine();
    }
    cfx_program_sample_inputs(p);
    fuzz_fine();
}

/* ---- run ------------------------------------------------------------------------------------- */

/* A tensor as the description of an input says, with a size for symbols; else an integer. */
static cfx_value input_for(cfx_program *p, const cfx_input_spec *spec, int64_t symbol) {
    cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, spec->name));
    if (r.kind != CFX_RESULT_TENSOR)
        return spec->constant ? spec->value : cfx_int(2);
    int64_t shape[8];
    int ndim = 0;
    for (int i = 0; i < r.ndim && ndim < 8; i++) {
        cfx_value size = cfx_result_size(&r, i);
        int64_t n = size.tag == CFX_TAG_INT ? cfx_integer(size) : symbol;
        shape[ndim++] = n < 0 ? 0 : n > 64 ? 64 : n;
    }
    const cfx_tensor *noted = r.value.tag == CFX_TAG_TENSOR ? cfx_as_tensor(r.value) : NULL;
    bool dense = noted && noted->ndim == ndim && cfx__tensor_is_dense(noted) &&
                 !memcmp(noted->shape, shape, (size_t)ndim * sizeof *shape);
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, r.dtype, false, ndim, shape,
                                      dense ? noted->stride : NULL);
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++)
        cfx__tensor_set(t, i, cfx_int(i % 3));
    return cfx_tensor_value(t);
}

static cfx_value inputs_of(cfx_program *p, int64_t symbol) {
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < p->ninputs; i++)
        if (p->inputs[i].kind == CFX_IN_USER)
            cfx_list_append(cfx_as_list(list), input_for(p, &p->inputs[i], symbol));
    fuzz_fine();
    return list;
}

cfx_value fuzz_inputs(cfx_program *p) { return inputs_of(p, 3); }

static cfx_value copied(cfx_value v) {
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v;
}

cfx_args use_args(cfx_value list) {
    cfx_list *l = cfx_as_list(list);
    return (cfx_args){(int)l->len, l->items, NULL};
}

cfx_value use_copies(cfx_value list) {
    cfx_value out = cfx_list_value(0, NULL);
    cfx_args a = use_args(list);
    for (int i = 0; i < a.n; i++)
        cfx_list_append(cfx_as_list(out), copied(a.v[i]));
    return out;
}

outcome use_outcome(cfx_value v) {
    outcome o = {.leaves = cfx_list_value(0, NULL)};
    if (cfx_ok()) {
        cfx_value leaves = cfx_list_value(0, NULL);
        cfx_tree_flatten(v, cfx_as_list(leaves));
        o.leaves = use_copies(leaves);
    }
    if (!cfx_ok()) {
        snprintf(o.why, sizeof o.why, "%s", cfx_error_last()->message);
        snprintf(o.op, sizeof o.op, "%s", cfx_error_last()->op ? cfx_error_last()->op : "");
    }
    o.limited = fuzz_limited();
    o.ran = fuzz_fine();
    return o;
}

outcome use_run(cfx_program *p, const cfx_executor *x, cfx_value inputs) {
    cfx_value given = use_copies(inputs);
    cfx_manual_seed(1);
    cfx_value v = cfx_program_run_with((cfx_site){0}, p, x, NULL, use_args(given));
    return use_outcome(cfx_tuple(v, given));
}

outcome use_forward(cfx_module *m, cfx_value inputs) {
    cfx_value given = use_copies(inputs);
    cfx_grad_mode mode = cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_manual_seed(1);
    cfx_value v = cfx_forward_value_from((cfx_site){0}, m, use_args(given));
    outcome o = use_outcome(cfx_tuple(v, given));
    cfx_set_grad_mode(mode);
    return o;
}

/* Part `part` of element i: a complex number has two. One that is not finite has many forms, which
 * products turn into each other: it is NaN here. */
static double part_of(const cfx_tensor *t, int64_t i, int part) {
    if (!cfx__dtype_is_complex((cfx_dtype)t->dtype))
        return cfx_tensor_get(t, i);
    const cfx_complex *z = cfx_as_complex(cfx__tensor_get(t, i));
    return !isfinite(z->re) || !isfinite(z->im) ? NAN : part ? z->im : z->re;
}

/* Whether two results are the same, numbers up to `most` of the largest. */
static bool alike(cfx_value a, cfx_value b, double most) {
    if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
        return a.tag == b.tag && cfx_equal_values(a, b);
    cfx_tensor *x = cfx_as_tensor(a), *y = cfx_as_tensor(b);
    if (x->dtype != y->dtype || x->ndim != y->ndim ||
        memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape))
        return false;
    double scale = 1e-3, apart = 0;
    bool odd = false, over = false; /* sums of numbers that large may overflow in any order */
    int parts = cfx__dtype_is_complex((cfx_dtype)x->dtype) ? 2 : 1;
    for (int64_t i = 0; i < x->numel * parts; i++) {
        int part = (int)(i % parts);
        double u = part_of(x, i / parts, part), v = part_of(y, i / parts, part), size = fabs(v);
        over = over || size > 1e20;
        scale = size > scale && size < 1e300 ? size : scale;
        if (u == v || (u != u && v != v))
            continue;
        if (!(u - v < 1e300 && v - u < 1e300)) {
            odd = true;
            continue;
        }
        apart = u - v > apart ? u - v : v - u > apart ? v - u : apart;
    }
    return (!odd || over) && apart <= most * scale;
}

bool use_same(const outcome *a, const outcome *b, double most) {
    cfx_args x = use_args(a->leaves), y = use_args(b->leaves);
    bool is = x.n == y.n;
    for (int i = 0; is && i < x.n; i++)
        is = alike(x.v[i], y.v[i], most);
    return fuzz_fine() && is;
}

/* What a node gives, with other last digits, which depend on the turn. */
static cfx_value nearly(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    if (!cfx_ok() || v.tag != CFX_TAG_TENSOR ||
        !cfx__dtype_is_float((cfx_dtype)cfx_as_tensor(v)->dtype))
        return v;
    cfx_tensor *t = cfx_clone(v);
    double part = t->dtype == CFX_F64 ? 1e-15 : t->dtype == CFX_F32 ? 5e-7 : 4e-3;
    uint64_t lot = (uint64_t)(*(const int *)it->user + 1) * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; cfx_ok() && i < t->numel; i++) {
        lot = lot * 6364136223846793005u + 1442695040888963407u;
        double by = (double)(lot >> 62) - 1.5;
        cfx__tensor_set(t, i, cfx_float(cfx_tensor_get(t, i) * (1 + by * part)));
    }
    return cfx_tensor_value(t);
}

static outcome run_nearly(const subject *s, int turn) {
    cfx_value given = use_copies(s->inputs);
    cfx_manual_seed(1);
    cfx_value values = cfx_program_inputs_from((cfx_site){0}, s->program, use_args(given));
    cfx_interp it = {.module = s->program->module, .run_node = nearly, .user = &turn};
    cfx_value v = cfx_ok() ? cfx_run_from((cfx_site){0}, &it, use_args(values)) : CFX_NONE;
    v = cfx_ok() ? cfx_program_outputs(s->program, values, v) : CFX_NONE;
    return use_outcome(cfx_tuple(v, given));
}

/* Whether last digits decide what a program gives that writes nowhere: the order of a sum may give
 * something else. */
static bool hangs_on_digits(const subject *s, double most) {
    enum { TURNS = 8 };
    bool differs = false;
    cfx_each_node(s->program->module->graph, n) {
        if (n->target.op && cfx__op_info_of(n->target.op)->writes)
            return false;
    }
    for (int turn = 0; turn < TURNS && !differs; turn++) {
        outcome o = run_nearly(s, turn);
        differs = o.ran && !use_same(&s->first, &o, most / 4);
    }
    return differs;
}

void use_agree(const subject *s, const outcome *o, double most, const char *other) {
    const outcome *first = &s->first;
    const cfx_graph *g = s->program->module->graph;
    if (first->limited || o->limited)
        return;
    if (first->ran != o->ran)
        fuzz_wrong("%s %s: %s, of\n%s", other, o->ran ? "runs, the program does not" : "refuses",
                   o->ran ? first->why : o->why, cfx_graph_str(g));
    if (first->ran && !use_same(first, o, most) && !hangs_on_digits(s, most))
        fuzz_wrong("%s gives something else: %s, not %s, of\n%s", other, cfx_str(o->leaves),
                   cfx_str(first->leaves), cfx_graph_str(g));
}

static void look_for_unused(const char *path, cfx_module *m, void *used) {
    (void)path;
    if (m->graph)
        cfx_each_node(m->graph, n) *(bool *)used &=
            n->num_users || (n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_METHOD);
}

/* Whether a change leaves nothing out that may refuse these inputs: nodes that nobody uses are, and
 * tensors that are not there; with symbols other sizes than these are looked at. */
static bool is_fixed(const cfx_program *p) {
    bool used = true;
    for (int i = 0; i < p->ninputs; i++)
        used = used && (!p->inputs[i].target || cfx_program_tensor(p, &p->inputs[i]));
    cfx_module_walk(p->module, look_for_unused, &used);
    return used && !p->ranges->len;
}

/* Whether all that it gives is computed: what is only made room for may be anything. */
static bool is_set(const cfx_program *p) {
    bool set = true;
    cfx_each_node(p->module->graph, n) set = set && !strstr(n->target.name, "empty") &&
                                             !strstr(n->target.name, "resize_");
    return set;
}

/* Plans are made anew, or fit, where sizes vary. */
static void at_another_size(const subject *s) {
    subject other = *s;
    other.inputs = inputs_of(s->program, 2 + (int64_t)(s->lot % 5));
    other.first = use_run(s->program, &cfx_interpreter, other.inputs);
    outcome planned = use_run(s->program, &cfx_planner, other.inputs);
    if (s->steady)
        use_agree(&other, &planned, 1e-2, "the plan at another size");
}

/* A program that gives the same each time is the same after every change; one that draws numbers
 * or writes to its buffers is only changed. */
static void use(cfx_program *p) {
    const char *text = cfx_graph_str(p->module->graph);
    subject s = {.program = p, .inputs = fuzz_inputs(p), .fixed = is_fixed(p)};
    s.lot = cfx__text_hash(text, strlen(text));
    s.whole = cfx_program_check(p);
    fuzz_fine();
    s.first = use_run(p, &cfx_interpreter, s.inputs);
    outcome again = use_run(p, &cfx_interpreter, s.inputs);
    s.steady = is_set(p) && s.first.ran == again.ran &&
               (!s.first.ran || use_same(&s.first, &again, 0));
    outcome planned = use_run(p, &cfx_planner, s.inputs);
    if (s.steady)
        use_agree(&s, &planned, 1e-2, "the plan");
    cfx_program_plan_from((cfx_site){0}, p, use_args(use_copies(s.inputs)));
    fuzz_fine();
    if (p->ranges->len)
        at_another_size(&s);
    use_change(&s);
}

/* ---- save ------------------------------------------------------------------------------------ */

/* The program as it is after it was saved and opened; NULL where a limit or an error was in the
 * way of saving. */
static cfx_program *reopened(cfx_program *p, const char *suffix) {
    const char *path = fuzz_path(suffix);
    bool saved = cfx_save(p, path);
    fuzz_fine();
    cfx_program *again = saved ? cfx_open(path) : NULL;
    unlink(path);
    if (!strcmp(suffix, "fx"))
        unlink(fuzz_path("safetensors"));
    if (saved && cfx_failed(again) && !fuzz_limited())
        fuzz_wrong("what was saved cannot be opened: %s", cfx_error_last()->message);
    fuzz_fine();
    return again;
}

static void same_text(const char *a, const char *b) {
    bool limited = fuzz_limited();
    if (fuzz_fine() && !limited && strcmp(a, b) != 0)
        fuzz_wrong("saved and opened again, the program is another:\n%s\n%s", a, b);
}

/* Whether a result of several is taken twice: a file has one name for it. */
static bool has_twins(const cfx_program *p) {
    cfx_each_node(p->module->graph, n) {
        cfx_value seen = cfx_list_value(0, NULL);
        cfx_each_user(n, u) {
            if (!cfx_node_takes_result(u->user))
                continue;
            cfx_value item = cfx_as_list(u->user->args)->items[1];
            for (int64_t i = 0; i < cfx_as_list(seen)->len; i++)
                if (cfx_equal_values(cfx_as_list(seen)->items[i], item))
                    return true;
            cfx_list_append(cfx_as_list(seen), item);
        }
    }
    return false;
}

static bool is_in(const char *name, const char *module) {
    size_t n = strlen(module);
    return !strncmp(name, module, n) && !strchr(name + n, '.');
}

/* Whether all functions that it calls are known: .fx writes others with underscores for dots. */
static bool is_known(const cfx_program *p) {
    bool known = true;
    cfx_each_node(p->module->graph, n) known =
        known && (n->op != CFX_CALL_FUNCTION || !strncmp(n->target.name, "torch.", 6) ||
                  is_in(n->target.name, "operator.") || is_in(n->target.name, "math."));
    return known;
}

/* The graph as text without the types of nodes, which no file has a place for. */
static const char *untyped(const cfx_program *p) {
    cfx_program *bare = cfx_program_copy(p);
    cfx_each_node(bare->module->graph, n) n->type = NULL;
    return cfx_graph_str(bare->module->graph);
}

/* The graph stays as it is, and so does everything that is printed once what a file left out of its
 * descriptions is filled in. */
static void save(cfx_program *p, const char *suffix) {
    cfx_program *once = reopened(p, suffix);
    cfx_program *twice = cfx_failed(once) ? NULL : reopened(once, suffix);
    if (!strcmp(suffix, "pt2")) /* which has no other operators than those of ATen */
        p = cfx_to_aten(p);
    if (!fuzz_fine() || cfx_failed(p) || cfx_failed(twice))
        return;
    if (!has_twins(p)) {
        same_text(untyped(p), untyped(once));
        same_text(cfx_program_signature_str(p), cfx_program_signature_str(once));
    }
    same_text(cfx_program_str(once), cfx_program_str(twice));
}

void fuzz_same(cfx_program *p, cfx_module *m, cfx_value inputs) {
    subject direct = {.program = p, .inputs = inputs, .first = use_forward(m, inputs)};
    outcome o = use_run(p, &cfx_interpreter, inputs), again = use_run(p, &cfx_interpreter, inputs);
    if (direct.first.ran && o.ran && is_set(p) && again.ran && use_same(&o, &again, 0))
        use_agree(&direct, &o, 1e-2, "the program at other sizes");
}

void fuzz_use(cfx_program *p) {
    bool fine = fuzz_fine();
    if (cfx_failed(p) && fine)
        fuzz_wrong("neither a program nor an error");
    if (cfx_failed(p))
        return;
    show(p);
    save(p, "pt2");
    if (is_known(p))
        save(p, "fx");
    use(p);
}
