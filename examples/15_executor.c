/* An executor of one's own: it walks a graph of operators and counts what they compute. Graphs with
 * anything else in them are left to the interpreter. */
#include <cfx.h>
#include <stdlib.h>

/* Once for each version of a graph. */
static void *prepare(const cfx_execution *e) {
    int calls = 0;
    cfx_each_node(e->graph, n) {
        if (n->op == CFX_CALL_FUNCTION && n->target.op)
            calls++;
        else if (n->op != CFX_PLACEHOLDER && n->op != CFX_OUTPUT)
            return NULL;
    }
    int *form = malloc(sizeof *form);
    *form = calls;
    return form;
}

static cfx_value run(void *form, const cfx_execution *e) {
    cfx_dict *values = cfx_dict_new();
    cfx_value v = cfx_none();
    int input = 0;
    long long elements = 0;
    cfx_each_node(e->graph, n) {
        cfx_value args = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < cfx_as_list(n->args)->len; i++) {
            cfx_value a = cfx_as_list(n->args)->items[i];
            cfx_list_append(cfx_as_list(args),
                            a.tag == CFX_TAG_NODE ? cfx_dict_get(values, cfx_as_node(a)->name) : a);
        }
        if (n->op == CFX_PLACEHOLDER)
            v = e->inputs.v[input++];
        else if (n->op == CFX_OUTPUT)
            v = cfx_as_list(args)->items[0];
        else
            v = cfx_py_from(
                e->at, n->target.name,
                (cfx_args){(int)cfx_as_list(args)->len, cfx_as_list(args)->items, NULL});
        elements += n->op == CFX_OUTPUT ? 0 : cfx_tensor_numel(cfx_as_tensor(v));
        cfx_dict_set(values, n->name, v);
    }
    printf("%lld elements by %d calls\n", elements, *(int *)form);
    return v;
}

static const cfx_executor counting = {"counting", prepare, NULL, run, free};

static cfx_tensor *forward(cfx_module *self, cfx_tensor *x) {
    (void)self;
    return cfx_add(cfx_relu(cfx_mul(x, 2)), 1);
}

int main(void) {
    cfx_module *gm = cfx_symbolic_trace(cfx_module_new("Model", forward, "x"));
    cfx_set_grad_mode(CFX_NO_GRAD);
    cfx_set_executor(&counting);
    printf("%s\n", cfx_str(cfx_forward(gm, cfx_tensor_from_value(cfx_list(-1.0, 2.0, 3.0)))));
    return cfx_finish(stderr);
}
