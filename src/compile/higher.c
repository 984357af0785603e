/* Control flow: each sub-graph is a plan, written inline where it is called, with its arena
 * behind that of the caller. cond becomes an if, while_loop and scan become loops. Start at
 * cfx__c_higher. */
#include "compile.h"

typedef struct {
    cfx__c_unit *u;
    cfx__c *c;
    const cfx__plan_kernel *k;
    const cfx_list *args;
} call;

typedef struct {
    int n;
    cfx_value given[CFX_MAX_ARGS];
    cfx_value known[CFX_MAX_ARGS];      /* constants among them; else bad */
    const cfx__c_ref *of[CFX_MAX_ARGS]; /* where they lie; NULL: they are known */
} operands;

/* ---- arguments ------------------------------------------------------------------------------- */

static cfx_module *graph_at(const call *h, int i) {
    const cfx_value v = i < h->args->len ? cfx__c_known(h->u, h->args->items[i]) : cfx_none();
    return v.tag == CFX_TAG_MODULE ? cfx_as_module(v) : NULL;
}

/* Adds a value; false where it is no tensor and not known. */
static bool add_operand(const call *h, operands *o, cfx_value v) {
    if (o->n == CFX_MAX_ARGS)
        return false;
    const int i = o->n++;
    o->given[i] = v;
    o->known[i] = cfx__c_known(h->u, v);
    o->of[i] = cfx_is_bad(o->known[i]) ? cfx__c_arg(h->u, v) : NULL;
    return o->of[i] || !cfx_is_bad(o->known[i]);
}

/* The first n operands change from round to round: where they lie at first, constants among the
 * weights; false where one is no tensor. */
static bool vary(const call *h, operands *o, int n) {
    for (int i = 0; i < n; i++) {
        if (!o->of[i])
            o->of[i] = cfx__c_arg(h->u, o->given[i]);
        o->known[i] = cfx_bad();
        if (!o->of[i])
            return false;
    }
    return true;
}

static bool add_list(const call *h, operands *o, int i) {
    const cfx_value v = i < h->args->len ? h->args->items[i] : cfx_none();
    if (v.tag == CFX_TAG_NONE)
        return true;
    if (v.tag != CFX_TAG_LIST && v.tag != CFX_TAG_TUPLE)
        return false;
    for (int64_t k = 0; k < cfx_as_list(v)->len; k++)
        if (!add_operand(h, o, cfx_as_list(v)->items[k]))
            return false;
    return true;
}

/* ---- sub-graphs ------------------------------------------------------------------------------ */

static void refuse(const call *h, const char *why) {
    cfx__c_refuse(h->u, "%s %s", cfx__plan_kernel_name(h->u->plan, h->k), why);
}

/* What a sub-graph is planned on: what is known of an operand, so that its weights are packed as
 * others are, else its sizes. */
static cfx_value planned_on(const operands *o, int i) {
    if (!cfx_is_bad(o->known[i]))
        return o->known[i];
    return cfx_tensor_value(
        cfx_tensor_fake(o->of[i]->dtype, o->of[i]->ndim, o->of[i]->shape, o->of[i]->stride));
}

/* Writes the kernels of a sub-graph on such operands; where its results are, up to `most`: where
 * `wanted` says, NULL: anywhere, if they can be made there. The number of them; -1 where it cannot
 * be written. */
static int put_graph(const call *h, cfx_module *m, const operands *o,
                     const cfx__c_ref *const *wanted, const cfx__c_ref **results, int most) {
    cfx_value in[CFX_MAX_ARGS];
    bool constant[CFX_MAX_ARGS];
    for (int i = 0; i < o->n; i++) {
        in[i] = planned_on(o, i);
        constant[i] = o->known[i].tag == CFX_TAG_TENSOR;
    }
    const cfx_execution e = {.at = {0},
                             .module = m,
                             .graph = m ? m->graph : NULL,
                             .inputs = {o->n, in, NULL},
                             .constant = constant};
    cfx__plan *plan = m && m->graph ? cfx__plan_make(&cfx__plan_c, &e) : NULL;
    if (!plan) {
        cfx__error_forgive();
        refuse(h, "has a sub-graph without a plan");
        return -1;
    }
    cfx__c *c = h->c;
    VEC_PUSH(c->plans, plan); /* its constants are weights until all is written */
    cfx__c_unit sub = {.c = c, .plan = plan};
    sub.refs = cfx__arena_alloc(&c->memory, (size_t)plan->n * sizeof *sub.refs);
    for (int k = 0; k < plan->n; k++)
        if (plan->kernels[k].kind == CFX__PLAN_INPUT && o->of[plan->kernels[k].input])
            sub.refs[k] = (cfx__c_refs){1, (cfx__c_ref *)o->of[plan->kernels[k].input]};
    const cfx_value out = cfx_as_list(plan->kernels[plan->n - 1].step->args)->items[0];
    const bool several = out.tag == CFX_TAG_LIST || out.tag == CFX_TAG_TUPLE;
    const int n = several ? (int)cfx_as_list(out)->len : 1;
    for (int i = 0; i < n && i < most; i++) {
        const cfx_value v = several ? cfx_as_list(out)->items[i] : out;
        if (wanted[i] && v.tag == CFX_TAG_NODE)
            cfx__c_place_at(&sub, (int)v.spare, *wanted[i]);
    }
    cfx__c_unit_begin(&sub);
    cfx__c_place(&sub);
    cfx__c_unit_put(&sub);
    cfx__c_unit_end(&sub);
    for (int i = 0; i < n && i < most; i++) {
        results[i] = cfx__c_arg(&sub, several ? cfx_as_list(out)->items[i] : out);
        if (!results[i]) {
            refuse(h, "has a sub-graph whose result is not a tensor");
            return -1;
        }
    }
    return n <= most ? n : -1;
}

