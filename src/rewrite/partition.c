/* Nodes that a backend can run, or that the caller has chosen, as modules: torch.fx's
 * CapabilityBasedPartitioner and fuse_by_partitions. Start at cfx_module_partition_by. */
#include "../base/given.h"
#include "match.h"
#include "split.h"

/* The group of each node, by id; -1: none. */
typedef struct grouping {
    cfx_module *gm;
    cfx_partition_options options;
    int *group;
    bool *supported; /* by id */
    int n;           /* how many groups */
} grouping;

static bool open(grouping *g, cfx_module *gm) {
    *g = (grouping){.gm = gm};
    if (!cfx_ok() || !cfx__given((cfx_site){0}, gm, "GraphModule"))
        return false;
    if (!gm->graph) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "only a GraphModule can be partitioned, not %s",
                 gm->type);
        return false;
    }
    g->group = cfx__alloc((gm->graph->made.len + 1) * sizeof *g->group);
    g->supported = cfx__alloc0(gm->graph->made.len + 1);
    for (size_t i = 0; i < gm->graph->made.len; i++)
        g->group[i] = -1;
    return true;
}

static int *group_of(const grouping *g, const cfx_node *n) {
    return &g->group[cfx__node_of(n)->id];
}

static bool is_call(const cfx_node *n) {
    return n->op != CFX_PLACEHOLDER && n->op != CFX_GET_ATTR && n->op != CFX_OUTPUT;
}

/* Each group is a part, and so is each other call, which is then inlined. */
static cfx_module *fuse(grouping *g, const char *prefix) {
    size_t mark = cfx_scope_open();
    VEC(const char *) names = {0};
    int *part_of = cfx__alloc((g->gm->graph->made.len + 1) * sizeof *part_of);
    int *number = cfx__alloc0((size_t)(g->n + 1) * sizeof *number), fused = 0;
    cfx_each_node(g->gm->graph, n) {
        int group = *group_of(g, n), *part = &part_of[cfx__node_of(n)->id];
        *part = group >= 0 ? number[group] - 1 : -1;
        if (*part < 0 && (group >= 0 || is_call(n))) {
            *part = (int)names.len;
            if (group >= 0)
                number[group] = *part + 1;
            VEC_PUSH(names, group >= 0 ? cfx__text_format("%s%d", prefix, fused++)
                                       : cfx__text_format("single:%s", n->name));
        }
    }
    cfx_split_options o = {.keep_original_node_name = true};
    cfx_module *m = cfx_ok() ? cfx__split(g->gm, part_of, (int)names.len, names.data, o) : NULL;
    if (m && !cfx_failed(m))
        cfx__inline_all(m, "single:");
    cfx__free(part_of);
    cfx__free(number);
    VEC_FREE(names);
    return cfx_scope_return(mark, m && cfx_ok() ? m : &cfx__module_bad);
}

static cfx_module *close(grouping *g, const char *prefix) {
    cfx_module *m = cfx_ok() ? fuse(g, prefix) : &cfx__module_bad;
    cfx__free(g->group);
    cfx__free(g->supported);
    return m;
}

/* ---- what a backend can run ------------------------------------------------------------------ */

/* Supported nodes of one level may be one module: a way from one to another that leaves them goes
 * through a node that is not supported, and the level grows there. There are as few levels as the
 * longest such way has groups. Items of several results go with what gives them. */
static void find_levels(grouping *g, cfx_supports_fn *supports, void *user, int *level) {
    int least = 0, most = 0;
    bool *supported = g->supported;
    cfx_each_node(g->gm->graph, n) {
        uint32_t id = cfx__node_of(n)->id;
        bool follows = cfx_node_takes_result(n) && is_call(n->inputs->node);
        supported[id] = is_call(n) && (follows ? supported[cfx__node_of(n->inputs->node)->id]
                                               : supports(n, user));
        level[id] = least;
        cfx_each_input(n, u) {
            uint32_t in = cfx__node_of(u->node)->id;
            int after = level[in] + (supported[in] && !supported[id]);
            level[id] = after > level[id] ? after : level[id];
        }
        most = level[id] > most ? level[id] : most;
        if (is_call(n) && cfx_node_is_impure(n)) { /* what has an effect keeps its place */
            supported[id] = false;
            level[id] = most + 1;
            least = most = most + 2;
        }
    }
}

static bool is_among(const cfx_node *n, cfx_value names) {
    for (int64_t i = 0; names.tag == CFX_TAG_LIST && i < cfx_as_list(names)->len; i++) {
        const char *name = cfx_text(cfx_as_list(names)->items[i]);
        if (name && cfx_node_is(n, name))
            return true;
    }
    return false;
}

static bool computes(const grouping *g, const cfx_node *n) {
    return !cfx_node_takes_result(n) && !is_among(n, g->options.non_compute);
}

/* How much each level is worth being a module: how many nodes of it compute something. */
static void count_levels(const grouping *g, const int *level, int *counts) {
    cfx_each_node(g->gm->graph, n) {
        uint32_t id = cfx__node_of(n)->id;
        if (g->supported[id] && computes(g, n))
            counts[level[id]] += is_among(n, g->options.allowed_single) ? 2 : 1;
    }
}

