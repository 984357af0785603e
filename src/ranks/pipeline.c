/* Pipelines: each rank runs its stage on the results of the previous rank and sends its own to the
 * next. Start at cfx_pipeline_run: rank 0 feeds (feed), the others serve (serve).
 *
 * A batch in flight is a sequence of values: a word that says what follows, their number, and
 * the values. A stage requests the next batch before it computes this one, and sends its results
 * without waiting, so communication overlaps computation. The depth bounds the batches between
 * rank 0's input and its results, so no stage is overrun. */
#include <cfx/ranks.h>
#include <cfx/session.h>
#include <cfx/tree.h>

#include "../group/group.h"
#include "../run/run.h"

enum { MORE = 1, FRESH = 2, END = 3 }; /* the word: a batch; one for which all is forgotten; none */
enum { MOST_VALUES = 4096 };

struct cfx_pipeline {
    cfx_obj head;
    cfx_group *group; /* borrowed */
    cfx_program *stage;
    cfx_value out_spec;
    cfx_session *session;
    int depth;
    bool fresh;
};

static void pipeline_free(void *obj) {
    cfx_pipeline *l = obj;
    cfx_drop(l->stage);
    cfx_drop(l->session);
    cfx_value_drop(l->out_spec);
}

static const cfx__obj_type pipeline_type = {.name = "pipeline", .free = pipeline_free};

cfx_pipeline *cfx_pipeline_new(cfx_group *g, cfx_program *stage, cfx_value out_spec) {
    if (!cfx_ok() || cfx_is_bad(out_spec) || !cfx__program_whole((cfx_site){0}, stage))
        return NULL;
    cfx_pipeline *l = cfx__obj_new(&pipeline_type, sizeof *l);
    l->group = g;
    l->stage = cfx_keep(stage);
    l->session = cfx_keep(cfx_session_new());
    l->out_spec = cfx_value_keep(out_spec);
    l->depth = 4 * cfx_group_size(g);
    return l;
}

void cfx_pipeline_set_depth(cfx_pipeline *l, int batches) {
    if (l)
        l->depth = batches > 0 ? batches : 4 * cfx_group_size(l->group);
}

void cfx_pipeline_reset(cfx_pipeline *l) {
    if (l)
        l->fresh = true;
}

/* ---- rows on their way ----------------------------------------------------------------------- */

/* Parcels hold memory that the transport writes to, so each has its place. */
typedef struct row {
    struct row *next;
    int n;
    cfx__parcel *parcels; /* the word, the number of values, the values */
} row;

/* Rows that were sent and have not all left. */
typedef struct {
    cfx_pipeline *line;
    int to;
    row *first;
    int len;
} outbox;

static void row_free(row *r) {
    for (int i = 0; i < r->n; i++)
        cfx__parcel_end(&r->parcels[i]);
    cfx__free(r->parcels);
    cfx__free(r);
}

/* 1: all of it has left; 0: not yet; -1: failed. */
static int row_sent(row *r, bool wait) {
    int done = 1;
    for (int i = 0; i < r->n && done == 1; i++)
        done = cfx__parcel_poll(&r->parcels[i], wait, NULL);
    return done;
}

/* Lets go of rows that have left, from the oldest on, until no more than `most` are there. */
static bool outbox_clear(outbox *o, int most) {
    while (o->first) {
        row *r = o->first;
        const int done = row_sent(r, o->len > most);
        if (done < 0)
            return false;
        if (done == 0)
            return true;
        o->first = r->next;
        o->len--;
        row_free(r);
    }
    return true;
}

static void outbox_drop(outbox *o) {
    while (o->first) {
        row *r = o->first;
        o->first = r->next;
        row_free(r);
    }
}

