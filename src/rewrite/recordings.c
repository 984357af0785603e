/* Records a program in several worlds: which worlds are valid, and what happens if an operator
 * is composite at only some of them. Start at cfx__recordings_make. */
#include "decompose.h"

typedef cfx__recording recording;
typedef cfx__decomposing decomposing;

/* ---- one world ------------------------------------------------------------------------------- */

/* Whether a result is put back into an input, after all writes of the graph: a program that was
 * functionalised may have calls that write all the same (batch_norm). */
static bool is_put_back(const cfx_program *p, size_t input) {
    const cfx_input_spec *in = &p->inputs[input];
    for (int i = 0; i < p->noutputs; i++) {
        const cfx_output_spec *out = &p->outputs[i];
        const bool own = out->kind == CFX_OUT_BUFFER_MUTATION ||
                         out->kind == CFX_OUT_PARAMETER_MUTATION;
        const char *name = own                                   ? in->target
                           : out->kind == CFX_OUT_INPUT_MUTATION ? in->name
                                                                 : NULL;
        if (name && out->target && !strcmp(out->target, name))
            return true;
    }
    return false;
}

/* The nodes for what was written to, by old number of the input; then the graph's output. */
static cfx_value finish_graph(cfx__rerun *run, cfx_value result, cfx_value *written) {
    cfx__recorder *r = &run->recorder;
    cfx_value all = cfx_tuple_value(0, NULL);
    for (size_t i = 0; i < run->inputs.len; i++) {
        cfx_tensor *t = run->inputs.data[i];
        if (t && cfx__recorded_written(t) && !is_put_back(run->program, i)) {
            written[i] = cfx_node_value(cfx__recorded_node(r, cfx_tensor_value(t)));
            cfx_list_append(cfx_as_list(all), written[i]);
        }
    }
    cfx_value results = cfx__record_arg(r, (cfx_site){0}, result);
    if (cfx_is_bad(results))
        return results;
    if (results.tag != CFX_TAG_TUPLE && results.tag != CFX_TAG_LIST)
        results = cfx_tuple_value(1, &results);
    for (int64_t i = 0; i < cfx_as_list(results)->len; i++)
        cfx_list_append(cfx_as_list(all), cfx_as_list(results)->items[i]);
    cfx_graph_output(r->graph, all);
    return results;
}

void cfx__recording_forget(recording *w) {
    cfx__rerun_done(&w->run);
    cfx__record_log_free(&w->log);
    cfx__free(w->written);
    *w = (recording){0};
}

bool cfx__recording_make(decomposing *d, int k) {
    recording *w = &d->world[k];
    w->run = (cfx__rerun){.program = d->from,
                          .from = d->from->module,
                          .to = cfx__module_new_raw("GraphModule", NULL),
                          .worlds = &d->worlds,
                          .k = k,
                          .order = d->order,
                          .options = d->options,
                          .own = &d->own,
                          .undivided = &d->undivided,
                          .whole = d->whole,
                          .foreign = d->foreign};
    cfx__rerun_record(&w->run, cfx_graph_new());
    if (d->worlds.symbols.len) {
        cfx__record_log_begin(&w->log);
        w->run.recorder.log = &w->log;
    }
    w->written = cfx__alloc0((size_t)(d->from->ninputs + 1) * sizeof *w->written);
    cfx_value result;
    cfx__record_begin(&w->run.recorder);
    if (cfx__rerun_graph(&w->run, &result))
        w->results = finish_graph(&w->run, result, w->written);
    cfx__record_end(&w->run.recorder);
    return cfx_ok();
}

/* Where two recordings part: the first node of one of them that the other has not, NULL where the
 * other has more; and the node of the program that both were made for, NULL: not known. */
typedef struct {
    const cfx_node *where, *of;
} parting;

static uint32_t origin_of(const cfx_node *n) { return n ? cfx__node_of(n)->origin : 0; }

