/* cfx run on ranks: started by mpirun each process is one, otherwise they are simulated by threads.
 * A program is cut into stages (--stages), or holds collectives, or is a folder that `cfx split`
 * wrote, of which each rank opens its own file. Start at cli_run_ranks. */
#include "run_ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../group/group.h"
#include "../ranks/hash.h"
#include "../rewrite/rewrite.h"
#include "../run/run.h"
#include "split.h"

void cli_ranks_end(cli_ranks *r) {
    cfx_drop(r->program);
    cfx_value_drop(r->result);
    cli_ranks_forget(r);
    cli_generation_end(&r->text);
}

/* ---- what each rank opens -------------------------------------------------------------------- */

static bool has_collectives(const cfx_program *p) {
    bool any = false;
    cfx_each_node(p->module->graph, n) any |=
        n->target.name && strstr(n->target.name, "_c10d_functional") != NULL;
    return any;
}

/* Whether all ranks have opened the same file. */
static bool same_file(cfx_group *g, const char *path) {
    uint64_t hash = 0;
    return cfx_file_hash(path, &hash) && cfx_group_agree(g, "file", hash);
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct {
    cli_ranks *ranks;
    const cfx_list *leaves; /* the caller's inputs */
    bool *cut;              /* which of them are cut */
    int64_t rows;           /* of those; 0: none is */
    cfx_value varies;       /* the size of theirs that varies; None: none does */
    int n, given;           /* micro-batches */
    cfx_value results;      /* a list of lists, by result; counted */
} batches;

/* The first size of an input of the program; None where it has none. */
static cfx_value first_size(const cfx_program *p, int64_t k) {
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER || k-- > 0)
            continue;
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        return r.kind == CFX_RESULT_TENSOR && r.ndim ? cfx_result_size(&r, 0) : cfx_none();
    }
    return cfx_none();
}

/* Whether the program takes fewer rows of an input than there are: a size that varies, the same for
 * all that are cut, or so many that all micro-batches together have what is given. */
static bool takes_parts(const batches *b, cfx_value size, const cfx_tensor *t) {
    if (!t->ndim || (b->rows && b->rows != t->shape[0]))
        return false;
    return size.tag == CFX_TAG_SYM ? cfx_is_none(b->varies) || cfx_equal_values(b->varies, size)
                                   : size.tag == CFX_TAG_INT &&
                                         t->shape[0] == cfx_integer(size) * b->n;
}

static bool cut_batches(batches *b, const cfx_program *p) {
    b->varies = cfx_none();
    for (int64_t i = 0; i < b->leaves->len && b->n > 1; i++) {
        const cfx_value v = b->leaves->items[i], size = first_size(p, i);
        if (v.tag != CFX_TAG_TENSOR || !takes_parts(b, size, cfx_as_tensor(v)))
            continue;
        b->cut[i] = true;
        b->rows = cfx_as_tensor(v)->shape[0];
        if (size.tag == CFX_TAG_SYM)
            b->varies = size;
    }
    if (b->n == 1 || (b->rows && b->rows >= b->n)) /* fixed sizes divide: takes_parts says so */
        return true;
    if (b->rows)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%lld rows are fewer than %d micro-batches",
                 (long long)b->rows, b->n);
    else
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "no input of the program has a first size that varies, so there are no %d "
                 "micro-batches; 'cfx opt --dynamic' makes one vary", b->n);
    return false;
}

/* A program that writes to its buffers gives later micro-batches what earlier ones have left there,
 * which is not what the whole computes. */
static bool keeps_nothing(const cfx_program *stage) {
    const char *name = NULL;
    cfx__alias a;
    cfx__alias_open(&a, stage->module->graph);
    for (int i = 0; i < stage->ninputs && !name; i++) {
        const cfx_node *n = cfx_graph_find(stage->module->graph, stage->inputs[i].name);
        if (stage->inputs[i].kind != CFX_IN_USER && n && cfx__alias_written(&a, n))
            name = stage->inputs[i].target;
    }
    cfx__alias_close(&a);
    for (int i = 0; i < stage->noutputs && !name; i++)
        if (stage->outputs[i].kind == CFX_OUT_BUFFER_MUTATION ||
            stage->outputs[i].kind == CFX_OUT_PARAMETER_MUTATION)
            name = stage->outputs[i].target;
    if (name)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "the program writes to '%s', so micro-batches are not what the whole gives: each "
                 "would see what the one before has left there; run without --micro-batches", name);
    return !name;
}