/* Begins to send a row; values are a list, NULL with END. */
static bool send_row(outbox *o, int word, const cfx_list *values) {
    const int64_t n = values ? values->len : 0;
    if (n > MOST_VALUES) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "%lld values cross from a stage to the next: %d are the most", (long long)n,
                 MOST_VALUES);
        return false;
    }
    row *r = cfx__alloc0(sizeof *r);
    r->parcels = cfx__alloc0((size_t)(n + 2) * sizeof *r->parcels);
    row **last = &o->first;
    while (*last)
        last = &(*last)->next;
    *last = r;
    o->len++;
    cfx_group *g = o->line->group;
    const int64_t began = cfx__stretch_begin(g);
    bool sent = cfx__parcel_send(&r->parcels[r->n++], g, o->to, cfx_int(word)) &&
                (word == END || cfx__parcel_send(&r->parcels[r->n++], g, o->to, cfx_int(n)));
    for (int64_t i = 0; sent && i < n; i++)
        sent = cfx__parcel_send(&r->parcels[r->n++], g, o->to, values->items[i]);
    sent = sent && outbox_clear(o, 2);
    cfx__stretch_end(g, CFX__STRETCH_TALK, began);
    return sent;
}

/* A row that is being received: its word is asked for ahead. */
typedef struct {
    cfx_group *group;
    int from;
    bool asked;
    cfx__parcel word;
} inbox;

static bool ask(inbox *b) {
    if (!b->asked)
        b->asked = cfx__parcel_recv(&b->word, b->group, b->from);
    return b->asked;
}

/* Whether the word of the next row is there; 1, 0, or -1. */
static int is_there(inbox *b, bool wait, int *word) {
    cfx_value v = cfx_none();
    const int64_t began = cfx__stretch_begin(b->group);
    const int done = ask(b) ? cfx__parcel_poll(&b->word, wait, &v) : -1;
    cfx__stretch_end(b->group, CFX__STRETCH_WAIT, began);
    if (done != 1)
        return done;
    cfx__parcel_end(&b->word);
    b->asked = false;
    *word = v.tag == CFX_TAG_INT ? (int)cfx_integer(v) : 0;
    if (*word >= MORE && *word <= END)
        return 1;
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "rank %d on %s sent no batch where one was due",
             b->from, cfx_group_node(b->group, b->from));
    return -1;
}

/* The values of a row whose word has come, as a list of the scope; bad, with an error. */
static cfx_value recv_values(inbox *b) {
    const int64_t began = cfx__stretch_begin(b->group);
    const cfx_value count = cfx_group_recv(b->group, b->from);
    const int64_t n = count.tag == CFX_TAG_INT ? cfx_integer(count) : -1;
    if (cfx_ok() && (n < 0 || n > MOST_VALUES))
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "rank %d on %s announced %lld values", b->from,
                 cfx_group_node(b->group, b->from), (long long)n);
    cfx_value values = cfx_list_value(0, NULL);
    for (int64_t i = 0; cfx_ok() && i < n; i++)
        cfx_list_append(cfx_as_list(values), cfx_group_recv(b->group, b->from));
    cfx__stretch_end(b->group, CFX__STRETCH_TALK, began);
    return cfx_ok() ? values : cfx_bad();
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* What this rank's stage makes of values, flat; bad, with an error that names the rank. */
static cfx_value work(cfx_pipeline *l, int word, cfx_value values) {
    if (word == FRESH)
        cfx_session_reset(l->session);
    const cfx_list *in = cfx_as_list(values);
    const int64_t began = cfx__stretch_begin(l->group);
    cfx_value out = cfx_session_run_from((cfx_site){0}, l->session, l->stage,
                                         (cfx_args){(int)in->len, in->items, NULL});
    cfx__stretch_end(l->group, CFX__STRETCH_WORK, began);
    if (cfx_is_bad(out) || !cfx_ok()) {
        const int rank = cfx_group_rank(l->group);
        cfx_error_note("In stage %d of %d, on %s", rank, cfx_group_size(l->group),
                       cfx_group_node(l->group, rank));
        return cfx_bad();
    }
    cfx_value flat = cfx_list_value(0, NULL);
    cfx_tree_flatten(out, cfx_as_list(flat));
    return flat;
}