static void group_levels(grouping *g, cfx_supports_fn *supports, void *user) {
    size_t len = g->gm->graph->made.len + 1;
    int *level = cfx__alloc0(len * sizeof *level);
    int *counts = cfx__alloc0(3 * len * sizeof *counts); /* levels: two more for a node at most */
    int *numbers = cfx__alloc0(3 * len * sizeof *numbers);
    find_levels(g, supports, user, level);
    count_levels(g, level, counts);
    cfx_each_node(g->gm->graph, n) {
        int at = level[cfx__node_of(n)->id];
        if (!g->supported[cfx__node_of(n)->id] || counts[at] <= (g->options.single ? 0 : 1))
            continue;
        if (!numbers[at])
            numbers[at] = ++g->n;
        *group_of(g, n) = numbers[at] - 1;
    }
    cfx__free(level);
    cfx__free(counts);
    cfx__free(numbers);
}

/* What computes nothing leaves a group where nothing in it comes before, or after. */
static void trim(grouping *g) {
    cfx_each_node(g->gm->graph, n) {
        bool first = *group_of(g, n) >= 0 && !computes(g, n);
        cfx_each_input(n, u) first &= *group_of(g, u->node) != *group_of(g, n);
        if (first)
            *group_of(g, n) = -1;
    }
    for (cfx_node *n = cfx_graph_last(g->gm->graph); n; n = cfx_node_before(n)) {
        bool last = *group_of(g, n) >= 0 && !computes(g, n) && !cfx_node_takes_result(n);
        cfx_each_user(n, u) last &= *group_of(g, u->user) != *group_of(g, n);
        if (last)
            *group_of(g, n) = -1;
    }
}

/* A supported attribute that one group alone reads is read there. */
static void take_attributes(grouping *g, cfx_supports_fn *supports, void *user) {
    cfx_each_node(g->gm->graph, n) {
        if (n->op != CFX_GET_ATTR || !n->users || !supports(n, user))
            continue;
        int group = *group_of(g, n->users->user);
        cfx_each_user(n, u) group = *group_of(g, u->user) == group ? group : -1;
        *group_of(g, n) = group;
    }
}

cfx_module *cfx_module_partition_by(cfx_module *gm, cfx_supports_fn *supports, void *user,
                                    cfx_partition_options options) {
    grouping g;
    if (!cfx__given((cfx_site){0}, (const void *)supports, "function that tells what fits") ||
        !open(&g, gm))
        return &cfx__module_bad;
    g.options = options;
    group_levels(&g, supports, user);
    if (options.trim)
        trim(&g);
    if (options.attributes)
        take_attributes(&g, supports, user);
    return close(&g, "fused_");
}

cfx_module *cfx_module_partition(cfx_module *gm, cfx_supports_fn *supports, void *user,
                                 bool single) {
    return cfx_module_partition_by(gm, supports, user, (cfx_partition_options){.single = single});
}

/* ---- what the caller has chosen -------------------------------------------------------------- */

static bool choose(grouping *g, cfx_value v, int group) {
    cfx_node *n = v.tag == CFX_TAG_NODE ? cfx_as_node(v) : NULL;
    const char *wrong = !n                           ? "is no node"
                        : n->erased                  ? "has been removed from owning graph"
                        : n->graph != g->gm->graph   ? "is not found in the graph module"
                        : n->op == CFX_PLACEHOLDER || n->op == CFX_OUTPUT
                            ? "cannot be part of a group"
                        : *group_of(g, n) >= 0 ? "is in two groups"
                                               : NULL;
    if (wrong)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s %s", n ? n->name : cfx_value_repr(v), wrong);
    else
        *group_of(g, n) = group;
    return !wrong;
}

/* The node through which a way leads out of a group and back in; NULL where there is none. Nodes
 * are met in order, so what is after a group is known when it is asked for. */
static const cfx_node *way_back(const grouping *g, int group) {
    bool *after = cfx__alloc0(g->gm->graph->made.len + 1);
    const cfx_node *found = NULL;
    cfx_each_node(g->gm->graph, n) {
        bool inside = *group_of(g, n) == group, *own = &after[cfx__node_of(n)->id];
        cfx_each_input(n, u) {
            bool through = after[cfx__node_of(u->node)->id];
            *own |= !inside && (through || *group_of(g, u->node) == group);
            if (inside && through && !found)
                found = u->node;
        }
    }
    cfx__free(after);
    return found;
}

cfx_module *cfx_fuse_nodes(cfx_module *gm, cfx_value groups, const char *prefix) {
    grouping g;
    if (!open(&g, gm))
        return &cfx__module_bad;
    size_t mark = cfx_scope_open();
    cfx_value all = cfx_items(groups);
    for (; cfx_ok() && g.n < cfx_as_list(all)->len; g.n++) {
        cfx_value items = cfx_items(cfx_as_list(all)->items[g.n]);
        for (int64_t i = 0; cfx_ok() && i < cfx_as_list(items)->len; i++)
            choose(&g, cfx_as_list(items)->items[i], g.n);
        const cfx_node *back = cfx_ok() ? way_back(&g, g.n) : NULL;
        if (back)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                     "Invalid partition, found dependency cycles: group %d needs %s, which needs "
                     "it",
                     g.n, back->name);
    }
    return cfx_scope_return(mark, close(&g, prefix ? prefix : "fused_"));
}
