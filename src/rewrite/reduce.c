/* Minimises a failing program: removes sets of nodes, larger and smaller, and passes their
 * values as inputs to the rest; then shrinks sizes. Start at cfx_program_reduce. */
#include "../base/given.h"
#include "../value/walk.h"
#include "split.h"

#include <cfx/ops.h>

typedef struct reducing {
    cfx_program *program;
    cfx_fails_fn *fails;
    void *user;
    cfx_dict *values;   /* name to what the node computed; tensors are copies */
    VEC(cfx_node *) units; /* nodes that may be left out; items of several results go with them */
    bool *chosen;       /* by id */
    cfx_program *best;  /* the smallest so far, kept, and its inputs, counted */
    cfx_value inputs;
} reducing;

/* ---- what nodes computed --------------------------------------------------------------------- */

static cfx_value copy_of(cfx_value v, void *none) {
    (void)none;
    return v.tag == CFX_TAG_TENSOR ? cfx_tensor_value(cfx_clone(v)) : v;
}

static cfx_value copied(cfx_value v) { return cfx__value_map(v, copy_of, NULL); }

static cfx_value record(cfx_interp *it, cfx_node *n) {
    cfx_value v = cfx_interp_run_node(it, n);
    if (!cfx_is_bad(v) && cfx_ok())
        cfx_dict_set(it->user, n->name, copied(v));
    return v;
}

