/* The hunt for the node that makes NaNs or infinities. Masks of -inf and logarithms of zero are
 * healthy where nothing of them reaches a result, so every value that is not finite is noted, and
 * at the end the way back from the results is gone through values that are odd in the same way:
 * NaNs where a result has some, else infinities. */
#include "hunt.h"

#include <string.h>

void cli_hunt_start(cli_hunt *h) { h->by_name = cfx_dict_new(); }

static void count(cfx_value v, int64_t *nans, int64_t *infs) {
    if (v.tag == CFX_TAG_TENSOR) {
        cfx_stats s = {0};
        cfx_stats_add(&s, cfx_as_tensor(v));
        *nans += s.nans;
        *infs += s.infs;
    }
    for (int64_t i = 0;
         (v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_LIST) && i < cfx_as_list(v)->len; i++)
        count(cfx_as_list(v)->items[i], nans, infs);
}

static int find(const cli_hunt *h, const char *path, const cfx_node *n) {
    cfx_value at = cfx_dict_get(h->by_name, cfx__text_format("%s%s", path, n->name));
    return at.tag == CFX_TAG_INT ? (int)cfx_integer(at) : -1;
}

static void put_origin(cfx__text *t, const cfx_node *n) {
    if (*cli_module_of(n))
        cfx__text_showf(t, "  module  %s\n", cli_module_of(n));
    const char *source = cfx_text(cfx_node_get_meta(n, "source"));
    const char *trace = cfx_text(cfx_node_get_meta(n, "stack_trace"));
    if (source || trace)
        cfx__text_showf(t, "  source  %s\n", source ? source : trace);
}

/* What is said of a node that makes them; it lives as long as the hunt's dict. */
static const char *report_of(cli_hunt *h, const cli_odd *o, const cfx_node *n, cli_input_fn *input,
                             const void *user) {
    cfx__text t = {0};
    cfx__text_showf(&t, "%s makes %lld numbers that are not finite%s\n  call    %s\n", o->name,
                    (long long)(o->nans + o->infs),
                    n->op == CFX_PLACEHOLDER ? ", an input"
                    : o->makes_inf           ? " of finite ones"
                                             : " of infinite ones",
                    cfx_node_format(n));
    cfx_each_input(n, u) {
        cfx_value in = input(user, u->node);
        cfx__text_showf(&t, "  input   %s: %s  %s\n", u->node->name, cli_brief(in),
                        in.tag == CFX_TAG_TENSOR ? cli_stats_text(cfx_as_tensor(in)) : "");
    }
    put_origin(&t, n);
    cfx_value text = cfx_string_value(cfx__text_take(&t));
    cfx_dict_put(h->by_name, cfx_int((int64_t)h->odd.len), text);
    return cfx_text(text);
}

/* The name as the dict keeps it. */
static const char *note_name(cli_hunt *h, const char *name) {
    cfx_dict_set(h->by_name, name, cfx_int((int64_t)h->odd.len));
    return cfx_text(h->by_name->entries[h->by_name->len - 1].key);
}

void cli_hunt_see(cli_hunt *h, const char *path, const cfx_node *n, cfx_value v,
                  cli_input_fn *input, const void *user) {
    cli_odd o = {.makes_nan = true, .makes_inf = true, .first = (int)h->links.len};
    if (n->op == CFX_OUTPUT && *path)
        return;
    if (n->op == CFX_OUTPUT) {
        cfx_each_input(n, u) if (find(h, path, u->node) >= 0)
            VEC_PUSH(h->results, find(h, path, u->node));
        return;
    }
    count(v, &o.nans, &o.infs);
    if (!o.nans && !o.infs)
        return;
    cfx_each_input(n, u) {
        const int in = find(h, path, u->node);
        if (in < 0)
            continue;
        o.makes_nan &= !h->odd.data[in].nans;
        o.makes_inf = false;
        o.n++;
        VEC_PUSH(h->links, in);
    }
    if (n->op == CFX_PLACEHOLDER && *path) /* an operand of the node that runs the sub-graph */
        o.makes_nan = o.makes_inf = false;
    o.makes_nan &= o.nans > 0;
    o.makes_inf &= o.infs > 0 || o.nans > 0;
    o.name = note_name(h, cfx__text_format("%s%s", path, n->name));
    if (o.makes_nan || o.makes_inf)
        o.report = report_of(h, &o, n, input, user);
    VEC_PUSH(h->odd, o);
}

/* Marks what an odd value comes of, and all that is odd inside the node that it is of. */
static void mark(const cli_hunt *h, int from, bool nan, bool *reached) {
    VEC(int) open = {0};
    VEC_PUSH(open, from);
    while (open.len) {
        const int at = open.data[--open.len];
        const cli_odd *o = &h->odd.data[at];
        if (reached[at] || (nan && !o->nans))
            continue;
        reached[at] = true;
        for (int i = 0; i < o->n; i++)
            VEC_PUSH(open, h->links.data[o->first + i]);
        const size_t len = strlen(o->name);
        for (int i = 0; i < at; i++)
            if (!strncmp(h->odd.data[i].name, o->name, len) &&
                (h->odd.data[i].name[len] == '.' || h->odd.data[i].name[len] == '@'))
                VEC_PUSH(open, i);
    }
    VEC_FREE(open);
}

static const cli_odd *culprit(const cli_hunt *h) {
    bool nan = false;
    for (size_t i = 0; i < h->results.len; i++)
        nan |= h->odd.data[h->results.data[i]].nans > 0;
    bool *reached = cfx__alloc0(h->odd.len + 1);
    for (size_t i = 0; i < h->results.len; i++)
        mark(h, h->results.data[i], nan, reached);
    const cli_odd *found = NULL;
    for (size_t i = 0; i < h->odd.len && !found; i++) {
        const cli_odd *o = &h->odd.data[i];
        if (reached[i] && (nan ? o->makes_nan : o->makes_inf))
            found = o;
    }
    cfx__free(reached);
    return found;
}

bool cli_hunt_end(cli_hunt *h) {
    const cli_odd *found = culprit(h);
    const char *first = NULL;
    for (size_t i = h->odd.len; i-- > 0;)
        first = h->odd.data[i].report ? h->odd.data[i].name : first;
    if (found && !cli_answers())
        fputs(found->report, stdout);
    else if (first && !found)
        cli_print("all results are finite; %s makes numbers that are not, which reach none\n",
                  first);
    else if (!found)
        cli_print("all values are finite\n");
    cli_answer("finite", cfx_bool(!found));
    cli_answer("culprit", found ? cfx_string_value(found->name) : cfx_none());
    cli_answer("report", found ? cfx_string_value(found->report) : cfx_none());
    VEC_FREE(h->odd);
    VEC_FREE(h->links);
    VEC_FREE(h->results);
    return found != NULL;
}
