/* cfx run --profile: the time of modules as a tree, blocks that are alike as one. And what a kernel
 * moves at least. */
#include "profile.h"

#include <string.h>

#include "../graph/graph.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool size_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const cfx_value v = cfx_dict_get(((const cli_profile *)user)->sizes, name->name);
    *out = v.tag == CFX_TAG_INT ? cfx_integer(v) : name->has_hint ? name->hint : 0;
    return true;
}

static int64_t bytes_of(const cli_profile *p, const cfx_result *r) {
    int64_t n = 0;
    if (r->kind == CFX_RESULT_TENSOR) {
        n = cfx_dtype_size(r->dtype);
        for (int i = 0; i < r->ndim; i++) {
            const cfx_value v = cfx_result_size(r, i);
            int64_t size = v.tag == CFX_TAG_INT ? cfx_integer(v) : 0;
            if (v.tag == CFX_TAG_SYM && !cfx__sym_eval(cfx_as_sym(v), size_of, (void *)p, &size))
                size = 0;
            if (__builtin_mul_overflow(n, size, &n))
                return 0;
        }
    }
    for (int64_t i = 0; r->kind == CFX_RESULT_SEVERAL && i < cfx_result_count(r); i++) {
        const cfx_result item = cfx_result_item(r, i);
        n += bytes_of(p, &item);
    }
    return n;
}

static bool is_among(const cfx_node *n, int count, const cfx_node *const *nodes) {
    for (int i = 0; i < count; i++)
        if (nodes[i] == n)
            return true;
    return false;
}

/* Whether somebody outside needs it. */
static bool is_result(const cfx_node *n, int count, const cfx_node *const *nodes) {
    cfx_each_user(n, u) if (!is_among(u->user, count, nodes)) return true;
    return false;
}

int64_t cli_traffic(const cli_profile *p, int n, const cfx_node *const *nodes) {
    enum { INPUTS = 64 };
    const cfx_node *seen[INPUTS];
    int64_t sum = 0;
    int nseen = 0;
    for (int i = 0; i < n; i++) {
        cfx_each_input(nodes[i], u) {
            if (is_among(u->node, n, nodes) || is_among(u->node, nseen, seen) || nseen == INPUTS)
                continue;
            const cfx_result r = cfx_node_result(u->node);
            seen[nseen++] = u->node;
            sum += bytes_of(p, &r);
        }
        const cfx_result r = cfx_node_result(nodes[i]);
        sum += is_result(nodes[i], n, nodes) ? bytes_of(p, &r) : 0;
    }
    return sum;
}

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct branch {
    const char *name; /* the last part of its path */
    int parent, child, last, next; /* -1: none */
    double time, limit, memory;
    int64_t flops, bytes, kernels;
    uint64_t likeness; /* of all below: the same where two are alike */
} branch;

typedef struct tree {
    branch *data;
    size_t len, cap;
    cfx__arena texts;
} tree;

static int add_branch(tree *t, int parent, const char *name, size_t len) {
    for (int at = parent < 0 ? -1 : t->data[parent].child; at >= 0; at = t->data[at].next)
        if (strlen(t->data[at].name) == len && !memcmp(t->data[at].name, name, len))
            return at;
    const int at = (int)t->len;
    VEC_PUSH(*t, ((branch){.name = cfx__arena_copy(&t->texts, name, len), .parent = parent,
                           .child = -1, .last = -1, .next = -1}));
    if (parent >= 0) {
        branch *p = &t->data[parent];
        *(p->child < 0 ? &p->child : &t->data[p->last].next) = at;
        p->last = at;
    }
    return at;
}

static void add_kernel(tree *t, const cli_machine *m, const cli_times *r) {
    bool memory;
    const double limit = cli_limit(m, r, &memory);
    int at = 0;
    for (const char *path = cli_module_of(r->node); *path;) {
        const size_t n = strcspn(path, ".");
        at = add_branch(t, at, path, n);
        path += n + (path[n] == '.');
    }
    branch *own = &t->data[at];
    own->likeness = cfx__hash_mix(own->likeness, cfx__text_hash(r->kernel, strlen(r->kernel)));
    for (; at >= 0; at = t->data[at].parent) {
        branch *b = &t->data[at];
        b->time += r->time;
        b->limit += limit;
        b->memory += memory ? limit : 0;
        b->flops += r->flops;
        b->bytes += r->bytes;
        b->kernels++;
    }
}