/* Runs the program as far as it goes. */
static void record_values(reducing *r, cfx_value inputs) {
    cfx_interp it = {.module = r->program->module, .run_node = record, .user = r->values};
    cfx_args a = {(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items, NULL};
    cfx_value all = cfx_program_inputs_from((cfx_site){0}, r->program, a);
    if (cfx_is_bad(all))
        return;
    cfx_run_from((cfx_site){0}, &it,
                 (cfx_args){(int)cfx_as_list(all)->len, cfx_as_list(all)->items, NULL});
    cfx_error_clear(); /* a program that fails by an error is one to be reduced */
}

/* ---- a try ----------------------------------------------------------------------------------- */

static bool is_value(cfx_value v) { return v.tag == CFX_TAG_TENSOR || cfx_is_number(v); }

/* What is used outside of the chosen nodes, or by nobody: tensors and numbers. */
static cfx_value results_of(const reducing *r) {
    cfx_value list = cfx_list_value(0, NULL);
    cfx_each_node(r->program->module->graph, n) {
        if (!r->chosen[cfx__node_of(n)->id])
            continue;
        bool outside = !n->num_users;
        cfx_each_user(n, u) outside |= !r->chosen[cfx__node_of(u->user)->id];
        cfx_value v = cfx_dict_get(r->values, n->name);
        cfx_result known = cfx_node_result(n);
        if (outside && (is_value(v) || (cfx_is_none(v) && known.kind == CFX_RESULT_TENSOR)))
            cfx_list_append(cfx_as_list(list), cfx_node_value(n));
    }
    return list;
}

/* Remembers a program that fails. */
static void keep(reducing *r, cfx_program *p, cfx_value inputs) {
    cfx_drop(r->best);
    cfx_value_drop(r->inputs);
    r->best = cfx_keep(p);
    r->inputs = cfx_value_keep(inputs);
}

static bool check(reducing *r, cfx_program *p, cfx_value inputs) {
    bool fails = cfx_ok() && !cfx_failed(p) && r->fails(p, inputs, r->user);
    cfx_error_clear();
    if (fails)
        keep(r, p, inputs);
    return fails;
}

/* Whether the chosen nodes alone fail. */
static bool try_chosen(reducing *r) {
    size_t mark = cfx_scope_open();
    cfx_dict *outside = cfx_dict_new();
    cfx_value results = results_of(r), inputs = cfx_list_value(0, NULL);
    cfx_program *p = cfx_as_list(results)->len
                         ? cfx__extract_set(r->program, r->chosen, results, outside)
                         : NULL;
    bool fine = p != NULL;
    for (int64_t i = 0; fine && i < outside->len; i++) {
        cfx_value v = cfx_dict_get(r->values, cfx_as_node(outside->entries[i].key)->name);
        fine = is_value(v);
        cfx_list_append(cfx_as_list(inputs), copied(v));
    }
    fine = fine && check(r, p, inputs);
    cfx_error_clear();
    cfx_scope_close(mark);
    return fine;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void set_unit(reducing *r, cfx_node *n, bool chosen) {
    r->chosen[cfx__node_of(n)->id] = chosen;
    cfx_each_user(n, u) if (cfx_node_takes_result(u->user))
        r->chosen[cfx__node_of(u->user)->id] = chosen;
}

static void find_units(reducing *r) {
    cfx_each_node(r->program->module->graph, n) {
        bool call = n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
        bool follows = cfx_node_takes_result(n) && n->inputs->node->op != CFX_PLACEHOLDER;
        if (call && !follows)
            VEC_PUSH(r->units, n);
    }
    for (size_t i = 0; i < r->units.len; i++)
        set_unit(r, r->units.data[i], true);
}

/* Leaves out units from `first` on; keeps it so where the rest still fails. */
static bool leave_out(reducing *r, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        set_unit(r, r->units.data[i], false);
    if (n < r->units.len && try_chosen(r)) {
        memmove(r->units.data + first, r->units.data + first + n,
                (r->units.len - first - n) * sizeof *r->units.data);
        r->units.len -= n;
        return true;
    }
    for (size_t i = first; i < first + n; i++)
        set_unit(r, r->units.data[i], true);
    return false;
}

/* Delta debugging: halves, quarters and so on, until no single node can be left out. */
static void reduce_nodes(reducing *r) {
    for (size_t size = (r->units.len + 1) / 2; size;) {
        bool any = false;
        for (size_t end = r->units.len; end;) { /* from the back: what comes last depends on most */
            size_t first = end > size ? end - size : 0;
            any |= leave_out(r, first, end - first);
            end = first < r->units.len ? first : r->units.len;
        }
        if (!any || size > r->units.len)
            size = size == 1 ? 0 : (size + 1) / 2;
    }
}

/* ---- two ways to run ------------------------------------------------------------------------- */

/* Copies of the results of a program by an executor, flattened; bad where it gives an error. */
static cfx_value run_by(cfx_program *p, const cfx_executor *x, cfx_value inputs) {
    cfx_value given = copied(inputs), leaves = cfx_list_value(0, NULL);
    cfx_args a = {(int)cfx_as_list(given)->len, cfx_as_list(given)->items, NULL};
    cfx_manual_seed(0);
    cfx_value v = cfx_program_run_with((cfx_site){0}, p, x, NULL, a);
    if (cfx_is_bad(v) || !cfx_ok())
        return cfx_bad();
    cfx_tree_flatten(copied(v), cfx_as_list(leaves));
    return leaves;
}

/* The largest difference of two tensors, as a share of the largest value; infinite where one has a
 * nan that the other has not. */
static double difference(cfx_value a, cfx_value b) {
    cfx_tensor *x = cfx_to(a, cfx_f64), *y = cfx_to(b, cfx_f64);
    cfx_tensor *same = cfx_logical_or(cfx_eq(x, y), cfx_logical_and(cfx_isnan(x), cfx_isnan(y)));
    cfx_tensor *apart = cfx_where(same, 0.0, cfx_abs(cfx_sub(x, y)));
    double most = x->numel ? cfx__tensor_number(cfx_max(apart), 0) : 0;
    double scale = x->numel ? cfx__tensor_number(cfx_max(cfx_nan_to_num(cfx_abs(y))), 0) : 0;
    return most != most ? __builtin_inf() : most / (scale > 1e-6 ? scale : 1e-6);
}

bool cfx_executors_differ(cfx_program *p, cfx_value inputs, void *user) {
    (void)user;
    size_t mark = cfx_scope_open();
    cfx_value want = run_by(p, &cfx_interpreter, inputs), got = run_by(p, NULL, inputs);
    bool differ =
        cfx_is_bad(want) || cfx_is_bad(got) || cfx_as_list(want)->len != cfx_as_list(got)->len;
    for (int64_t i = 0; !differ && i < cfx_as_list(want)->len; i++) {
        cfx_value a = cfx_as_list(got)->items[i], b = cfx_as_list(want)->items[i];
        if (a.tag != CFX_TAG_TENSOR || b.tag != CFX_TAG_TENSOR)
            differ = a.tag != b.tag || !cfx_equal_values(a, b);
        else if (cfx_as_tensor(a)->dtype != cfx_as_tensor(b)->dtype ||
                 cfx_as_tensor(a)->numel != cfx_as_tensor(b)->numel)
            differ = true;
        else
            differ = difference(a, b) > (cfx_dtype_size(cfx_as_tensor(b)->dtype) < 4 ? 1e-2 : 1e-4);
    }
    cfx_error_clear();
    cfx_scope_close(mark);
    return differ;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The program with every size `from` of the caller's inputs made `to`, and such inputs. */
static bool try_size(reducing *r, int64_t from, int64_t to) {
    size_t mark = cfx_scope_open();
    cfx_program *p = cfx_program_copy(r->best);
    cfx_value inputs = cfx_list_value(0, NULL);
    for (int i = 0, k = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_value v = cfx_as_list(r->inputs)->items[k++];
        for (int d = 0; v.tag == CFX_TAG_TENSOR && d < cfx_as_tensor(v)->ndim; d++)
            if (cfx_as_tensor(v)->shape[d] == from)
                v = cfx_tensor_value(cfx_clone(cfx_narrow(v, d, 0, to)));
        cfx_list_append(cfx_as_list(inputs), v);
        if (v.tag == CFX_TAG_TENSOR)
            cfx_node_set_meta(cfx_graph_find(p->module->graph, p->inputs[i].name), "val",
                              cfx__tensor_faked_in(v));
    }
    cfx_each_node(p->module->graph, n) cfx__node_of(n)->stale = n->op != CFX_PLACEHOLDER;
    bool fine = cfx_ok() && cfx_program_infer(p) && check(r, p, inputs);
    cfx_error_clear();
    cfx_scope_close(mark);
    return fine;
}

static void reduce_sizes(reducing *r) {
    for (bool any = true; any;) {
        any = false;
        for (int64_t i = 0; !any && i < cfx_as_list(r->inputs)->len; i++) {
            cfx_value v = cfx_as_list(r->inputs)->items[i];
            for (int d = 0; !any && v.tag == CFX_TAG_TENSOR && d < cfx_as_tensor(v)->ndim; d++) {
                int64_t size = cfx_as_tensor(v)->shape[d];
                any = size > 1 && (try_size(r, size, 1) || try_size(r, size, size / 2));
            }
        }
    }
}

cfx_program *cfx_program_reduce(cfx_program *p, cfx_value inputs, cfx_fails_fn *fails, void *user,
                                cfx_value *reduced) {
    if (!cfx__given((cfx_site){0}, (const void *)fails, "function that tells what fails") ||
        !cfx_ok() || !cfx__program_whole((cfx_site){0}, p) || !cfx_program_infer(p))
        return &cfx__program_bad;
    size_t mark = cfx_scope_open();
    reducing r = {.program = p, .fails = fails, .user = user, .values = cfx_dict_new(),
                  .inputs = cfx_value_keep(cfx_list_value(0, NULL))};
    r.chosen = cfx__alloc0(p->module->graph->made.len + 1);
    record_values(&r, inputs);
    find_units(&r);
    if (cfx_ok() && check(&r, p, inputs)) {
        reduce_nodes(&r);
        reduce_sizes(&r);
    } else if (cfx_ok()) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the program does not fail: nothing to reduce");
    }
    VEC_FREE(r.units);
    cfx__free(r.chosen);
    cfx_scope_close(mark);
    cfx__value_scope_own(r.inputs);
    if (reduced)
        *reduced = r.inputs;
    return r.best ? cfx__scope_own(r.best) : &cfx__program_bad;
}
