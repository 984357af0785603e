/* cfx show: the modules a program came from, as a tree with what each holds and does. Made of the
 * module stacks of the nodes and the names of the parameters; neighbours that are alike are shown
 * once. Start at cli_show_tree. */
#include "cost.h"

#include <string.h>

#include "../graph/graph.h"

/* One module. Numbers are its own until `sum` adds those of its children. */
typedef struct branch {
    const char *name; /* its last part of the path */
    const char *type; /* "Linear"; NULL: nothing was called, only what is inside */
    VEC(struct branch *) children;
    cfx__map index;
    int64_t parameters, bytes; /* bytes: of parameters, buffers and constants */
    int64_t ops;
    cli_sum flops, results; /* where costs are asked for */
    VEC(struct count {
        const char *name;
        int64_t n;
    })
    counts;         /* of its own operators, in order of appearance */
    cfx__map kinds; /* name of an operator to its number in counts plus one */
    uint64_t hash; /* equal for modules that are alike, names aside */
} branch;

typedef struct {
    cfx__arena arena;
    branch *root;
    cfx__map paths; /* path to branch */
    int width; /* of the first column */
    const cli_costs *costs; /* NULL: not asked for */
} tree;

/* ---- building -------------------------------------------------------------------------------- */

static branch *child_of(tree *t, branch *b, const char *name, size_t len) {
    branch *c = cfx__map_getn(&b->index, name, len);
    if (c)
        return c;
    c = cfx__arena_alloc(&t->arena, sizeof *c);
    memset(c, 0, sizeof *c);
    c->name = cfx__arena_copy(&t->arena, name, len);
    cfx__map_set(&b->index, c->name, c);
    VEC_PUSH(b->children, c);
    return c;
}

/* Levels of modules in modules, what follows in a longer path is one name; and the widest column.
 */
enum { DEEPEST = 100, WIDEST = 400 };

static branch *branch_at(tree *t, const char *path) {
    branch *known = *path ? cfx__map_get(&t->paths, path) : t->root;
    if (known)
        return known;
    branch *b = t->root;
    int depth = 0;
    for (const char *at = path, *dot;; at = dot + 1) {
        dot = ++depth < DEEPEST ? strchr(at, '.') : NULL;
        b = child_of(t, b, at, dot ? (size_t)(dot - at) : strlen(at));
        if (!dot)
            break;
    }
    cfx__map_set(&t->paths, cfx__arena_copy(&t->arena, path, strlen(path)), b);
    return b;
}

static const char *last_part(const char *dotted) {
    const char *dot = strrchr(dotted, '.');
    return dot ? dot + 1 : dotted;
}

/* The innermost module of a node; those on the way get their types. A second call of a module has
 * "@1" after its path. */
static branch *place(tree *t, const cfx_node *n) {
    cfx_value stack = cfx_node_get_meta(n, "nn_module_stack");
    branch *b = t->root;
    for (int64_t i = 0; stack.tag == CFX_TAG_DICT && i < cfx_as_dict(stack)->len; i++) {
        cfx_value level = cfx_as_dict(stack)->entries[i].value;
        bool pair = level.tag == CFX_TAG_TUPLE && cfx_as_list(level)->len == 2;
        const char *path = pair ? cfx_text(cfx_as_list(level)->items[0]) : NULL;
        const char *type = pair ? cfx_text(cfx_as_list(level)->items[1]) : NULL;
        if (!path || cfx__path_is_no_module(path))
            continue;
        const char *again = strchr(path, '@');
        b = branch_at(t, again ? cfx__string_new(path, (size_t)(again - path))->text : path);
        if (!b->type && type)
            b->type = cfx__arena_copy(&t->arena, last_part(type), strlen(last_part(type)));
    }
    return b;
}

/* "linear" of torch.ops.aten.linear.default, "prims.iota" of torch.ops.prims.iota.default. */
static const char *op_name(tree *t, const cfx_node *n) {
    cfx__text text = {0};
    cfx__target_text(&text, n->target);
    const char *name = last_part(text.data);
    size_t len = strlen(name);
    if (!strncmp(text.data, "torch.ops.", 10)) {
        const char *space = text.data + 10, *dot = strchr(space, '.');
        bool common = !strncmp(space, "aten.", 5) || !strncmp(space, "higher_order.", 13);
        name = common ? dot + 1 : space;
        len = dot ? (size_t)(dot + 1 + strcspn(dot + 1, ".") - name) : strlen(name);
    }
    const char *out = cfx__arena_copy(&t->arena, name, len);
    cfx__text_release(&text);
    return out;
}

static void count_op(branch *b, const char *name) {
    uintptr_t known = (uintptr_t)cfx__map_get(&b->kinds, name);
    b->ops++;
    if (known) {
        b->counts.data[known - 1].n++;
        return;
    }
    VEC_PUSH(b->counts, ((struct count){name, 1}));
    cfx__map_set(&b->kinds, name, (void *)(uintptr_t)b->counts.len);
}