/* ---- the operators --------------------------------------------------------------------------- */

static void put_copy(const call *h, const cfx__c_ref *to, const cfx__c_ref *from,
                     const char *what) {
    cfx__c_line(h->c, "/* %s */", what);
    cfx__c_copy(h->c, to, from);
}

static void put_results(const call *h, const cfx__c_ref *const *from, int n) {
    const cfx__c_refs *to = cfx__c_slot(h->u, h->u->slot);
    for (int i = 0; i < n && i < to->n; i++)
        if (!cfx__c_is_there(&to->refs[i], from[i]))
            put_copy(h, &to->refs[i], from[i], "the result");
}

static void put_branch(const call *h, int graph, const operands *o) {
    const cfx__c_refs *to = cfx__c_slot(h->u, h->u->slot);
    const cfx__c_ref *results[CFX_MAX_ARGS], *wanted[CFX_MAX_ARGS] = {NULL};
    for (int i = 0; i < to->n && i < CFX_MAX_ARGS; i++)
        wanted[i] = &to->refs[i];
    put_results(h, results, put_graph(h, graph_at(h, graph), o, wanted, results, CFX_MAX_ARGS));
}

/* cond(pred, true, false, operands) */
static void put_cond(const call *h) {
    operands o = {0};
    const cfx_value pred = h->args->items[0], known = cfx__c_known(h->u, pred);
    const cfx__c_ref *on = cfx__c_arg(h->u, pred);
    if (!add_list(h, &o, 3)) {
        refuse(h, "has an operand that is not a tensor");
    } else if (!cfx_is_bad(known) && cfx_is_number(known)) {
        put_branch(h, cfx_number(known) != 0 ? 1 : 2, &o);
    } else if (!on) {
        refuse(h, "has a condition that is not a tensor");
    } else {
        cfx__c_pointer(h->c, on, "condition", false);
        cfx__c_open(h->c, "if (condition[0] != 0)");
        put_branch(h, 1, &o);
        h->c->indent--;
        cfx__c_line(h->c, "} else {");
        h->c->indent++;
        put_branch(h, 2, &o);
        cfx__c_close(h->c);
    }
}

/* What is carried round by round lies in the results; a value that the next round would change
 * before it is copied goes through memory of its own. */
static void put_carried(const call *h, const cfx__c_refs *to, const cfx__c_ref **from, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (i != k && from[i]->where == to->refs[k].where &&
                from[i]->number == to->refs[k].number && from[i]->base == to->refs[k].base) {
                from[i] = cfx__c_own(h->u, from[i], CFX_CONTIGUOUS, true);
                break;
            }
    for (int i = 0; i < n; i++)
        if (!cfx__c_is_there(from[i], &to->refs[i]))
            put_copy(h, &to->refs[i], from[i], "for the next round");
}

