/* Groups: the group of a thread, queries, and the errors for unexpected messages. Start at
 * cfx_group_current; messages are in message.c, collectives in collective.c. */
#include "group.h"

enum { SLICE = 20000 }; /* microseconds that are waited before limits are looked at again */

/* ---- the group of a thread ------------------------------------------------------------------- */

static _Thread_local cfx_group *current; /* borrowed, and not the context's to free */

cfx_group *cfx_group_current(void) { return current; }

cfx_group *cfx_set_group(cfx_group *g) {
    cfx_group *before = current;
    current = g;
    return before;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void group_free(void *obj) {
    cfx_group *g = obj;
    cfx__free(g->sent);
    cfx_drop(g->room);
    cfx_drop(g->held);
    cfx__free(g->taken);
    cfx__free(g->read);
    cfx__free(g->read_ahead);
    cfx__free(g->given_back);
    cfx__free(g->mail.written);
}

static const cfx__obj_type group_type = {.name = "group", .free = group_free};

cfx_group *cfx__group_new(cfx__transport *t) {
    cfx_group *g = cfx__obj_make(&group_type, sizeof(cfx_group));
    g->transport = t;
    g->sent = cfx__alloc0((size_t)t->size * sizeof *g->sent);
    g->taken = cfx__alloc0((size_t)t->size * sizeof *g->taken);
    g->read = cfx__alloc0((size_t)t->size * sizeof *g->read);
    g->read_ahead = cfx__alloc0((size_t)t->size * sizeof *g->read_ahead);
    g->given_back = cfx__alloc0((size_t)t->size * sizeof *g->given_back);
    g->mail.written = cfx__alloc0((size_t)t->size * sizeof *g->mail.written);
    return g;
}

int cfx_group_rank(const cfx_group *g) { return g ? g->transport->rank : 0; }

int cfx_group_size(const cfx_group *g) { return g ? g->transport->size : 1; }

const char *cfx_group_node(const cfx_group *g, int rank) {
    return g && rank >= 0 && rank < g->transport->size ? g->transport->node(g->transport, rank)
                                                       : "";
}

void cfx__group_watch(cfx_group *g, cfx__stretch_fn *fn, void *user) {
    if (g) {
        g->watch = fn;
        g->watcher = user;
    }
}

int64_t cfx__stretch_begin(const cfx_group *g) { return g && g->watch ? cfx__clock_ns() : 0; }

void cfx__stretch_end(const cfx_group *g, cfx__stretch what, int64_t began) {
    if (began && g->watch)
        g->watch(what, 1e-9 * (double)began, 1e-9 * (double)cfx__clock_ns(), g->watcher);
}

bool cfx__group_fault(cfx_group *g) {
    const char *what = g->transport->fault(g->transport);
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s", what ? what : "a message was lost");
    return false;
}

bool cfx__group_peer(const cfx_group *g, int rank) {
    const int size = cfx_group_size(g);
    if (!g)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no group of ranks");
    else if (rank < 0 || rank >= size || rank == g->transport->rank)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 rank == g->transport->rank ? "rank %d is this rank itself (of %d)"
                                            : "there is no rank %d among %d",
                 rank, size);
    return cfx_ok();
}

bool cfx__group_done(cfx_group *g, void *request, size_t *size) {
    cfx__transport *t = g->transport;
    int done = 0;
    while ((done = t->test(t, request, SLICE, size)) == 0)
        if (!cfx__limit_time())
            break;
    return done == 1 || (done < 0 && cfx__group_fault(g));
}

void cfx__group_cancel(cfx_group *g, int n, void *const *requests, int nmemory,
                       cfx_tensor *const *memory) {
    bool back = true;
    for (int i = 0; i < n; i++)
        if (requests[i])
            back &= g->transport->cancel(g->transport, requests[i]);
    if (back)
        return;
    size_t mark = cfx_scope_open();
    if (!g->held)
        g->held = cfx_keep(cfx_as_list(cfx_list_value(0, NULL)));
    for (int i = 0; i < nmemory; i++)
        if (memory[i])
            cfx_list_append(g->held, cfx_tensor_value(memory[i]));
    cfx_scope_close(mark);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static const char *const kinds[] = {
#define CFX__MESSAGE_TEXT(name, text) text,
    CFX__MESSAGES(CFX__MESSAGE_TEXT)
#undef CFX__MESSAGE_TEXT
};

const char *cfx__head_text(const cfx__head *h) {
    if (h->mark != CFX__HEAD_MARK || h->kind >= CFX__MESSAGE_KINDS || h->dtype >= CFX_DTYPE_COUNT ||
        h->ndim > CFX__HEAD_DIMS)
        return "something that is no message of cfx";
    cfx__text t = {0};
    cfx__text_printf(&t, "%s of %s[", kinds[h->kind], cfx_dtype_name((cfx_dtype)h->dtype));
    for (int i = 0; i < h->ndim; i++)
        cfx__text_printf(&t, i ? ", %lld" : "%lld", (long long)h->shape[i]);
    cfx__text_putc(&t, ']');
    return cfx__text_take(&t);
}

bool cfx__head_fits(const cfx_group *g, int from, const cfx__head *got, const cfx__head *want) {
    bool same = got->mark == want->mark && got->kind == want->kind && got->dtype == want->dtype &&
                got->ndim == want->ndim && got->number == want->number &&
                got->order == want->order && got->bytes == want->bytes;
    for (int i = 0; same && i < want->ndim; i++)
        same = got->shape[i] == want->shape[i];
    if (!same)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "rank %d on %s is at %s (number %llu) where this rank, %d on %s, is at %s (number "
                 "%llu): the ranks do not run the same",
                 from, cfx_group_node(g, from), cfx__head_text(got),
                 (unsigned long long)got->order, cfx_group_rank(g),
                 cfx_group_node(g, cfx_group_rank(g)), cfx__head_text(want),
                 (unsigned long long)want->order);
    return same;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* Everybody's number, by rank; scope. */
static cfx_tensor *gathered(cfx_group *g, uint64_t fact) {
    const int64_t one = 1, size = cfx_group_size(g);
    cfx_tensor *own = cfx_tensor_new(CFX_I64, 1, &one, &fact);
    cfx_tensor *all = cfx_tensor_new(CFX_I64, 1, &size, NULL);
    const bool known = cfx__collective_run(
        g, (cfx_site){0}, (cfx__collective_call){.kind = CFX__MESSAGE_FACTS}, own, all);
    return known ? all : &cfx__tensor_bad;
}

bool cfx_group_wait(cfx_group *g) {
    bool came = true;
    if (g)
        CFX_SCOPE came = !cfx__obj_is_bad(gathered(g, 0));
    return came && cfx_ok();
}

bool cfx_group_agree(cfx_group *g, const char *what, uint64_t fact) {
    if (!g)
        return cfx_ok();
    CFX_SCOPE {
        const cfx_tensor *all = gathered(g, fact);
        const uint64_t *facts = cfx__obj_is_bad(all) ? NULL : (const uint64_t *)all->data;
        for (int r = 1; facts && r < cfx_group_size(g); r++)
            if (facts[r] != facts[0])
                cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                         "rank %d on %s has another %s than rank 0 on %s", r, cfx_group_node(g, r),
                         what ? what : "number", cfx_group_node(g, 0));
    }
    return cfx_ok();
}