static cfx_value next_batch(void *user) {
    batches *b = user;
    if (b->given == b->n)
        return cfx_none();
    const int64_t from = b->rows * b->given / b->n, to = b->rows * (b->given + 1) / b->n;
    cfx_value args = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < b->leaves->len; i++) {
        const cfx_value v = b->leaves->items[i];
        cfx_list_append(cfx_as_list(args),
                        b->cut[i] ? cfx_tensor_value(cfx_narrow(cfx_as_tensor(v), 0, from,
                                                                to - from))
                                  : v);
    }
    b->given++;
    return args;
}

static bool take_result(cfx_value result, void *user) {
    batches *b = user;
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tree_flatten(result, cfx_as_list(flat));
    cfx_list_append(cfx_as_list(b->results), flat);
    return cfx_ok();
}

/* Whether result i of the program has a row, or several, for each row of its inputs: its first size
 * varies, or where no size does it is a multiple of theirs. */
static bool has_rows(const batches *b, const cfx_program *p, int64_t i, const cfx_tensor *t) {
    const int64_t rows = b->rows / b->n; /* of the first micro-batch; others may have one more */
    for (int k = 0; k < p->noutputs; k++) {
        if ((p->outputs[k].kind != CFX_OUT_USER && p->outputs[k].kind != CFX_OUT_LOSS) || i-- > 0)
            continue;
        const cfx_node *n = cfx_graph_find(p->module->graph, p->outputs[k].name);
        cfx_result r = n ? cfx_node_result(n) : (cfx_result){0};
        if (r.kind == CFX_RESULT_TENSOR && r.ndim && !cfx_is_none(b->varies))
            return cfx_result_size(&r, 0).tag == CFX_TAG_SYM;
        break;
    }
    return t->ndim && t->shape[0] && t->shape[0] % rows == 0;
}

/* Result i of all micro-batches as one: rows behind each other. */
static cfx_value joined(const batches *b, int64_t i) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int k = 0; k < b->n; k++) {
        const cfx_list *flat = cfx_as_list(cfx_as_list(b->results)->items[k]);
        cfx_list_append(cfx_as_list(all), i < flat->len ? flat->items[i] : cfx_none());
    }
    const cfx_value first = cfx_as_list(all)->items[0];
    if (b->n == 1 || cfx_is_none(first))
        return first;
    if (first.tag == CFX_TAG_TENSOR && has_rows(b, b->ranks->program, i, cfx_as_tensor(first)))
        return cfx_tensor_value(cfx_cat(all, 0));
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "result out%lld (%s) has no row for each row of the inputs, so those of %d "
             "micro-batches are not what the whole gives; run without --micro-batches",
             (long long)i, cli_brief(first), b->n);
    return cfx_bad();
}

