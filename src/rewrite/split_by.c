/* How nodes find their parts: by a callback, by tags, by the modules they come from, by what they
 * cost. Start at cfx_split_module. */
#include "../base/given.h"
#include "match.h"
#include "split.h"

/* Parts as they are met: the name of each, and each node's. */
typedef struct parting {
    cfx_module *gm;
    int *part_of;
    VEC(const char *) names;
    cfx__map numbers; /* name to number + 1 */
} parting;

static bool open(parting *p, cfx_module *gm) {
    *p = (parting){.gm = gm};
    if (!gm || !gm->graph || !cfx_ok()) {
        if (cfx_ok())
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "only a GraphModule can be split, not %s",
                     gm ? gm->type : "NULL");
        return false;
    }
    p->part_of = cfx__alloc((gm->graph->made.len + 1) * sizeof *p->part_of);
    for (size_t i = 0; i < gm->graph->made.len; i++)
        p->part_of[i] = -1;
    return true;
}

static bool is_part(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
}

/* A part of that name, which stays the caller's until the end; its number and one. */
static intptr_t add_part(parting *p, const char *name) {
    VEC_PUSH(p->names, name);
    intptr_t number = (intptr_t)p->names.len;
    cfx__map_set(&p->numbers, name, (void *)number);
    return number;
}

/* Puts n in the part of that name. */
static void put(parting *p, const cfx_node *n, const char *name) {
    intptr_t number = (intptr_t)cfx__map_get(&p->numbers, name);
    p->part_of[cfx__node_of(n)->id] = (int)(number ? number : add_part(p, name)) - 1;
}

static cfx_module *close(parting *p, size_t mark, cfx_split_options o) {
    cfx_module *m = &cfx__module_bad;
    if (cfx_ok())
        m = cfx__split(p->gm, p->part_of, (int)p->names.len, p->names.data, o);
    cfx__map_release(&p->numbers);
    VEC_FREE(p->names);
    cfx__free(p->part_of);
    return cfx_scope_return(mark, m);
}

static const char *part_name(cfx_split_options o, int number) {
    return o.affix ? cfx__text_format("submod_%s_%d", o.affix, number)
                   : cfx__text_format("submod_%d", number);
}

cfx_module *cfx_split_module(cfx_module *gm, cfx_split_fn *part_of, void *user,
                             cfx_split_options o) {
    parting p;
    if (!cfx__given((cfx_site){0}, (const void *)part_of, "function that tells the part") ||
        !open(&p, gm))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_each_node(gm->graph, n) if (is_part(n)) put(&p, n, part_name(o, part_of(n, user)));
    return close(&p, mark, o);
}

/* Parts for the tags that the caller lists, in that order. */
static void list_tags(parting *p, cfx_value tags) {
    bool listed = tags.tag == CFX_TAG_LIST || tags.tag == CFX_TAG_TUPLE;
    for (int64_t i = 0; listed && i < cfx_as_list(tags)->len; i++) {
        const char *tag = cfx_text(cfx_as_list(tags)->items[i]);
        if (!tag)
            cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "tags are texts, not %s",
                     cfx_value_repr(cfx_as_list(tags)->items[i]));
        else if (!cfx__map_get(&p->numbers, tag))
            add_part(p, tag);
    }
}

cfx_module *cfx_split_by_tags(cfx_module *gm, cfx_split_options o) {
    parting p;
    if (!open(&p, gm))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    list_tags(&p, o.tags);
    cfx_each_node(gm->graph, n) {
        const char *tag = cfx_text(cfx_node_get_meta(n, "tag"));
        if (!is_part(n) || !cfx_ok())
            continue;
        if (!tag)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "node %s has no tag", n->name);
        else if (!cfx_is_none(o.tags) && !cfx__map_get(&p.numbers, tag))
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "node %s has the tag '%s', which is not among those listed", n->name, tag);
        else
            put(&p, n, tag);
    }
    o.first_ready = true;
    return close(&p, mark, o);
}

/* ---- modules --------------------------------------------------------------------------------- */

/* The path of the module that n comes from, cut after `depth` names; "" for the root; scope. */
static const char *module_path(const cfx_node *n, int depth) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    if (n->op == CFX_CALL_MODULE)
        return n->target.name;
    if (stack.tag != CFX_TAG_DICT || !cfx_as_dict(stack)->len)
        return "";
    cfx_value last = cfx_as_dict(stack)->entries[cfx_as_dict(stack)->len - 1].value;
    const char *path =
        last.tag == CFX_TAG_TUPLE && cfx_as_list(last)->len ? cfx_text(cfx_at(last, 0)) : "";
    const char *end = path ? path : "";
    for (int i = 0; i < depth && end && *end; i++) {
        const char *dot = strchr(end, '.');
        end = i + 1 == depth || !dot ? (dot ? dot : end + strlen(end)) : dot + 1;
    }
    return cfx__string_new(path ? path : "", (size_t)(end - (path ? path : "")))->text;
}