/* while_loop(cond, body, carried, rest) */
static void put_while(const call *h) {
    const cfx__c_refs *to = cfx__c_slot(h->u, h->u->slot);
    const cfx__c_ref *results[CFX_MAX_ARGS], *const anywhere[CFX_MAX_ARGS] = {NULL};
    operands o = {0};
    if (!add_list(h, &o, 2) || o.n != to->n || !vary(h, &o, o.n)) {
        refuse(h, "carries a value that is not a tensor");
        return;
    }
    for (int i = 0; i < o.n; i++) {
        put_copy(h, &to->refs[i], o.of[i], "what the first round begins with");
        o.of[i] = &to->refs[i];
    }
    if (!add_list(h, &o, 3)) {
        refuse(h, "has an operand that is not a tensor");
        return;
    }
    cfx__c_open(h->c, "for (;;)");
    if (put_graph(h, graph_at(h, 0), &o, anywhere, results, 1) == 1) {
        cfx__c_block(h->c);
        cfx__c_pointer(h->c, results[0], "goes_on", false);
        cfx__c_line(h->c, "if (goes_on[0] == 0)");
        cfx__c_line(h->c, "    break;");
        cfx__c_close(h->c);
        if (put_graph(h, graph_at(h, 1), &o, anywhere, results, CFX_MAX_ARGS) == to->n)
            put_carried(h, to, results, to->n);
        else
            refuse(h, "returns another number of values than it carries");
    }
    cfx__c_close(h->c);
}

/* Row number `round` of a tensor. */
static cfx__c_ref *row_of(const call *h, const cfx__c_ref *x, const char *round) {
    cfx__c_ref *r = cfx__c_ref_like(h->c, x, x->ndim - 1, x->shape + 1, x->stride + 1);
    r->moves = cfx__text_format("%s * %lld", round, (long long)x->stride[0]);
    return r;
}

/* scan(f, init, xs, rest): f gives the next carry and a row of results; map(f, xs, rest) carries
 * nothing. */
static void put_scan(const call *h, bool maps) {
    const cfx__c_refs *to = cfx__c_slot(h->u, h->u->slot);
    const cfx__c_ref *results[CFX_MAX_ARGS], *wanted[CFX_MAX_ARGS] = {NULL};
    const char *round = cfx__text_format("round%d", h->u->slot);
    operands o = {0};
    int ncarried = 0;
    bool fine = maps || add_list(h, &o, 1);
    ncarried = o.n;
    fine = fine && add_list(h, &o, maps ? 1 : 2) && o.n > ncarried && vary(h, &o, o.n);
    for (int i = ncarried; fine && i < o.n; i++)
        fine = o.of[i]->ndim > 0;
    const int nrows = o.n;
    if (!fine || !add_list(h, &o, maps ? 2 : 3)) {
        refuse(h, "has an operand that is not a tensor");
        return;
    }
    const int64_t rounds = o.of[ncarried]->shape[0];
    for (int i = 0; i < ncarried; i++)
        put_copy(h, &to->refs[i], o.of[i], "what the first round begins with");
    cfx__c_open(h->c, "for (int64_t %s = 0; %s < %lld; %s++)", round, round, (long long)rounds,
                round);
    for (int i = 0; i < nrows; i++)
        o.of[i] = i < ncarried ? &to->refs[i] : row_of(h, o.of[i], round);
    for (int i = ncarried; i < to->n && i < CFX_MAX_ARGS; i++)
        wanted[i] = row_of(h, &to->refs[i], round);
    const int n = put_graph(h, graph_at(h, 0), &o, wanted, results, CFX_MAX_ARGS);
    if (n == to->n) {
        for (int i = ncarried; i < n; i++)
            if (!cfx__c_is_there(results[i], wanted[i]))
                put_copy(h, wanted[i], results[i], "the result of this round");
        put_carried(h, to, results, ncarried);
    } else if (n >= 0) {
        refuse(h, "returns the wrong number of values");
    }
    cfx__c_close(h->c);
}

/* A graph on the arguments from number `from` on. */
static void put_region(const call *h, int graph, int from) {
    operands o = {0};
    for (int64_t i = from; i < h->args->len; i++)
        if (!add_operand(h, &o, h->args->items[i])) {
            refuse(h, "has an operand that is not a tensor");
            return;
        }
    put_branch(h, graph, &o);
}

void cfx__c_higher(cfx__c_unit *u, const cfx__plan_kernel *k) {
    const call h = {u, u->c, k, cfx_as_list(k->step->args)};
    const char *name = cfx__higher_order(k->step->node->target.name);
    if (!strcmp(name, "cond"))
        put_cond(&h);
    else if (!strcmp(name, "while_loop"))
        put_while(&h);
    else if (!strcmp(name, "scan") && h.args->len <= 4)
        put_scan(&h, false);
    else if (!strcmp(name, "map_impl"))
        put_scan(&h, true);
    else if (!strcmp(name, "invoke_subgraph"))
        put_region(&h, 0, 2);
    else if (!strcmp(name, "wrap") || !strcmp(name, "tag_activation_checkpoint"))
        put_region(&h, 0, 1);
    else if (!strcmp(name, "wrap_with_set_grad_enabled"))
        put_region(&h, 1, 2);
    else
        refuse(&h, "has no form in C");
}