static cfx_value join_results(const batches *b) {
    cfx_value whole = cfx_tuple_value(0, NULL);
    const cfx_list *first = cfx_as_list(b->results)->len
                                ? cfx_as_list(cfx_as_list(b->results)->items[0])
                                : NULL;
    for (int64_t i = 0; first && i < first->len && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(whole), joined(b, i));
    return whole;
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* The caller's inputs, flat, from files, samples or made up; false with an error. */
static bool read_inputs(const cli_ranks *r, cfx_program *p, cfx_list *flat) {
    if (r->inputs)
        return cli_read_inputs(p, r->inputs, flat);
    if (!r->random && cli_sample_inputs(p, flat))
        return true;
    cfx_manual_seed(0);
    return cli_make_inputs(p, cfx_dict_new(), flat);
}

/* All batches through the pipeline once, from its first state; on rank 0 results come to `b`. */
typedef struct {
    cfx_pipeline *line;
    batches b;
    cli_generation *text; /* which it goes on with, a token at a time; NULL: batches */
} passage;

static bool pass_once(void *user) {
    passage *p = user;
    p->b.given = 0;
    p->b.results = cfx_list_value(0, NULL);
    cfx_pipeline_reset(p->line);
    if (!p->text)
        return cfx_pipeline_run(p->line, next_batch, take_result, &p->b);
    cli_generation_again(p->text);
    cfx_pipeline_set_depth(p->line, 1);
    return cfx_pipeline_run(p->line, cli_generation_next, cli_generation_take, p->text);
}

/* Rank 0 feeds the pipeline, and keeps what comes out. */
static bool run_line(cli_ranks *r, cfx_group *g, cfx_program *stage, cfx_value out_spec) {
    cfx_value leaves = cfx_list_value(0, NULL);
    const bool feeds = cfx_group_rank(g) == 0;
    passage p = {.line = cfx_pipeline_new(g, stage, out_spec),
                 .b = {.ranks = r, .leaves = cfx_as_list(leaves),
                       .n = r->micro_batches ? r->micro_batches : 1}};
    p.text = r->generate ? &r->text : NULL;
    if (feeds && p.text && !cli_generation_begin(p.text, stage, r->given, r->generate))
        return false;
    if (feeds && !p.text && !read_inputs(r, stage, cfx_as_list(leaves)))
        return false;
    if (p.b.n > 1 && !keeps_nothing(stage))
        return false;
    p.b.cut = cfx__alloc0((size_t)p.b.leaves->len + 1);
    bool well = (!feeds || p.text || cut_batches(&p.b, stage)) && pass_once(&p);
    if (well && feeds)
        r->result = cfx_value_keep(p.text ? cli_generation_made(p.text) : join_results(&p.b));
    well = well && (!r->profile || cli_ranks_profile(r, g, pass_once, &p));
    cfx__free(p.b.cut);
    return well && cfx_ok();
}

/* Every rank cuts the same file alike, and keeps its own stage. */
static bool run_stages(cli_ranks *r, cfx_group *g) {
    if (!same_file(g, r->model))
        return false;
    cfx_program *p = cfx_open(r->model);
    cfx_stages *s = cfx_failed(p) ? NULL
                                  : cfx_program_stages(p, (cfx_stage_options){.n = r->stages});
    if (!cfx_ok() || cfx_failed(s))
        return false;
    const int rank = cfx_group_rank(g);
    if (rank == 0)
        r->program = cfx_keep(p);
    return run_line(r, g, s->stages[rank].program, p->out_spec);
}

/* A folder of stages: the last one has the tree of the results. */
static bool run_folder(cli_ranks *r, cfx_group *g, const cli_parts *parts) {
    const int rank = cfx_group_rank(g);
    const char *own = cli_parts_file(parts, rank);
    const char *last = own && !rank ? cli_parts_file(parts, parts->n - 1) : own;
    if (!last)
        return false;
    cfx_program *p = cfx_open(own), *end = rank ? p : cfx_open(last);
    if (cfx_failed(p) || cfx_failed(end))
        return false;
    if (rank == 0)
        r->program = cfx_keep(end);
    return run_line(r, g, p, end->out_spec);
}

typedef struct {
    cfx_program *program;
    cfx_value leaves, result;
    cli_generation *text; /* as in a passage; each rank has its own */
    cfx_session *session;
} whole_run;

static bool run_once(void *user) {
    whole_run *w = user;
    if (w->text) {
        cfx_session_reset(w->session);
        cli_generation_again(w->text);
        bool made = cli_generation_run(w->text, w->session, w->program);
        w->result = cli_generation_made(w->text);
        return made && cfx_ok();
    }
    const cfx_list *in = cfx_as_list(w->leaves);
    w->result = cfx_program_run_from((cfx_site){0}, w->program,
                                     (cfx_args){(int)in->len, in->items, NULL});
    return cfx_ok();
}

/* What each of the ranks that share layers is given is the same: else they would compute something
 * of two halves. */
static bool same_inputs(cfx_group *g, const whole_run *w) {
    const cfx_list *leaves = cfx_as_list(w->leaves);
    uint64_t hash = 0;
    for (int64_t i = 0; i < leaves->len; i++) CFX_SCOPE {
        const cfx_value v = leaves->items[i];
        const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_contiguous(v) : NULL;
        if (!t) {
            const char *text = cfx_value_repr(v);
            hash = cfx__hash_bytes(hash, text, strlen(text));
        } else if (cfx_ok()) {
            hash = cfx__hash_mix(hash, t->dtype);
            hash = cfx__hash_bytes(hash, t->shape, (size_t)t->ndim * sizeof *t->shape);
            hash = cfx__hash_bytes(hash, t->data,
                                   (size_t)t->numel * (size_t)cfx_dtype_size(t->dtype));
        }
    }
    if (w->text)
        hash = cfx__hash_bytes(hash, w->text->ids.data, w->text->ids.len * sizeof(int64_t));
    return cfx_ok() && cfx_group_agree(g, w->text ? "text" : "input", hash);
}

/* Every rank runs its program whole; collectives bring them together. */
static bool run_whole(cli_ranks *r, cfx_group *g, const cli_parts *parts) {
    const char *own = parts ? cli_parts_file(parts, cfx_group_rank(g)) : r->model;
    if (r->micro_batches)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "--micro-batches are for stages, and of '%s' every rank runs all rows", r->model);
    if (!own || !cfx_ok() || (!parts && (!same_file(g, own) || cli_is_part(own))))
        return false;
    cfx_program *p = cfx_open(own);
    if (cfx_failed(p))
        return false;
    if (!has_collectives(p)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "'%s' has nothing for %d ranks: it holds no collectives, and --stages does not "
                 "say how to cut it",
                 own, cfx_group_size(g));
        return false;
    }
    cli_generation mine = {0};
    const bool first = cfx_group_rank(g) == 0;
    whole_run w = {.program = p, .leaves = cfx_list_value(0, NULL), .session = cfx_session_new(),
                   .text = !r->generate ? NULL : first ? &r->text : &mine};
    bool well = (w.text ? cli_generation_begin(w.text, p, r->given, r->generate)
                        : read_inputs(r, p, cfx_as_list(w.leaves))) &&
                (!parts || same_inputs(g, &w)) && run_once(&w);
    if (well && first) {
        r->program = cfx_keep(p);
        r->result = cfx_value_keep(w.result);
    }
    well = well && (!r->profile || cli_ranks_profile(r, g, run_once, &w)) && cfx_group_wait(g);
    cli_generation_end(&mine);
    return well;
}

