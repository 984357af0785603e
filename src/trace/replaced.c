/* Input sizes found equal during an export: one symbol stands for both. In PyTorch, assertions
 * made earlier still use the other symbol, named after its size: "u0 <= s70", where everything
 * else has s53. A decomposition distinguishes them, and what they read. */
#include <cfx/ops.h>

#include "relations.h"
#include "symints.h"

/* ---- what a symbol is called after ----------------------------------------------------------- */

/* Ways to spell where an input comes from that are tried. */
enum { SPELLINGS = 40 };

typedef struct {
    long number;
    int dim, tried;
} called;

static bool is_after(called *c, const char *source) {
    const char *text = cfx__text_format("%s.size()[%d]", source, c->dim);
    return c->tried++ < SPELLINGS && c->number == cfx__symbol_number(text);
}

/* Whether it is called after "L['d']" with keys behind it: what is left of an input's name, d_a_0,
 * is one key or several. */
static bool is_after_keys(called *c, const char *source, const char *keys) {
    for (const char *end = keys; *end && c->tried < SPELLINGS; end++) {
        end += strcspn(end + 1, "_") + 1;
        int len = (int)(end - keys);
        bool number = (int)strspn(keys, "0123456789") >= len;
        const char *one = number ? cfx__text_format("%s[%.*s]", source, len, keys)
                                 : cfx__text_format("%s['%.*s']", source, len, keys);
        if (*end ? end[1] && is_after_keys(c, one, end + 1) : is_after(c, one))
            return true;
        if (!*end)
            break;
    }
    return false;
}

/* Arguments that are tuples, lists and dicts have an input for each leaf, as *args have: "L['x']",
 * "L['x'][0]", "L['d']['a']". Sizes of **kwargs cannot vary in PyTorch, whose programs these are.
 */
bool cfx__symbol_is_of(const char *name, const cfx_node *input, int dim) {
    called c = {.number = strtol(name + 1, NULL, 10), .dim = dim};
    if (is_after(&c, cfx__text_format("L['%s']", input->name)))
        return true;
    for (const char *p = strchr(input->name + 1, '_'); p && p[1]; p = strchr(p + 1, '_'))
        if (is_after_keys(&c, cfx__text_format("L['%.*s']", (int)(p - input->name), input->name),
                          p + 1))
            return true;
    return false;
}

/* ---- what assertions say --------------------------------------------------------------------- */

/* The expression in the message of an assertion; NULL: n asserts nothing, or says it otherwise. */
static const char *claim_of(const cfx_node *n) {
    static const char before[] = "Runtime assertion failed for expression ";
    cfx_value message = n->op == CFX_CALL_FUNCTION && cfx_as_list(n->args)->len > 1 &&
                                n->target.op == &cfx_op__assert_scalar
                            ? cfx_as_list(n->args)->items[1]
                            : cfx_none();
    const char *text = message.tag == CFX_TAG_STR ? cfx_text(message) : NULL;
    if (!text || strncmp(text, before, strlen(before)))
        return NULL;
    const char *claim = text + strlen(before), *end = strstr(claim, " on node '");
    return cfx__text_format("%.*s", (int)(end ? end - claim : (long)strlen(claim)), claim);
}

/* The size of an input that a symbol is called after, where another symbol stands for it. */
static bool find_input(const cfx_graph *g, const char *name, cfx__replaced *out) {
    cfx_each_node((cfx_graph *)(uintptr_t)g, n) {
        cfx_result r = n->op == CFX_PLACEHOLDER ? cfx_node_result(n) : (cfx_result){0};
        for (int i = 0; r.kind == CFX_RESULT_TENSOR && i < r.ndim; i++) {
            cfx_value size = cfx_result_size(&r, i);
            if (size.tag != CFX_TAG_SYM || cfx_as_sym(size)->op != CFX__SYM_NAME ||
                !cfx__symbol_is_of(name, n, i))
                continue;
            *out = (cfx__replaced){cfx__text_copy(name, strlen(name)),
                                   cfx__text_copy(cfx_as_sym(size)->name,
                                                  strlen(cfx_as_sym(size)->name)),
                                   cfx__text_copy(n->name, strlen(n->name)), i};
            return true;
        }
    }
    return false;
}

void cfx__worlds_find_replaced(cfx__worlds *w, const cfx_graph *g) {
    cfx_each_node((cfx_graph *)(uintptr_t)g, n) {
        const char *claim = claim_of(n);
        while (claim && (claim = strchr(claim, 's'))) {
            size_t len = 1 + strspn(claim + 1, "0123456789");
            const char *name = cfx__text_format("%.*s", (int)len, claim);
            cfx__replaced one;
            if (len > 1 && !cfx__worlds_find(w, name) && find_input(g, name, &one))
                VEC_PUSH(w->replaced, one);
            claim += len;
        }
    }
}

const char *cfx__worlds_replaced(const cfx__worlds *w, const cfx_node *input, int dim) {
    for (size_t i = 0; input->op == CFX_PLACEHOLDER && i < w->replaced.len; i++)
        if (w->replaced.data[i].dim == dim && !strcmp(w->replaced.data[i].input, input->name))
            return w->replaced.data[i].name;
    return NULL;
}

static bool has_replaced(const cfx__worlds *w, cfx_value v) {
    for (size_t i = 0; i < w->replaced.len; i++)
        if (cfx__relation_names(v, w->replaced.data[i].name))
            return true;
    return false;
}

bool cfx__worlds_claimed(const cfx__worlds *w, const cfx_node *asks, cfx_value side[2]) {
    cfx_each_user(asks, u) {
        const char *claim = w->replaced.len ? claim_of(u->user) : NULL, *rest = claim;
        bool equal = claim && !strncmp(claim, "Eq(", 3);
        const char *end = claim ? claim + strlen(claim) : NULL, *between = equal ? ", " : " <= ";
        if (claim && cfx__sym_parse(claim + (equal ? 3 : 0), end, &rest, &side[0]) &&
            !strncmp(rest, between, strlen(between)) &&
            cfx__sym_parse(rest + strlen(between), end, &rest, &side[1]) &&
            has_replaced(w, side[1]))
            return true;
    }
    return false;
}

/* ---- when all is traced ---------------------------------------------------------------------- */

/* The expression with the symbols that stand for replaced ones. */
static cfx_value standing(const cfx__worlds *w, const cfx_sym *e) {
    if (e->op == CFX__SYM_INT)
        return cfx_int(e->hint);
    if (e->op != CFX__SYM_NAME)
        return cfx__sym_binary(e->op, standing(w, e->a), standing(w, e->b));
    for (size_t i = 0; i < w->replaced.len; i++)
        if (!strcmp(w->replaced.data[i].name, e->name)) {
            const cfx__symbol *by = cfx__worlds_find(w, w->replaced.data[i].by);
            return cfx__sym_name(by->name, by->hint != 0, by->hint);
        }
    return cfx__value_of_sym(e);
}

void cfx__replaced_end(cfx__merging *g) {
    const cfx__worlds *w = g->m->worlds;
    cfx_each_node(g->m->graph[0], n) {
        cfx_value val = cfx_node_get_meta(n, "val");
        cfx_value text = w->replaced.len && val.tag == CFX_TAG_STR ? cfx__merge_truth_text(n)
                                                                   : cfx_none();
        if (val.tag == CFX_TAG_SYM && has_replaced(w, val))
            cfx_node_set_meta(n, "val", standing(w, cfx_as_sym(val)));
        else if (text.tag == CFX_TAG_STR)
            cfx_node_set_meta(n, "val", text);
    }
}
