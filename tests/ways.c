/* The oracle for random programs: see programs.h. One program is run eagerly, call by call; then as
 * an exported program by the interpreter, by plans, after each change, out of each kind of file, in
 * pieces, with its state elsewhere, at other sizes. All agree. Start at programs_check. */
#include "agree.h"
#include "compiled.h"
#include "drawing.h"

#include <cfx/ops.h>

#include <string.h>

static void hear_nothing(const char *line, void *user) { (void)line, (void)user; }

/* A graph, and those of the branches below a module. */
static const char *graphs_text(const cfx_graph *g, const cfx_module *root) {
    cfx__text out = {0};
    cfx__text_printf(&out, "%s", cfx_graph_str(g));
    cfx_each_node((cfx_graph *)(uintptr_t)g, n) {
        const cfx_module *m = n->op == CFX_GET_ATTR ? cfx_module_find(root, n->target.name) : NULL;
        if (m && m->graph)
            cfx__text_printf(&out, "\n%s: %s", n->target.name, graphs_text(m->graph, m));
    }
    return cfx__text_take(&out);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Tensors lie in a .safetensors file, which has no complex numbers. */
static void check_text(subject *s, cfx_program *p) {
    cfx_program *other = agree_reopened(p, ".fx");
    const char *why = cfx_ok() ? "" : cfx_error_last()->message;
    if (!strstr(why, "the format lacks its dtype") && !strstr(why, "the format does not keep"))
        agree_changed(s, other, "as a text");
    cfx_error_clear();
}

/* Whether it chooses among equals, for which ONNX has a rule and PyTorch has none. */
static bool has_ties(const cfx_program *p) {
    return strstr(graphs_text(p->module->graph, p->module), "topk") != NULL;
}

/* Whether inf or nan comes of an infinite number by the order in which an operator adds: a Fourier
 * transform, and the mean that is updated with each number. ONNX's operators have other orders. */
static bool adds_in_an_order(const cfx_program *p) {
    const char *text = graphs_text(p->module->graph, p->module);
    return strstr(text, "aten.fft_") || strstr(text, "aten.var_mean") ||
           strstr(text, "aten.std_mean");
}

/* How far apart an ONNX model may be for the halves in it: it rounds scalars to them before they
 * are multiplied, where PyTorch does so with the product alone. */
static double coarseness(const cfx_program *p) {
    double most = 0;
    cfx_each_node(p->module->graph, n) {
        const cfx_result r = cfx_node_result(n);
        const bool half = r.dtype == CFX_F16 || r.dtype == CFX_BF16;
        if (r.kind == CFX_RESULT_TENSOR && half && agree_allowed(r.dtype) > most)
            most = agree_allowed(r.dtype);
    }
    return most;
}

/* Results alone: what an ONNX model writes to is not the caller's. Much has no form there. */
static void check_onnx(subject *s, cfx_program *p) {
    if (!s->first.ran || has_ties(p))
        return;
    cfx_program *other = agree_reopened(p, ".onnx");
    if (!other || !cfx_ok() || cfx_failed(other)) {
        agree_unless(s, "as an ONNX model", "no form in ONNX");
        return;
    }
    outcome o = agree_run(other, s->drawn, cfx_dict_new(), &cfx_interpreter, NULL, 0);
    const int64_t own = s->first.leaves->len - s->drawn->state->len -
                        cfx_as_list(s->drawn->inputs)->len;
    const bool by_order = adds_in_an_order(p);
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    for (int64_t i = 0, k = 0; i < own && o.ran; i++) { /* None is no result, a number a tensor */
        const cfx_value want = s->first.leaves->items[i];
        cfx_value got = cfx_is_none(want) ? want : o.leaves->items[k++];
        got = want.tag == CFX_TAG_INT && got.tag == CFX_TAG_TENSOR ? cfx_item(got) : got;
        cfx_list_append(leaves, by_order ? agree_where_finite(got, want) : got);
    }
    for (int64_t i = own; i < s->first.leaves->len; i++)
        cfx_list_append(leaves, s->first.leaves->items[i]);
    o.leaves = leaves;
    s->coarse = coarseness(p);
    agree_on(s, &o, "as an ONNX model");
    s->coarse = 0;
    s->last = s->found.any ? other : s->last;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* As two or three programs, each run on what the one before it gives. */
static void check_stages(subject *s, cfx_program *p, const cfx_dict *held) {
    cfx_stages *cut = cfx_program_stages(p, (cfx_stage_options){.n = 2 + (int)test_draw(2)});
    if (!cfx_ok() || cfx_failed(cut)) { /* there are not so many places */
        agree_unless(s, "in stages", " stage");
        return;
    }
    cfx_value inputs = eager_copies(s->drawn->inputs), v = inputs;
    agree_restore(p, held);
    for (int i = 0; i < cut->n && cfx_ok(); i++)
        v = cfx_program_run_with(CFX_HERE, cut->stages[i].program,
                                 chance(2) ? &cfx_planner : &cfx_interpreter, NULL, eager_args(v));
    outcome o = eager_outcome(v, inputs, cfx_ok() ? agree_state(p, s->drawn, held) : NULL);
    agree_on(s, &o, "in stages");
}

/* ---- state ----------------------------------------------------------------------------------- */

static cfx_dict *session_state(cfx_session *session, const cfx_program *p,
                               const random_program *drawn, const cfx_dict *held) {
    cfx_dict *state = agree_state(p, drawn, held);
    for (int64_t i = 0; i < state->len; i++) {
        const cfx_value *own = cfx_dict_find(p->state, state->entries[i].key);
        cfx_tensor *t = own && own->tag == CFX_TAG_TENSOR ? cfx_as_tensor(*own) : NULL;
        if (t && cfx_session_tensor(session, t) != t)
            cfx_dict_put(state, state->entries[i].key,
                         cfx_tensor_value(cfx_session_tensor(session, t)));
    }
    return state;
}

/* Twice, with what was written forgotten in between; the program's own state stays as it is. */
static void check_session(subject *s, cfx_program *p, const cfx_dict *held) {
    cfx_session *session = cfx_session_new();
    for (int turn = 0; turn < 2; turn++) {
        cfx_value inputs = eager_copies(s->drawn->inputs);
        agree_restore(p, held);
        cfx_manual_seed(7);
        cfx_value v = cfx_session_run_from(CFX_HERE, session, p, eager_args(inputs));
        cfx_dict *state = cfx_ok() ? session_state(session, p, s->drawn, held) : NULL;
        outcome o = eager_outcome(v, inputs, state);
        agree_on(s, &o, turn ? "in a session that was reset" : "in a session");
        for (int64_t i = 0; o.ran && i < held->len && cfx_ok(); i++) {
            const cfx_value *own = cfx_dict_find(p->state, held->entries[i].key);
            if (own && !apart_none(*own, held->entries[i].value))
                agree_found(s, "in a session: the program's %s is written",
                            cfx_str(held->entries[i].key));
        }
        cfx_session_reset(session);
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Inputs of other sizes: where two were alike they still are, unless `apart`. None becomes 0 or 1,
 * at which programs may fail that are made for more, as PyTorch's do. */
static cfx_value resized(const random_program *p, bool apart) {
    int64_t now[1 << 13] = {0}; /* by size */
    cfx_value out = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < cfx_as_list(p->inputs)->len; i++) {
        const cfx_tensor *t = cfx_tensor_at(p->inputs, i);
        int64_t shape[CFX_MAX_DIMS];
        if (!cfx__tensor_is_contiguous(t)) { /* programs are made for how it lies */
            cfx_list_append(cfx_as_list(out), cfx_as_list(p->inputs)->items[i]);
            continue;
        }
        for (int k = 0; k < t->ndim; k++) {
            const int64_t was = t->shape[k];
            if (!now[was])
                now[was] = chance(3) ? was : 2 + test_draw(8);
            shape[k] = was < 2 ? was : apart && chance(3) ? 2 + test_draw(8) : now[was];
        }
        cfx_tensor *other = draw_tensor((cfx_dtype)t->dtype, t->ndim, shape);
        cfx_list_append(cfx_as_list(out), cfx_tensor_value(other));
    }
    return out;
}

/* What a program says of inputs that it does not take. */
static bool refuses_inputs(const char *why) {
    return strstr(why, "Expected input") || strstr(why, "Guard failed");
}

/* Decomposed for all sizes; where no expression is found for what varies, that is told. */
static void check_apart(subject *s, cfx_program *p) {
    cfx_program *core = cfx_decompose(p, CFX_NONE);
    const char *why = cfx_ok() ? "" : cfx_error_last()->message;
    if (!strstr(why, "no expression was found") && !strstr(why, "cannot be taken apart"))
        agree_changed(s, core, "at other sizes, decomposed");
    else
        s->counts->fixed++;
    cfx_error_clear();
}

enum { BRIEFLY = 10, AT_LENGTH = 20000 }; /* milliseconds in which sizes are tried */

/* The program for all sizes of its inputs; NULL where none is found. */
static cfx_program *export_for_sizes(subject *s, cfx_module *gm, int64_t probe_ms) {
    cfx_value sizes = cfx_list_value(0, NULL);
    if (s->drawn->sized)
        return NULL;
    for (int64_t i = 0; i < cfx_as_list(s->drawn->inputs)->len; i++) {
        cfx_value each = cfx_list_value(0, NULL);
        for (int k = 0; k < cfx_tensor_at(s->drawn->inputs, i)->ndim; k++)
            cfx_list_append(cfx_as_list(each), cfx_string_value("Dim.AUTO"));
        cfx_list_append(cfx_as_list(sizes), each);
    }
    cfx_value example = agree_tuple(eager_copies(s->drawn->inputs));
    cfx_program *p = cfx_export(gm, example, CFX_NONE, sizes, .probe_ms = probe_ms);
    if (cfx_ok() && !cfx_failed(p))
        return p;
    s->counts->fixed++; /* equal sizes that only a branch asks for, say, are not found */
    cfx_error_clear();
    return NULL;
}

/* Out of a file. Where it is not written, since the program fails at some sizes in its ranges, they
 * were tried too briefly: else it has guards, which may refuse these inputs, or there is no
 * program. */
static void check_saved(subject *t, subject *s, cfx_program *p, cfx_module *gm) {
    cfx_program *again = agree_reopened(p, ".pt2");
    const char *why = cfx_ok() ? "" : cfx_error_last()->message;
    if (strstr(why, "with s") || strstr(why, "that the graph '")) {
        cfx_error_clear();
        cfx_program *tried = export_for_sizes(s, gm, AT_LENGTH);
        again = tried ? agree_reopened(tried, ".pt2") : NULL;
        if (!tried)
            return;
        const bool opened = cfx_ok() && !cfx_failed(again);
        const cfx_dict *held = opened ? agree_held(again, t->drawn) : NULL;
        outcome o = {.ran = true};
        if (opened) {
            o = agree_run(again, t->drawn, held, &cfx_interpreter, NULL, 0);
            agree_restore(again, held);
        }
        if (!o.ran && refuses_inputs(o.why)) {
            s->counts->fixed++;
            return;
        }
    }
    agree_changed(t, again, "at other sizes, saved and opened");
}

/* One program for all sizes: at others it does what eager does there, or says of its inputs that it
 * does not take them. */
static void check_sizes(subject *s, cfx_module *gm) {
    cfx_program *p = export_for_sizes(s, gm, BRIEFLY);
    const cfx_dict *held = p ? agree_held(p, s->drawn) : NULL;
    if (held)
        agree_changed(s, p, "with sizes that vary");
    for (int turn = s->counts->few ? 2 : 0; turn < 3 && !s->found.any && held; turn++) {
        random_program other = *s->drawn;
        other.inputs = resized(s->drawn, chance(2));
        subject t = {.drawn = &other, .counts = s->counts, .first = eager_run(&other, 0, false)};
        agree_restore(p, held);
        outcome o = agree_run(p, &other, held, &cfx_interpreter, NULL, 0);
        if (!o.ran && refuses_inputs(o.why))
            continue;
        s->counts->resized++;
        agree_restore(p, held);
        agree_all(&t, p, "at other sizes");
        agree_restore(p, held);
        if (t.found.any || agree_may_run(&t.first))
            ;
        else if (chance(2))
            check_saved(&t, s, p, gm);
        else if (!agree_may_run_decomposed(&t.first))
            check_apart(&t, p);
        s->found = t.found;
        s->last = !t.found.any ? s->last : t.last ? t.last : p;
    }
    cfx_error_clear();
}

/* ---- all ------------------------------------------------------------------------------------- */

static void check_pass(subject *s, cfx_program *p) {
    char name[96];
    cfx_program *other = cfx_program_copy(p);
    const cfx_pass *pass = agree_any_pass();
    snprintf(name, sizeof name, "after pass %s", pass ? pass->name : "none");
    if (pass && cfx_pass_apply(pass, other, NULL) >= 0)
        agree_changed(s, other, name);
    else if (pass && s->first.ran)
        agree_unless(s, name, "no pass may be refused");
    cfx_error_clear();
}

/* The changes of a program, one after the other, each of the program as it was exported; of the
 * dearer ones some. times: where few are wanted, one in so many programs has it. */
static void check_changes(subject *s, cfx_program *p, cfx_module *gm, const cfx_dict *held) {
    static const uint32_t times[] = {2, 1, 2, 3, 3, 2, 2, 2, 2, 3, 2};
    for (int way = 0; way < 11 && !s->found.any; way++) {
        const bool some = chance(3);
        if (!agree_goes(s, times[way]))
            continue;
        agree_restore(p, held);
        switch (way) {
        case 0:
            if (!agree_may_run_decomposed(&s->first))
                agree_changed(s, cfx_decompose(p, CFX_NONE), "decomposed");
            break;
        case 1: check_pass(s, p); break;
        case 2: agree_changed(s, cfx_optimize(p), "optimised"); break;
        case 3: agree_changed(s, agree_reopened(p, ".pt2"), "saved and opened"); break;
        case 4:
            if (s->first.ran)
                agree_quantized(s, p);
            break;
        case 5:
            if (some)
                check_text(s, p);
            break;
        case 6:
            if (some)
                check_onnx(s, p);
            break;
        case 7:
            if (some)
                check_stages(s, p, held);
            break;
        case 8:
            if (some)
                check_session(s, p, held);
            break;
        case 9:
            if (some || s->drawn->sizes)
                check_sizes(s, gm);
            break;
        default:
            if (!agree_may_run_decomposed(&s->first))
                agree_in_turn(s, p);
        }
    }
}

/* As C: the program with its sizes, and with sizes that vary at those and at others. */
static void check_compiled(subject *s, cfx_program *p, cfx_module *gm, const cfx_dict *held) {
    agree_restore(p, held);
    compiled_check(s, p, "as C");
    cfx_program *varies = s->found.any ? NULL : export_for_sizes(s, gm, BRIEFLY);
    if (varies)
        compiled_check(s, varies, "as C with sizes that vary");
    if (varies && !s->found.any) {
        random_program other = *s->drawn;
        other.inputs = resized(s->drawn, chance(2));
        subject t = {.drawn = &other, .counts = s->counts, .first = eager_run(&other, 0, false)};
        if (t.first.ran)
            compiled_check(&t, varies, "as C at other sizes");
        if (t.found.any) {
            s->found = t.found;
            s->last = t.last;
        }
    }
}

/* Programs of random numbers are kept as they are: what changes them draws others. */
static void check_kept(subject *s, cfx_program *p, const cfx_dict *held) {
    agree_restore(p, held);
    if (agree_goes(s, 4))
        agree_changed(s, agree_reopened(p, ".pt2"), "saved and opened");
    agree_restore(p, held);
    if (!s->found.any && chance(2))
        check_text(s, p);
    agree_restore(p, held);
    if (!s->found.any && chance(2))
        check_session(s, p, held);
}

/* Once more with the state that a run left, as a cache with its counter is used. */
static void check_again(subject *s, cfx_program *p, const cfx_dict *held) {
    random_program next = *s->drawn;
    const int64_t n = s->first.leaves->len - next.state->len;
    next.state = eager_state(s->drawn->state);
    for (int64_t i = 0; i < s->drawn->state->len; i++)
        cfx_copy_(next.state->entries[i].value, s->first.leaves->items[n + i]);
    const outcome second = eager_run(&next, 0, false);
    for (int way = 0; way < 2 && !s->found.any; way++) {
        const cfx_executor *x = way ? &cfx_planner : &cfx_interpreter;
        subject t = {.drawn = &next, .counts = s->counts, .first = second, .now = p};
        agree_run(p, s->drawn, held, x, NULL, 0);
        cfx_value inputs = eager_copies(next.inputs);
        cfx_manual_seed(7);
        cfx_value v = cfx_program_run_with(CFX_HERE, p, x, NULL, eager_args(inputs));
        outcome o = eager_outcome(v, inputs, cfx_ok() ? agree_state(p, s->drawn, held) : NULL);
        agree_on(&t, &o, way ? "planned, with the state of a run before"
                             : "with the state of a run before");
        s->found = t.found;
    }
}

static void check_exported(subject *s, cfx_program *p, cfx_module *gm) {
    const cfx_dict *held = agree_held(p, s->drawn);
    s->counts->exported++;
    agree_all(s, p, "the program");
    if (s->first.ran && s->drawn->state->len && !s->found.any && !s->counts->compiler)
        check_again(s, p, held);
    if (s->drawn->shared)
        return;
    if (s->drawn->random && s->first.ran && !s->found.any && !s->counts->compiler)
        check_kept(s, p, held);
    if (!s->drawn->random && !s->found.any && !agree_may_run(&s->first))
        s->counts->compiler ? check_compiled(s, p, gm, held) : check_changes(s, p, gm, held);
}

/* Whether PyTorch's export refuses as well: what overlaps itself is written to, or a size that no
 * symbol stands for comes from data. */
static bool may_not_export(const char *why) {
    return strstr(why, "memory location") || strstr(why, "the number of classes depends on data") ||
           strstr(why, "the places to split at depend on data");
}

/* "f32[2, 3] by [3, 1]; i64[] by []" */
static const char *inputs_text(const random_program *p) {
    cfx__text out = {0};
    for (int64_t i = 0; i < cfx_as_list(p->inputs)->len; i++) {
        const cfx_tensor *t = cfx_tensor_at(p->inputs, i);
        cfx__text_printf(&out, "%s%s%s by %s", i ? "; " : "",
                         cfx_dtype_name((cfx_dtype)t->dtype),
                         cfx_repr(cfx_ints_value(t->ndim, t->shape)),
                         cfx_repr(cfx_ints_value(t->ndim, t->stride)));
    }
    return cfx__text_take(&out);
}

program_finding programs_check(uint64_t seed, program_counts *counts) {
    subject s = {.counts = counts};
    size_t mark = cfx_scope_open();
    const int threads = cfx_get_num_threads();
    random_program drawn = programs_draw(seed);
    s.drawn = &drawn;
    cfx_set_log(hear_nothing, NULL);
    if (drawn.threads)
        cfx_set_num_threads(drawn.threads);
    s.first = eager_run(&drawn, 0, false);
    if (s.first.sharing)
        agree_found(&s, "%s gives an argument's memory", s.first.sharing->target.name);
    counts->drawn++;
    s.first.ran ? counts->ran++ : counts->refused++;
    cfx_module *gm = cfx_graph_module(drawn.root, drawn.graph, NULL);
    cfx_program *p = cfx_export(gm, agree_tuple(eager_copies(drawn.inputs)), CFX_NONE, CFX_NONE);
    const bool exported = cfx_ok() && !cfx_failed(p);
    if (exported)
        check_exported(&s, p, gm);
    else if (s.first.ran && !may_not_export(cfx_error_last()->message))
        agree_found(&s, "export refuses: %s", cfx_error_last()->message);
    cfx_error_clear();
    if (s.found.any) {
        const size_t len = strlen(s.found.text);
        snprintf(s.found.text + len, sizeof s.found.text - len, "\non %s\nof %s%s%s%s%s",
                 inputs_text(&drawn),
                 exported ? graphs_text(p->module->graph, p->module)
                          : graphs_text(drawn.graph, drawn.root),
                 s.last ? "\nas " : "",
                 s.last ? graphs_text(s.last->module->graph, s.last->module) : "",
                 exported ? "\ndrawn as " : "",
                 exported ? graphs_text(drawn.graph, drawn.root) : "");
    }
    cfx_set_log(NULL, NULL);
    cfx_set_num_threads(threads);
    cfx_scope_close(mark);
    return s.found;
}