/* Children come behind their parents: from the last to the first all is known of those below. */
static void find_alike(tree *t) {
    for (size_t i = t->len; i-- > 0;) {
        branch *b = &t->data[i];
        b->likeness = cfx__hash_mix(b->likeness, (uint64_t)b->flops);
        for (int at = b->child; at >= 0; at = t->data[at].next) {
            const char *name = t->data[at].name;
            b->likeness = cfx__hash_mix(b->likeness, cfx__text_hash(name, strlen(name)));
            b->likeness = cfx__hash_mix(b->likeness, t->data[at].likeness);
        }
    }
}

static bool is_number(const char *name) { return strspn(name, "0123456789") == strlen(name); }

/* The last of the siblings from `at` on that are numbered and alike; they are summed in `sum`. */
static int run_of_alike(const tree *t, int at, branch *sum, int *n) {
    *sum = t->data[at];
    *n = 1;
    for (int next = t->data[at].next; is_number(sum->name) && next >= 0; next = t->data[at].next) {
        const branch *b = &t->data[next];
        if (!is_number(b->name) || b->likeness != sum->likeness)
            break;
        sum->time += b->time;
        sum->limit += b->limit;
        sum->memory += b->memory;
        sum->flops += b->flops;
        sum->bytes += b->bytes;
        sum->kernels += b->kernels;
        at = next;
        ++*n;
    }
    return at;
}

/* Adds the times of a block's twins to those below it; all have the same form. */
static void fold(tree *t, int to, int from) {
    t->data[to].time += t->data[from].time;
    t->data[to].limit += t->data[from].limit;
    t->data[to].memory += t->data[from].memory;
    t->data[to].flops += t->data[from].flops;
    t->data[to].bytes += t->data[from].bytes;
    t->data[to].kernels += t->data[from].kernels;
    for (int a = t->data[to].child, b = t->data[from].child; a >= 0 && b >= 0;
         a = t->data[a].next, b = t->data[b].next)
        fold(t, a, b);
}

static void print_branch(const branch *b, const char *name, int depth, double total) {
    const char *bound = b->memory > b->limit / 2 ? "memory" : "arithmetic";
    cli_print("%*s%-*s %6lld %12.1f %5.1f%% %10s %10s", 2 * depth, "", 36 - 2 * depth, name,
              (long long)b->kernels, b->time, 100 * b->time / total,
              b->flops ? cli_large(b->flops) : "", b->bytes ? cli_bytes(b->bytes) : "");
    if (b->limit > 0)
        cli_print(" %8.0f%%  %s", 100 * b->limit / b->time, bound);
    cli_print("\n");
    cli_answer_row("modules", cfx_dict_of("module", name, "depth", cfx_int(depth), "kernels",
                                          cfx_int(b->kernels), "ms", cli_fact(b->time / 1e3),
                                          "share", cli_fact(b->time / total), "flops",
                                          cfx_int(b->flops),
                                          "bytes", cfx_int(b->bytes), "of_limit",
                                          cli_fact(b->limit / b->time), "bound", bound));
}

/* The modules below one, those of less than a hundredth of all time left out. */
static void print_below(tree *t, int parent, int depth, double total) {
    enum { DEEPEST = 12 };
    for (int at = t->data[parent].child; at >= 0;) {
        branch sum;
        int n;
        const int first = at, last = run_of_alike(t, at, &sum, &n);
        const char *name = n > 1 ? cfx__text_format("%s-%s (%d alike)", sum.name,
                                                    t->data[last].name, n)
                                 : sum.name;
        for (int other = n > 1 ? t->data[first].next : -1;; other = t->data[other].next) {
            if (other >= 0)
                fold(t, first, other);
            if (other < 0 || other == last)
                break;
        }
        if (sum.time >= total / 100) {
            print_branch(&sum, name, depth, total);
            if (depth < DEEPEST)
                print_below(t, first, depth + 1, total);
        }
        at = t->data[last].next;
    }
}

void cli_profile_tree(const cli_profile *p, const cli_machine *m, double total) {
    tree t = {0};
    add_branch(&t, -1, "", 0);
    for (size_t i = 0; i < p->rows.len; i++)
        CFX_SCOPE add_kernel(&t, m, &p->rows.data[i]);
    find_alike(&t);
    cli_print("\n%-36s %6s %12s %6s %10s %10s %9s  %s\n", "module", "calls", "time (us)", "share",
              "FLOPs", "bytes", "of limit", "bound by");
    print_branch(&t.data[0], "all", 0, total);
    print_below(&t, 0, 1, total);
    VEC_FREE(t);
    cfx__arena_release(&t.texts);
}