static void add_graph(const char *path, cfx_module *m, void *user) {
    tree *t = user;
    (void)path;
    if (!m->graph)
        return;
    cfx_each_node(m->graph, n) {
        bool call = n->op >= CFX_CALL_FUNCTION && n->op <= CFX_CALL_MODULE;
        if (!call || cfx_node_is_getitem(n))
            continue;
        CFX_SCOPE
        count_op(place(t, n), op_name(t, n));
    }
}

static int64_t bytes_of(const cfx_tensor *x) {
    return x->numel * cfx_dtype_size((cfx_dtype)x->dtype);
}

static void add_tensors(tree *t, const cfx_program *p) {
    cfx_dict *seen = cfx_dict_new();
    for (int i = 0; i < p->ninputs; i++) {
        const cfx_tensor *x = cfx_program_tensor(p, &p->inputs[i]);
        if (!x)
            continue;
        const char *target = p->inputs[i].target, *dot = strrchr(target, '.');
        size_t above = dot ? (size_t)(dot - target) : 0;
        branch *b = branch_at(t, cfx__string_new(target, above)->text);
        cfx_value key = cfx_int((int64_t)(intptr_t)(x->data ? (const void *)x->data : x));
        if (x->numel && cfx_dict_find(seen, key)) /* tied: counted where it came first */
            continue;
        cfx_dict_put(seen, key, cfx_none());
        b->bytes += bytes_of(x);
        if (p->inputs[i].kind == CFX_IN_PARAMETER)
            b->parameters += x->numel;
    }
}

/* What nodes cost is their module's; what is in sub-graphs is in the node that has them. */
static void add_costs(tree *t, const cfx_program *p) {
    for (int i = 0; t->costs && i < t->costs->at[0]->n; i++) {
        const cfx_node_cost *n = &t->costs->at[0]->nodes[i];
        if (n->owner != p->module || n->node->op == CFX_PLACEHOLDER)
            continue;
        CFX_SCOPE {
            branch *b = place(t, n->node);
            cli_sum_node(t->costs, &b->flops, CLI_FLOPS, i);
            cli_sum_node(t->costs, &b->results, CLI_BYTES, i);
        }
    }
}

/* Adds up what is below, and hashes what there is. */
static void sum(branch *b) {
    b->hash = b->type ? cfx__text_hash(b->type, strlen(b->type)) : 1;
    for (size_t i = 0; i < b->counts.len; i++)
        b->hash =
            cfx__hash_mix(cfx__hash_mix(b->hash, cfx__text_hash(b->counts.data[i].name,
                                                                strlen(b->counts.data[i].name))),
                          (uint64_t)b->counts.data[i].n);
    for (size_t i = 0; i < b->children.len; i++) {
        branch *c = b->children.data[i];
        sum(c);
        b->parameters += c->parameters;
        b->bytes += c->bytes;
        b->ops += c->ops;
        cli_sum_add(&b->flops, &c->flops, 1);
        cli_sum_add(&b->results, &c->results, 1);
        b->hash = cfx__hash_mix(cfx__hash_mix(b->hash, c->hash),
                                cfx__text_hash(c->name, strlen(c->name)));
    }
    b->hash = cfx__hash_mix(
        cfx__hash_mix(cfx__hash_mix(b->hash, (uint64_t)b->parameters), (uint64_t)b->bytes),
        (uint64_t)b->ops);
    b->hash =
        cfx__hash_mix(cfx__hash_mix(b->hash, (uint64_t)b->flops.at[0]), (uint64_t)b->results.at[0]);
}