/* Of what the two have at that place, one was recorded for an earlier node of the program. */
static const cfx_node *parted_at(const cfx_graph *a, const cfx_graph *b, const cfx_node *where,
                                 const cfx_module *from) {
    const cfx_node *m = cfx_graph_first(b);
    if (!from || (where && where->graph != a))
        return NULL;
    for (const cfx_node *n = cfx_graph_first(a); n && n != where && m; n = cfx_node_after(n))
        m = cfx_node_after(m);
    cfx_each_node(from->graph, n) {
        uint32_t id = cfx__node_of(n)->id + 1;
        if (id == origin_of(where) || id == origin_of(m))
            return n;
    }
    return NULL;
}

/* Whether two recordings call the same, and so do the branches in them. */
static bool are_same(const cfx_graph *a, const cfx_module *in_a, const cfx_graph *b,
                     const cfx_module *in_b, const cfx_module *from, parting *at) {
    bool same = cfx__worlds_same(a, b, &at->where);
    if (!same)
        at->of = parted_at(a, b, at->where, from);
    cfx_each_node((cfx_graph *)(uintptr_t)a, n) {
        cfx_module *below_a = NULL, *below_b = NULL, *below = NULL;
        const cfx_graph *of_a = same && n->op == CFX_GET_ATTR
                                    ? cfx__branch_graph(a, in_a, n->target.name, &below_a)
                                    : NULL;
        const cfx_graph *of_b =
            of_a ? cfx__branch_graph(b, in_b, n->target.name, &below_b) : NULL;
        if (of_b && from)
            cfx__branch_graph(from->graph, from, n->target.name, &below);
        same = same && (!of_a || (of_b && are_same(of_a, below_a, of_b, below_b, below, at)));
    }
    return same;
}

typedef struct {
    const cfx__worlds *worlds;
    int k;
    bool found;
} thinness;

/* Whether what metadata says has a size of 0 or 1 in world k that is another in world 0. */
static bool has_thin(const cfx__worlds *w, int k, cfx_value val) {
    bool found = false;
    if (val.tag == CFX_TAG_LIST || val.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(val)->len; i++)
            found |= has_thin(w, k, cfx_as_list(val)->items[i]);
    cfx_value then = cfx__worlds_tensor(w, 0, val), now = cfx__worlds_tensor(w, k, val);
    bool tensors = then.tag == CFX_TAG_TENSOR && now.tag == CFX_TAG_TENSOR;
    for (int i = 0; tensors && i < cfx_as_tensor(now)->ndim; i++)
        found |= cfx_as_tensor(now)->shape[i] < 2 && cfx_as_tensor(then)->shape[i] > 1;
    return found;
}

static void note_thin(cfx_node *n, void *user) {
    thinness *t = user;
    t->found |= has_thin(t->worlds, t->k, cfx_node_get_meta(n, "val"));
}

/* Sizes of 0 and 1 make views of what are copies else, and leave steps out that do nothing to them.
 * What is done at other sizes is right at these too; PyTorch takes it so for all of them. */
static bool is_thin(const cfx__worlds *w, int k, const cfx_node *n) {
    thinness t = {w, k, false};
    if (n) {
        note_thin((cfx_node *)(uintptr_t)n, &t);
        cfx__node_each(n->args, note_thin, &t);
        cfx_each_user(n, u) if (cfx_node_takes_result(u->user)) note_thin(u->user, &t);
    }
    return t.found;
}

/* Sizes of world k that are not those of the example, as in "s27 = 5, s77 = 9". */
static const char *sizes_in(const cfx__worlds *w, int k) {
    cfx__text out = {0};
    for (size_t i = 0; i < w->symbols.len; i++) {
        const cfx__symbol *s = &w->symbols.data[i];
        if (s->size.at[k] != s->size.at[0])
            cfx__text_puts(&out, cfx__text_format("%s%s = %lld", out.len ? ", " : "", s->name,
                                                 (long long)s->size.at[k]));
    }
    return cfx__text_take(&out);
}