/* Ranks behind the first: from the one before to the one after, the last to rank 0. */
static bool serve(cfx_pipeline *l) {
    const int rank = cfx_group_rank(l->group), size = cfx_group_size(l->group);
    inbox in = {.group = l->group, .from = rank - 1};
    outbox out = {.line = l, .to = (rank + 1) % size};
    bool going = true;
    while (going && cfx_ok()) CFX_SCOPE {
        int word = 0;
        if (is_there(&in, true, &word) != 1)
            going = false;
        else if (word == END)
            going = false, send_row(&out, END, NULL);
        else {
            cfx_value values = recv_values(&in);
            if (cfx_ok() && ask(&in)) {
                cfx_value made = work(l, word, values);
                going = !cfx_is_bad(made) && send_row(&out, word, cfx_as_list(made));
            }
        }
    }
    bool well = cfx_ok() && outbox_clear(&out, 0);
    outbox_drop(&out);
    if (in.asked)
        cfx__parcel_end(&in.word);
    return well;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

typedef struct {
    cfx_pipeline *line;
    inbox in;
    outbox out;
    cfx_take_result_fn *take;
    void *user;
    int64_t on_way; /* batches whose results have not come */
} feeder;

static bool give(feeder *f, cfx_value flat) {
    const cfx_value spec = f->line->out_spec;
    cfx_value result = cfx_is_none(spec) ? cfx_tuple_value(cfx_as_list(flat)->len,
                                                           cfx_as_list(flat)->items)
                                         : cfx_tree_unflatten(spec, cfx_as_list(flat));
    return cfx_ok() && (!f->take || f->take(result, f->user)) && cfx_ok();
}

/* Takes results that have come; waits for the oldest while more than `most` batches are on their
 * way. */
static bool collect(feeder *f, int64_t most) {
    bool well = true;
    while (well && f->on_way > 0) {
        int word = 0;
        const int there = is_there(&f->in, f->on_way > most, &word);
        if (there < 1)
            return there == 0;
        CFX_SCOPE {
            cfx_value values = word == END ? cfx_bad() : recv_values(&f->in);
            if (word == END && cfx_ok())
                cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "rank %d ended the run early",
                         f->in.from);
            f->on_way--;
            well = cfx_ok() && give(f, values);
        }
    }
    return well;
}

/* One batch through the first stage, and on. */
static bool feed_batch(feeder *f, cfx_value args) {
    cfx_pipeline *l = f->line;
    const int word = l->fresh ? FRESH : MORE;
    l->fresh = false;
    cfx_value made = work(l, word, args);
    if (cfx_is_bad(made))
        return false;
    if (cfx_group_size(l->group) == 1)
        return give(f, made);
    f->on_way++;
    return send_row(&f->out, word, cfx_as_list(made));
}

static bool feed(feeder *f, cfx_next_batch_fn *next) {
    bool going = true;
    while (going && cfx_ok()) CFX_SCOPE {
        if (!collect(f, f->line->depth - 1)) {
            going = false;
        } else {
            cfx_value args = next ? next(f->user) : cfx_none();
            if (args.tag == CFX_TAG_LIST || args.tag == CFX_TAG_TUPLE)
                going = feed_batch(f, args);
            else
                going = false;
            if (!going && cfx_ok() && !cfx_is_none(args) && args.tag != CFX_TAG_LIST &&
                args.tag != CFX_TAG_TUPLE)
                cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
                         "the arguments of a batch are a list or a tuple, not %s",
                         cfx_value_type_name(args));
        }
    }
    return cfx_ok() && collect(f, 0);
}

/* The end goes round: every rank has done its work when it comes back. */
static bool end(feeder *f) {
    int word = 0;
    if (cfx_group_size(f->line->group) == 1)
        return true;
    return send_row(&f->out, END, NULL) && outbox_clear(&f->out, 0) &&
           is_there(&f->in, true, &word) == 1 && word == END;
}

bool cfx_pipeline_run(cfx_pipeline *l, cfx_next_batch_fn *next, cfx_take_result_fn *take,
                      void *user) {
    if (!l || !cfx_ok())
        return false;
    const int size = cfx_group_size(l->group);
    if (cfx_group_rank(l->group))
        return serve(l);
    feeder f = {.line = l, .in = {.group = l->group, .from = size - 1},
                .out = {.line = l, .to = 1 % size}, .take = take, .user = user};
    bool well = feed(&f, next) && end(&f);
    outbox_drop(&f.out);
    if (f.in.asked)
        cfx__parcel_end(&f.in.word);
    if (!well && cfx_ok())
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the run was ended by who takes its results");
    return well;
}
