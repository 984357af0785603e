/* Conditions on several sizes at once: the remainder of their product. */
#include "border.h"
#include "relations.h"

/* The product of sizes that are not those of the example, modulo a number. */
static int64_t product_of(const cfx__search *s, const bool *moves, const int64_t *sizes,
                          int64_t by) {
    int64_t product = 1;
    for (size_t i = 0; i < s->n; i++)
        product = moves[i] ? product % by * (sizes[i] % by) % by : product;
    return product;
}

cfx__finding cfx__search_product(const cfx__search *s) {
    enum { SAMPLES = 160 };
    cfx__finding found = {.kind = CFX__FOUND_NOTHING};
    bool *moves = cfx__alloc0((s->n + 1) * sizeof *moves);
    bool fits[CFX__WINDOW + 1];
    memset(fits, true, sizeof fits);
    for (size_t i = 0; i < s->n; i++)
        moves[i] = s->bad[i] != s->hints[i];
    for (int k = 0; k < SAMPLES && cfx_ok(); k++) {
        for (size_t i = 0; i < s->n; i++)
            s->where[i] = k && moves[i] ? cfx__probe_near(s->p, i, true) : s->bad[i];
        const cfx__search_verdict v = cfx__search_at(s, s->where);
        for (int64_t by = 2; by <= CFX__WINDOW && v != CFX__CANNOT_BE; by++)
            fits[by] &= (product_of(s, moves, s->where, by) ==
                         product_of(s, moves, s->hints, by)) == (v == CFX__GOES);
    }
    for (int64_t by = 2; by <= CFX__WINDOW && found.kind == CFX__FOUND_NOTHING; by++) {
        cfx_value all = cfx_int(1);
        if (!fits[by])
            continue;
        for (size_t i = 0; i < s->n; i++)
            all = moves[i] ? cfx__sym_binary(CFX__SYM_MUL, all, cfx__search_name(s, i)) : all;
        found = (cfx__finding){.kind = CFX__FOUND_CONDITION,
                               .i = SIZE_MAX,
                               .rel = CFX__EQ,
                               .a = cfx__sym_binary(CFX__SYM_MOD, all, cfx_int(by)),
                               .b = cfx_int(product_of(s, moves, s->hints, by))};
    }
    cfx__free(moves);
    return found;
}