/* The program holds in world k and is made of other operators there: the node that is, is recorded
 * whole from now on. Where that was of no use, or nobody knows which one it is, there is no program
 * for all sizes. */
static void part(decomposing *d, int k, parting at) {
    if (at.of && !cfx__rerun_is_undivided(&d->undivided, at.of)) {
        VEC_PUSH(d->undivided, at.of);
        d->parted = true;
    } else if (!d->refused) {
        const char *name = at.of ? at.of->name : at.where ? at.where->name : "it";
        d->refused = cfx__text_format("at %s, which it is made for, %s is made of other operators "
                                      "than at the sizes of the example",
                                      sizes_in(&d->worlds, k), name);
    }
}

/* A node that is made of a constant is recorded whole from now on. */
static void keep_whole(decomposing *d, const cfx_node *n) {
    if (n && !cfx__rerun_is_undivided(&d->undivided, n) && cfx__error_forgive()) {
        VEC_PUSH(d->undivided, n);
        d->parted = true;
    }
}

/* Records world k: at other sizes where those first chosen do not fit the program, or lead it
 * another way. The first error stays, as *why where it is not yet set. */
static bool record_fitting(decomposing *d, int k, const char **why) {
    enum { ATTEMPTS = 4 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        parting at = {0};
        cfx__worlds_choose(&d->worlds, k, attempt);
        bool fine = cfx__recording_make(d, k);
        const cfx__rerun *first = &d->world[0].run, *now = &d->world[k].run;
        if (fine && (!k || are_same(first->recorder.graph, first->to, now->recorder.graph, now->to,
                                    d->from->module, &at)))
            return true;
        if (fine && cfx__worlds_allow(&d->worlds, k) && cfx__worlds_checked(&d->worlds, k) &&
            !is_thin(&d->worlds, k, at.of))
            part(d, k, at);
        if (!*why)
            *why = !fine      ? cfx__text_format("%s", cfx_error_last()->message)
                   : at.where ? cfx__text_format("the decomposition of %s depends on them",
                                                 at.where->name)
                              : "it depends on them what the program does";
        if (!fine)
            keep_whole(d, now->constant);
        cfx__recording_forget(&d->world[k]);
        if (d->parted || d->refused || !d->worlds.symbols.len || !cfx__error_forgive())
            break;
    }
    return false;
}

/* Records as many worlds as fit, unless it is found that a node has to stay undivided, or that
 * there is no program for all. */
static void record_others(decomposing *d, const char **why) {
    for (int k = 1; k < d->worlds.n; k++)
        cfx__recording_forget(&d->world[k]);
    d->worlds.n = 1;
    for (int i = 1; i < cfx__worlds_count(&d->worlds) && d->worlds.symbols.len && !d->parted &&
                    !d->refused; i++)
        d->worlds.n += record_fitting(d, d->worlds.n, why);
}

bool cfx__recordings_make(decomposing *d) {
    enum { ENOUGH = 3 };
    const char *why = NULL;
    do {
        cfx__recording_forget(&d->world[0]);
        d->parted = false;
        if (!record_fitting(d, 0, &why)) {
            if (d->parted)
                continue;
            cfx__worlds_choose(&d->worlds, 0, 0);
            return cfx_ok() && cfx__recording_make(d, 0); /* which fails as it did at first */
        }
        do
            record_others(d, &why);
        while (d->worlds.n < ENOUGH && !d->parted && !d->refused && cfx_ok() &&
               cfx__worlds_coarser(&d->worlds));
    } while (d->parted && cfx_ok());
    if (d->refused)
        why = d->refused;
    if (d->worlds.symbols.len && (d->worlds.n < ENOUGH || d->refused))
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "the program cannot be taken apart for all sizes it is made for: %s", why);
    return cfx_ok();
}

