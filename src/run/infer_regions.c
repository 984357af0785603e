/* Which graphs of a program are run, and under which autocast: results of the same call have
 * another dtype there. Start at cfx__infer_enter. */
#include "infer.h"

#include <string.h>

typedef cfx__inference inference;

static void find_regions(inference *f, cfx_module *m, cfx_value region);

/* Those below a module without a graph, whose forward may call any of them. */
static void find_below(const char *path, cfx_module *m, void *user) {
    (void)path;
    if (m->graph)
        find_regions(user, m, cfx_none());
}

/* The sub-graphs that a node names are in the region that it is in, or that its user opens. */
static void find_regions_of(inference *f, const cfx_module *m, const cfx_node *n,
                            cfx_value region) {
    cfx_module *below = cfx_module_find(m, n->target.name);
    if (!below || (n->op == CFX_GET_ATTR && !n->num_users))
        return;
    cfx_each_user(n, u) if (cfx__higher_is(u->user, "wrap_with_autocast"))
        region = cfx_node_value(u->user);
    if (below->graph)
        find_regions(f, below, region);
    else
        cfx_module_walk(below, find_below, f);
}

static void find_regions(inference *f, cfx_module *m, cfx_value region) {
    static const int ops[] = {CFX_GET_ATTR, CFX_CALL_MODULE};
    if (cfx_dict_find(f->regions, cfx_module_value(m)))
        return;
    cfx_dict_put(f->regions, cfx_module_value(m), region);
    for (int i = 0; i < COUNT(ops); i++)
        for (const cfx__target_row *row = m->graph->rows[ops[i]]; row; row = row->next)
            for (const cfx__node *n = row->first; n; n = n->row_next)
                find_regions_of(f, m, &n->pub, region);
}

bool cfx__infer_reaches(const inference *f, cfx_module *m) {
    return !f->program->module->graph || cfx_dict_find(f->regions, cfx_module_value(m));
}

void cfx__infer_enter(inference *f, cfx_module *m) {
    if (!f->regions) {
        f->regions = cfx_keep(cfx_dict_new());
        if (f->program->module->graph)
            find_regions(f, f->program->module, cfx_none());
    }
    const cfx_value *region = cfx_dict_find(f->regions, cfx_module_value(m));
    if (m->graph && (f->module != m || f->seen != m->graph->version))
        cfx__infer_find_in_place(f, m->graph);
    f->seen = m->graph ? m->graph->version : 0;
    f->module = m;
    f->region = region && region->tag == CFX_TAG_NODE ? cfx_as_node(*region) : NULL;
}