static void release(branch *b) {
    for (size_t i = 0; i < b->children.len; i++)
        release(b->children.data[i]);
    VEC_FREE(b->children);
    VEC_FREE(b->counts);
    cfx__map_release(&b->kinds);
    cfx__map_release(&b->index);
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool is_number(const char *text) { return *text && !text[strspn(text, "0123456789")]; }

/* How many children from number i on are alike and numbered. */
static size_t alike(const branch *b, size_t i) {
    size_t n = 1;
    const branch *first = b->children.data[i];
    if (!is_number(first->name))
        return 1;
    while (i + n < b->children.len && b->children.data[i + n]->hash == first->hash &&
           is_number(b->children.data[i + n]->name))
        n++;
    return n;
}

static const char *label(const branch *b, size_t i, size_t n) {
    const branch *c = b->children.data[i];
    if (n > 1)
        return cfx__text_format("(%s-%s): %zu x %s, each", c->name,
                                b->children.data[i + n - 1]->name, n,
                                c->type ? c->type : "modules");
    return c->type ? cfx__text_format("%s: %s", c->name, c->type) : c->name;
}

enum { GUIDE = 3, KINDS = 4 }; /* columns a level; kinds of operators that are named */

static void measure(tree *t, const branch *b, int depth) {
    for (size_t i = 0, n; i < b->children.len; i += n) {
        n = alike(b, i);
        CFX_SCOPE
        {
            int width = GUIDE * depth + (int)strlen(label(b, i, n));
            t->width = width > t->width && width <= WIDEST ? width : t->width;
        }
        measure(t, b->children.data[i], depth + 1);
    }
}

static void put_counts(const branch *b) {
    size_t shown = b->counts.len <= KINDS + 1 ? b->counts.len : KINDS;
    for (size_t i = 0; i < shown; i++) {
        cli_print("%s%s", i ? ", " : "  ", b->counts.data[i].name);
        if (b->counts.data[i].n > 1)
            cli_print(" %lld", (long long)b->counts.data[i].n);
    }
    if (b->counts.len > shown)
        cli_print(" and %zu kinds more", b->counts.len - shown);
}

static void put_row(tree *t, const char *guides, int depth, const char *text, const branch *b) {
    int gap = t->width - GUIDE * depth - (int)strlen(text);
    cli_dim(true);
    cli_print("%s", guides);
    cli_dim(false);
    cli_print("%s%*s %14s %10s %7lld", text, gap > 0 ? gap : 0, "", cli_count(b->parameters),
              cli_bytes(b->bytes), (long long)b->ops);
    if (t->costs) {
        cli_print("  %10s  %s", cli_sum_text(t->costs, &b->flops),
                  cli_sum_text(t->costs, &b->results));
    } else {
        put_counts(b);
    }
    cli_print("\n");
}

static void put_children(tree *t, const branch *b, const char *guides, int depth) {
    for (size_t i = 0, n; i < b->children.len; i += n) {
        n = alike(b, i);
        bool last = i + n == b->children.len;
        CFX_SCOPE
        {
            put_row(t, cfx__text_format("%s%s", guides, last ? "└─ " : "├─ "), depth,
                    label(b, i, n), b->children.data[i]);
            put_children(t, b->children.data[i],
                         cfx__text_format("%s%s", guides, last ? "   " : "│  "), depth + 1);
        }
    }
}

/* What a node computes; where nothing is noted, the type of ONNX's that has no tensors here. */
static const char *brief_of(const cfx_node *n) {
    const char *type = n ? cfx_text(cfx_node_get_meta(n, "onnx_type")) : NULL;
    if (n && cfx_node_result(n).kind != CFX_RESULT_UNKNOWN)
        return cli_brief(cfx_node_result(n).value);
    return type ? type : "not known";
}

static void put_signature(const cfx_program *p) {
    cfx_graph *g = p->module->graph;
    for (int i = 0, k = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        cfx_node *n = cfx_graph_find(g, p->inputs[i].name);
        cli_print("in%-4d %s: %s\n", k++, p->inputs[i].name,
                  p->inputs[i].constant ? cfx_value_repr(p->inputs[i].value) : brief_of(n));
    }
    for (int i = 0, k = 0; i < p->noutputs; i++) {
        const cfx_output_spec *o = &p->outputs[i];
        cfx_node *n = o->name ? cfx_graph_find(g, o->name) : NULL;
        const char *brief = n ? brief_of(n) : cfx_value_repr(o->value);
        if (o->kind == CFX_OUT_USER || o->kind == CFX_OUT_LOSS)
            cli_print("out%-3d %s: %s\n", k++, o->name ? o->name : "constant", brief);
        else if (o->target)
            cli_print("writes %s: %s\n", o->target, brief);
    }
}

/* A row of the table `modules` for each, whose children follow it. */
static void note_modules(const tree *t, const branch *b, const char *path) {
    cli_answer_row("modules", cfx_dict_of("module", path, "type",
                                          b->type ? cfx_string_value(b->type) : cfx_none(),
                                          "parameters", b->parameters, "bytes", b->bytes, "ops",
                                          b->ops, "flops", cli_sum_value(t->costs, &b->flops),
                                          "results", cli_sum_value(t->costs, &b->results)));
    for (size_t i = 0; i < b->children.len; i++)
        CFX_SCOPE {
            const branch *c = b->children.data[i];
            note_modules(t, c, *path ? cfx__text_format("%s.%s", path, c->name) : c->name);
        }
}

void cli_show_tree(const cfx_program *p, const cli_costs *costs) {
    tree t = {.costs = costs};
    branch root = {.name = ""};
    t.root = &root;
    cfx_module_walk(p->module, add_graph, &t);
    add_tensors(&t, p);
    add_costs(&t, p);
    sum(&root);
    const char *name = root.type ? root.type : p->module->type;
    t.width = (int)strnlen(name, WIDEST);
    measure(&t, &root, 1);
    put_signature(p);
    cli_print("\n%-*s %14s %10s %7s  %s\n", t.width, "module", "parameters", "bytes", "ops",
              costs ? "     FLOPs  results (bytes)" : "of its own");
    put_row(&t, "", 0, name, &root);
    put_children(&t, &root, "", 1);
    if (costs && cli_answers())
        note_modules(&t, &root, "");
    release(&root);
    cfx__map_release(&t.paths);
    cfx__arena_release(&t.arena);
}
