/* annotate_types: what every node gives, as Python writes types: AnnotateTypesWithSchema. */
#include "pass.h"

static const char *type_of(const cfx_result *r);

/* A tuple, with the types of what is in it; scope. */
static const char *type_of_several(const cfx_result *r) {
    cfx__text t = {0};
    for (int64_t i = 0; i < cfx_result_count(r); i++) {
        cfx_result item = cfx_result_item(r, i);
        const char *type = type_of(&item);
        cfx__text_printf(&t, "%s%s", i ? ", " : "typing.Tuple[", type ? type : "typing.Any");
    }
    cfx__text_printf(&t, "%s]", t.len ? "" : "typing.Tuple[");
    return cfx__text_take(&t);
}

static const char *type_of(const cfx_result *r) {
    switch (r->kind) {
    case CFX_RESULT_TENSOR: return "torch.Tensor";
    case CFX_RESULT_INT: return "int";
    case CFX_RESULT_BOOL: return "bool";
    case CFX_RESULT_FLOAT: return "float";
    case CFX_RESULT_SEVERAL: return type_of_several(r);
    case CFX_RESULT_UNKNOWN:
    case CFX_RESULT_OBJECT: return NULL;
    }
    return NULL;
}

static int annotate(cfx_program *p, cfx_module *m, const cfx_dict *options) {
    (void)p, (void)options;
    int changes = 0;
    cfx_each_node(m->graph, n) {
        size_t mark = cfx_scope_open();
        cfx_result r = cfx_node_result(n);
        const char *type = n->op == CFX_OUTPUT ? NULL : type_of(&r);
        if (type && (!n->type || strcmp(n->type, type))) {
            cfx_node_set_type(n, type);
            changes++;
        }
        cfx_scope_close(mark);
    }
    return changes;
}

static int run(cfx_program *p, const cfx_dict *options) {
    return cfx__pass_graphs(p, options, annotate);
}

const cfx_pass cfx__pass_annotate_types = {
    .name = "annotate_types",
    .summary = "notes the type of what every node gives: torch.Tensor, int, a tuple of them",
    .promise = CFX_PASS_EXACT,
    .run = run,
};