/* "layers.0" is called layers_0, and layers_0_1 where it comes again. */
static const char *stretch_name(const parting *p, const char *path) {
    char *name = (char *)cfx__text_format("%s", *path ? path : "main");
    for (char *c = name; *c; c++)
        *c = *c == '.' || *c == '-' || *c == '/' ? '_' : *c;
    const char *unique = name;
    for (int i = 1; cfx__map_get(&p->numbers, unique); i++)
        unique = cfx__text_format("%s_%d", name, i);
    return unique;
}

cfx_module *cfx_split_by_modules(cfx_module *gm, int depth, cfx_split_options o) {
    parting p;
    if (!open(&p, gm))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    const char *before = NULL, *name = NULL;
    cfx_each_node(gm->graph, n) {
        if (!is_part(n))
            continue;
        const char *path = module_path(n, depth < 1 ? 1 : depth);
        if (!before || strcmp(before, path))
            name = stretch_name(&p, path);
        before = path;
        put(&p, n, name);
    }
    return close(&p, mark, o);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static double bytes_of(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    double bytes = r.kind == CFX_RESULT_TENSOR ? cfx_dtype_size(r.dtype) : 0;
    for (int i = 0; i < r.ndim && bytes > 0; i++) {
        cfx_value size = cfx_result_size(&r, i);
        bytes *= size.tag == CFX_TAG_INT ? (double)cfx_integer(size) : 1;
    }
    return bytes;
}

/* What a node holds: its result, and the parameters that it is the first to read. */
static double memory_of(const cfx_node *n) {
    double bytes = bytes_of(n);
    cfx_each_input(n, u) {
        bool held = u->node->op == CFX_PLACEHOLDER || u->node->op == CFX_GET_ATTR;
        if (held && u->node->users->user == n)
            bytes += bytes_of(u->node);
    }
    return bytes;
}

static cfx_value noted(cfx_node *n, void *user) {
    (void)user;
    return cfx_value_keep(cfx_node_get_meta(n, "val"));
}

/* The operations that PyTorch counts, and one for each element of the result. */
static double flops_of(const cfx_node *n) {
    cfx_result r = cfx_node_result(n);
    double flops = r.kind == CFX_RESULT_TENSOR ? bytes_of(n) / cfx_dtype_size(r.dtype) : 0;
    cfx__call c;
    if (!cfx__call_of(n, &c))
        return flops;
    size_t mark = cfx_scope_open();
    cfx_value args = cfx_tuple_value(c.schema->nargs, c.args);
    args = cfx__value_scope_own(cfx__node_map(cfx__value_scope_own(cfx__graph_freeze(args)), noted,
                                              NULL));
    cfx_args a = {c.schema->nargs, cfx_as_list(args)->items, NULL};
    int64_t counted = cfx_ok() ? cfx_op_flops((cfx_site){0}, c.op, a) : 0;
    if (cfx_ok() && counted > 0)
        flops += (double)counted;
    cfx__error_forgive(); /* a shape that is not known costs nothing */
    cfx_scope_close(mark);
    return flops;
}

/* How many stages there are when none may cost more than `most`; cuts[i] is the stage of node i. */
static int count_stages(const double *costs, int n, double most, int *stage) {
    int stages = 1;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (sum + costs[i] > most && sum > 0) {
            stages++;
            sum = 0;
        }
        sum += costs[i];
        if (stage)
            stage[i] = stages - 1;
    }
    return stages;
}

/* The least that the most expensive stage can cost, up to a part in a million. */
static double least_most(const double *costs, int n, int stages) {
    double low = 0, high = 0;
    for (int i = 0; i < n; i++) {
        low = costs[i] > low ? costs[i] : low;
        high += costs[i];
    }
    while (high - low > 1e-6 * high) {
        double middle = (low + high) / 2;
        *(count_stages(costs, n, middle, NULL) <= stages ? &high : &low) = middle;
    }
    return high;
}

cfx_module *cfx_split_stages(cfx_module *gm, int stages, cfx_stage_cost cost,
                             cfx_split_options o) {
    parting p;
    if (!open(&p, gm))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    VEC(double) costs = {0};
    cfx_each_node(gm->graph, n) if (is_part(n))
        VEC_PUSH(costs, cost == CFX_STAGE_FLOPS ? flops_of(n) : memory_of(n));
    int *stage = cfx__alloc((costs.len + 1) * sizeof *stage), i = 0;
    double most = least_most(costs.data, (int)costs.len, stages < 1 ? 1 : stages);
    count_stages(costs.data, (int)costs.len, most, stage);
    cfx_each_node(gm->graph, n) if (is_part(n)) put(&p, n, part_name(o, stage[i++]));
    cfx__free(stage);
    VEC_FREE(costs);
    return close(&p, mark, o);
}
