/* cfx run on ranks: started by mpirun each process is one, otherwise they are simulated by threads.
 * A program is cut into stages (--stages), or holds collectives, or is a folder that `cfx split`
 * wrote, of which each rank opens its own file. Start at cli_run_ranks. */
#include "run_ranks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../group/group.h"
#include "../run/run.h"


void cli_ranks_end(cli_ranks *r) {
    cfx_drop(r->program);
    cfx_value_drop(r->result);
    cli_ranks_forget(r);
    cli_generation_end(&r->text);
}

/* ---- what each rank opens -------------------------------------------------------------------- */

static bool is_folder(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* The file of a rank in a folder: stage2.pt2 of a pipeline, or rank2.pt2; scope. NULL: there is
 * none. */
static const char *file_in(const char *folder, int rank, const char *kind) {
    struct stat s;
    const char *path = cfx__text_format("%s/%s%d.pt2", folder, kind, rank);
    return stat(path, &s) ? NULL : path;
}

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
    int n, given;           /* micro-batches */
    cfx_value results;      /* a list of lists, by result; counted */
} batches;

/* Whether the program takes fewer rows of an input than there are: a size that varies, or so many
 * that all micro-batches together have what is given. */
static bool takes_parts(const cfx_program *p, int k, const cfx_tensor *t, int n) {
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER || k-- > 0)
            continue;
        cfx_result r = cfx_node_result(cfx_graph_find(p->module->graph, p->inputs[i].name));
        if (r.kind != CFX_RESULT_TENSOR || r.ndim < 1 || !t->ndim)
            return false;
        cfx_value size = cfx_result_size(&r, 0);
        return size.tag == CFX_TAG_SYM ||
               (size.tag == CFX_TAG_INT && t->shape[0] == cfx_integer(size) * n);
    }
    return false;
}

static bool cut_batches(batches *b, const cfx_program *p) {
    bool any = false;
    for (int64_t i = 0; i < b->leaves->len; i++) {
        const cfx_value v = b->leaves->items[i];
        const cfx_tensor *t = v.tag == CFX_TAG_TENSOR ? cfx_as_tensor(v) : NULL;
        b->cut[i] = t && b->n > 1 && takes_parts(p, (int)i, t, b->n) &&
                    (!b->rows || b->rows == t->shape[0]);
        if (b->cut[i])
            b->rows = t->shape[0];
        any |= b->cut[i];
    }
    if (b->n == 1 || (b->rows && b->rows % b->n == 0))
        return true;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             any ? "%lld rows are not %d micro-batches of equal size"
                 : "no input of the program has a first size that varies (rows: %lld), so there "
                   "are no %d micro-batches; 'cfx opt --dynamic' makes one vary",
             (long long)b->rows, b->n);
    return false;
}

static cfx_value next_batch(void *user) {
    batches *b = user;
    if (b->given == b->n)
        return cfx_none();
    const int64_t rows = b->rows / b->n;
    cfx_value args = cfx_list_value(0, NULL);
    for (int64_t i = 0; i < b->leaves->len; i++) {
        const cfx_value v = b->leaves->items[i];
        cfx_list_append(cfx_as_list(args),
                        b->cut[i] ? cfx_tensor_value(cfx_narrow(cfx_as_tensor(v), 0,
                                                                b->given * rows, rows))
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

/* Result i of all micro-batches as one: rows behind each other, numbers as a row of their own. */
static cfx_value joined(const batches *b, int64_t i) {
    cfx_value all = cfx_list_value(0, NULL);
    for (int k = 0; k < b->n; k++) {
        const cfx_list *flat = cfx_as_list(cfx_as_list(b->results)->items[k]);
        cfx_list_append(cfx_as_list(all), i < flat->len ? flat->items[i] : cfx_none());
    }
    const cfx_value first = cfx_as_list(all)->items[0];
    if (b->n == 1 || first.tag != CFX_TAG_TENSOR)
        return first;
    return cfx_tensor_value(cfx_as_tensor(first)->ndim ? cfx_cat(all, 0) : cfx_stack(all, 0));
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

/* Whether a folder is for as many ranks as there are, and the same for all of them. */
static bool folder_fits(const cli_ranks *r, cfx_group *g, const char *kind) {
    struct stat s;
    const int size = cfx_group_size(g);
    const char *plan = cfx__text_format("%s/plan.json", r->model);
    if (!file_in(r->model, size - 1, kind) || file_in(r->model, size, kind)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' is for %s than %d ranks", r->model,
                 file_in(r->model, size, kind) ? "more" : "fewer", size);
        return false;
    }
    return cfx_group_agree(g, "folder", !stat(plan, &s)) && (stat(plan, &s) || same_file(g, plan));
}

/* A folder of stages: the last one has the tree of the results. */
static bool run_folder(cli_ranks *r, cfx_group *g, const char *own) {
    const char *last = file_in(r->model, cfx_group_size(g) - 1, "stage");
    if (!folder_fits(r, g, "stage"))
        return false;
    cfx_program *p = cfx_open(own), *end = cfx_group_rank(g) ? p : cfx_open(last);
    if (cfx_failed(p) || cfx_failed(end))
        return false;
    if (cfx_group_rank(g) == 0)
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

/* Every rank runs its program whole; collectives bring them together. */
static bool run_whole(cli_ranks *r, cfx_group *g, const char *own) {
    if (is_folder(r->model) ? !folder_fits(r, g, "rank") : !same_file(g, own))
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
                        : read_inputs(r, p, cfx_as_list(w.leaves))) && run_once(&w);
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
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    const bool folder = is_folder(r->model);
    const char *stage = folder ? file_in(r->model, rank, "stage") : NULL;
    const char *part = folder ? file_in(r->model, rank, "rank") : NULL;
    cfx_set_grad_mode(CFX_INFERENCE);
    if (r->stages && r->stages != size)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--stages %d are for %d ranks, and here are %d: "
                 "mpirun -n %d", r->stages, r->stages, size, r->stages);
    else if (folder && !stage && !part)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "'%s' has no stage%d.pt2 or rank%d.pt2 for rank %d of %d", r->model, rank, rank,
                 rank, size);
    if (!cfx_ok())
        return false;
    return r->stages ? run_stages(r, g)
           : stage   ? run_folder(r, g, stage)
                     : run_whole(r, g, part ? part : r->model);
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

int cli_run_ranks(cli_ranks *r, int *rank) {
    *rank = 0;
    if (cfx_mpi_ranks() <= 1)
        return cfx_group_simulate(r->stages, run_rank, r) ? CLI_DONE : cli_trouble();
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
