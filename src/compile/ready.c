/* Prepares programs for C: replaces foreign operators by ATen, functionalises in-place writes,
 * and decomposes operators without a form in C. */
#include <cfx/ops.h>
#include <cfx/pass.h>
#include <cfx/rewrite.h>

#include "compile.h"

/* Whether calls of an operator can be kernels: steps of loops, looks into memory, calls that have a
 * form. Everything else is taken apart where its row says how. */
static bool is_written(const cfx_op *op) {
    return op->effects & CFX_LOOPS || op->view || cfx__c_call_known(op);
}

cfx_op_fn *cfx__c_made_of(const cfx_op *op) {
    cfx_op_fn *fn = cfx__c_parts_of(op);
    return fn ? fn : op->core ? op->core : op->decompose; /* nothing in place is in `core` */
}

typedef VEC(const cfx_op *) operators;

/* What is found in a program. */
typedef struct {
    const cfx_program *p;
    bool integers; /* what is around layers in integers stays, and how their weights come about */
    bool any;      /* there is something to do */
    operators declined; /* with a node that their form does not take */
    operators folded;   /* with a node that is a constant */
    operators varying;  /* with one that is none */
    cfx__map constants; /* nodes by name */
} findings;

bool cfx__c_rounds(cfx_op *op) { return !strncmp(cfx_op_name(op), "quantized_decomposed.", 21); }

static bool is_among(const operators *of, const cfx_op *op) {
    for (size_t i = 0; i < of->len; i++)
        if (of->data[i] == op)
            return true;
    return false;
}

static void add(operators *to, const cfx_op *op) {
    if (!is_among(to, op))
        VEC_PUSH(*to, op);
}

/* Whether a node is the same in every run: a weight, or made of such. */
static bool is_constant(findings *f, const cfx_node *n) {
    if (n->op == CFX_PLACEHOLDER) {
        const cfx_input_spec *s = cfx_program_input(f->p, n);
        return s && s->kind != CFX_IN_USER;
    }
    bool constant = n->op == CFX_CALL_FUNCTION && n->inputs != NULL;
    cfx_each_input(n, u) constant = constant && cfx__map_get(&f->constants, u->node->name);
    return constant;
}

/* Whether calls of an operator become what they are made of. */
static bool is_taken_apart(const findings *f, const cfx_op *op) {
    const bool stays = f->integers && (cfx__c_rounds((cfx_op *)op) ||
                                       (is_among(&f->folded, op) && !is_among(&f->varying, op)));
    const bool declined = is_among(&f->declined, op);
    return (!is_written(op) || declined) && cfx__c_made_of(op) && !stays;
}

/* Whether nothing but the generator knows that a node was run. */
static bool is_dead(const cfx_node *n) {
    cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
    return op && op->effects & (CFX_RANDOM | CFX_POINTWISE) && !cfx__op_info_of(op)->writes &&
           !cfx_len(cfx_node_users(n));
}

static void look(const char *path, cfx_module *m, void *user) {
    (void)path;
    findings *f = user;
    for (const cfx_node *n = m->graph ? cfx_graph_first(m->graph) : NULL; n;
         n = cfx_node_after(n)) {
        cfx_op *op = n->op == CFX_CALL_FUNCTION ? n->target.op : NULL;
        const cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
        const bool constant = m == f->p->module && is_constant(f, n);
        if (constant)
            cfx__map_set(&f->constants, n->name, (void *)n);
        if (op)
            add(constant ? &f->folded : &f->varying, op);
        if (op && !cfx__c_takes(f->p, n))
            add(&f->declined, op);
        const bool declined = op && is_among(&f->declined, op);
        f->any |= info &&
                  (info->writes || info->form != CFX__FUNCTIONAL || info->family == CFX__OP_CHECK ||
                   is_dead(n) || ((!is_written(op) || declined) && cfx__c_made_of(op)));
    }
}

/* Sizes from 2 on: strides of dims of size 1 differ from all others, and what is written for those
 * is right for them too. */
static void leave_ones(cfx_program *p) {
    cfx_dict *ranges = cfx_dict_new();
    for (int64_t i = 0; i < p->ranges->len; i++) {
        const cfx_value range = p->ranges->entries[i].value;
        const cfx_value low = range.tag == CFX_TAG_TUPLE ? cfx_at(range, 0) : cfx_none();
        const cfx_value high = range.tag == CFX_TAG_TUPLE ? cfx_at(range, 1) : cfx_none();
        const bool ones = range.tag == CFX_TAG_TUPLE &&
                          (low.tag != CFX_TAG_INT || cfx_integer(low) < 2) &&
                          (high.tag != CFX_TAG_INT || cfx_integer(high) > 2);
        cfx_dict_put(ranges, p->ranges->entries[i].key, ones ? cfx_tuple(cfx_int(2), high) : range);
    }
    cfx_drop(p->ranges);
    p->ranges = cfx_keep(ranges);
}

/* Numbers that are drawn for nobody are left out: no generator is there to tell. */
static void leave_draws(cfx_program *p) {
    cfx_node *n = cfx_graph_last(p->module->graph), *before;
    for (; n; n = before) {
        before = cfx_node_before(n);
        if (is_dead(n))
            cfx_graph_erase(n);
    }
}

/* Without checks and copies that change nothing, and with all that is to be taken apart so. */
static cfx_program *taken_apart(const cfx_program *p, const findings *f) {
    static const char *const passes[] = {"remove_asserts", "remove_noops"};
    cfx_program *copy = cfx_program_copy(p);
    for (int i = 0; i < COUNT(passes) && !cfx_failed(copy); i++)
        cfx_pass_apply(cfx_pass_find(passes[i]), copy, NULL);
    if (!cfx_failed(copy)) {
        leave_draws(copy);
        leave_ones(copy);
    }
    const int n = cfx_op_count();
    cfx_decomposition *rows = cfx__alloc((size_t)n * sizeof *rows);
    int nrows = 0;
    for (int i = 0; i < n; i++) {
        cfx_op *op = cfx_op_at(i);
        if (is_taken_apart(f, op) && !cfx__op_info_of(op)->writes)
            rows[nrows++] = (cfx_decomposition){cfx_op_name(op), cfx__c_made_of(op)};
    }
    cfx_program *out = cfx_decompose_by(
        copy, (cfx_decompose_options){.own = rows, .nown = nrows, .only_own = true});
    cfx__free(rows);
    return out;
}

/* A program without what is found in it, or itself where that is nothing. */
static cfx_program *settled(cfx_program *p, bool integers, bool *any) {
    findings found = {.p = p, .integers = integers};
    cfx_module_walk(p->module, look, &found);
    *any = found.any;
    cfx_program *out = found.any ? taken_apart(p, &found) : p;
    VEC_FREE(found.declined);
    VEC_FREE(found.folded);
    VEC_FREE(found.varying);
    cfx__map_release(&found.constants);
    return out;
}

cfx_program *cfx__c_ready(const cfx_program *p, bool integers) {
    enum { ROUNDS = 3 }; /* what forms do not take may be made of more of that */
    cfx_program *aten = cfx_to_aten(p);
    bool any = true;
    for (int i = 0; i < ROUNDS && any && !cfx_failed(aten); i++)
        aten = settled(aten, integers, &any);
    return aten;
}