static bool run_rank(cfx_group *g, void *user) {
    cli_ranks *r = user;
    const int size = cfx_group_size(g);
    const bool folder = cli_is_folder(r->model);
    cli_parts parts = {0};
    cfx_set_grad_mode(CFX_INFERENCE);
    if (folder && !cli_parts_find(r->model, &parts))
        return false;
    if (folder && parts.n != size)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is for %d ranks, and here are %d: "
                 "mpirun -n %d", r->model, parts.n, size, parts.n);
    else if (r->stages && r->stages != size)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--stages %d are for %d ranks, and here are %d: "
                 "mpirun -n %d", r->stages, r->stages, size, r->stages);
    if (!cfx_ok() || (folder && !cli_parts_agree(&parts, g)))
        return false;
    return r->stages                          ? run_stages(r, g)
           : folder && !strcmp(parts.kind, "stage") ? run_folder(r, g, &parts)
                                              : run_whole(r, g, folder ? &parts : NULL);
}

/* A rank that was lost ends this one too, at the next operator; or here, where that takes long. */
static bool is_lost(void *user) {
    cfx_group *g = user;
    return g->transport->fault(g->transport) && !cfx__group_fault(g);
}

static void end_late(const char *sentence, void *user) {
    cli_say("cfx: rank %d on %s: %s\n", cfx_group_rank(user),
            cfx_group_node(user, cfx_group_rank(user)), sentence);
    _exit(CLI_TROUBLE);
}

/* Ranks of one machine share its cores, each has a row of its own. mpirun, unless it is told
 * otherwise (--bind-to), binds each of two ranks to one core and leaves the rest idle: that is
 * undone. What it was told stays. */
static void share_cores(const cfx_group *g, int threads) {
    const char *node = cfx_group_node(g, cfx_group_rank(g));
    const char *asked = getenv("OMPI_MCA_hwloc_base_binding_policy");
    int here = 0, mine = 0;
    for (int r = 0; r < cfx_group_size(g); r++) {
        const bool same = !strcmp(cfx_group_node(g, r), node);
        here += same;
        mine += same && r < cfx_group_rank(g);
    }
    if (asked && strcmp(asked, "none"))
        return;
    const int own = cli_share_cores(mine, here);
    if (!threads)
        cfx_set_num_threads(own);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* As threads: so many as there are stages, or files in a folder. */
static int simulate(cli_ranks *r) {
    cli_parts parts = {.n = r->stages};
    if (cli_is_folder(r->model) && !cli_parts_find(r->model, &parts))
        return cli_trouble();
    return cfx_group_simulate(parts.n, run_rank, r) ? CLI_DONE : cli_trouble();
}

int cli_run_ranks(cli_ranks *r, int *rank) {
    *rank = 0;
    if (cfx_mpi_ranks() <= 1)
        return simulate(r);
    cfx_group *g = cfx_group_open_mpi();
    if (!g)
        return cli_trouble();
    *rank = cfx_group_rank(g);
    cfx_set_group(g);
    share_cores(g, r->threads);
    cfx_set_interrupt(is_lost, g);
    cfx_group_on_loss(g, end_late, g);
    const int size = cfx_group_size(g);
    const char *node = cfx__text_format("%s", cfx_group_node(g, *rank));
    bool well = run_rank(g, r);
    const char *fault = well ? NULL : g->transport->fault(g->transport);
    if (!well && !fault)
        cfx_error_note("On rank %d of %d, on %s", *rank, size, node);
    cfx_set_interrupt(NULL, NULL);
    cfx_group_end(g, NULL);
    return well && cfx_ok() ? CLI_DONE : cli_trouble();
}
