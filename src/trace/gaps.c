/* Names in a merged graph. While recording, arithmetic on plain numbers becomes nodes, since it
 * may turn out to depend on sizes. Where it does not, these nodes are removed and the numbers in
 * their names are released, because PyTorch never had such nodes. */
#include "merge.h"

#include <ctype.h>

/* "mul_3" is number 3 of "mul", which is number 0 itself; the length of that part. */
static size_t split_name(const char *name, int64_t *number) {
    size_t end = strlen(name), n = end;
    while (n && isdigit((unsigned char)name[n - 1]))
        n--;
    bool numbered = n < end && n > 1 && name[n - 1] == '_';
    *number = numbered ? strtoll(name + n, NULL, 10) : 0;
    return numbered ? n - 1 : end;
}

static bool same_base(const char *a, const char *b) {
    int64_t number;
    size_t n = split_name(a, &number), m = split_name(b, &number);
    return n == m && !strncmp(a, b, n);
}

/* How many of the names that went come before this one. */
static int64_t gaps_before(const cfx_list *gone, const char *name) {
    int64_t count = 0, number, other;
    split_name(name, &number);
    for (int64_t i = 0; i < gone->len; i++) {
        const char *text = cfx_text(gone->items[i]);
        split_name(text, &other);
        count += other < number && same_base(text, name);
    }
    return count;
}

typedef struct {
    cfx_node *node;
    int64_t number, gaps;
} moving;

static int by_number(const void *a, const void *b) {
    const moving *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

void cfx__merge_close_gaps(cfx_graph *g, const cfx_list *gone) {
    VEC(moving) all = {0};
    size_t mark = cfx_scope_open();
    cfx_each_node(g, n) {
        moving m = {.node = n, .gaps = gone->len ? gaps_before(gone, n->name) : 0};
        split_name(n->name, &m.number);
        if (m.gaps && n->op != CFX_PLACEHOLDER)
            VEC_PUSH(all, m);
    }
    if (all.len)
        qsort(all.data, all.len, sizeof *all.data, by_number);
    for (size_t i = 0; i < all.len; i++) {
        const moving *m = &all.data[i];
        int64_t ignored, number = m->number - m->gaps;
        int base = (int)split_name(m->node->name, &ignored);
        const char *name = cfx__text_format("%.*s", base, m->node->name);
        if (number)
            name = cfx__text_format("%s_%lld", name, (long long)number);
        if (!cfx_graph_find(g, name)) /* unless an input is called so */
            cfx_node_set_name(m->node, name);
    }
    VEC_FREE(all);
    cfx_scope_close(mark);
}
