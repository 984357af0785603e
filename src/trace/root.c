/* The root of a trace: what it takes, and a call with a value for each parameter. The parameters of
 * a GraphModule are the placeholders of its graph. */
#include "trace.h"

const cfx__signature *cfx__root_signature(const cfx_module *m, cfx__signature **made) {
    *made = m->graph ? cfx__graph_signature(m->graph) : NULL;
    return *made ? *made : m->own_->signature;
}

cfx_value cfx__root_call(cfx_module *m, const cfx__signature *s, const cfx_value *values) {
    static const char *const stars[] = {[CFX__VAR_ARGS] = "*", [CFX__VAR_KEYWORDS] = "**",
                                        [CFX__KEYWORD_ONLY] = "", [CFX__POSITIONAL] = ""};
    if (!m->graph)
        return cfx__module_call_bound((cfx_site){0}, m, values);
    cfx_dict *kw = cfx_dict_new();
    for (int i = 0; i < s->n; i++)
        cfx_dict_set(kw, cfx__text_format("%s%s", stars[s->params[i].kind], s->params[i].name),
                     values[i]);
    return cfx__module_call((cfx_site){0}, m, (cfx_args){0, NULL, kw});
}
