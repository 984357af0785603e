/* Trees of tuples, lists and dicts: taking them apart and putting them together.
 *
 * Invariant: a spec is the tree itself with an ellipsis in the place of each leaf, so flattening,
 * unflattening and printing walk it in the same order. As in torch.utils._pytree, None is a leaf
 * and a dict's leaves come in the order of insertion. */
#include <cfx/tree.h>

#include "value.h"

static bool is_branch(cfx_value v) {
    return v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE || v.tag == CFX_TAG_DICT;
}

/* Rebuilds a tree, each leaf replaced by what `leaf` gives for it. */
typedef cfx_value leaf_fn(void *arg, cfx_value leaf);

static cfx_value map_leaves(cfx_value tree, leaf_fn *leaf, void *arg) {
    if (!is_branch(tree))
        return leaf(arg, tree);
    size_t mark = cfx_scope_open();
    cfx_value made;
    if (tree.tag == CFX_TAG_DICT) {
        cfx_dict *d = cfx_dict_new();
        for (int64_t i = 0; i < tree.dict_->len; i++)
            cfx_dict_put(d, tree.dict_->entries[i].key,
                         map_leaves(tree.dict_->entries[i].value, leaf, arg));
        made = cfx_dict_value(d);
    } else {
        made = cfx__value_like(tree);
        for (int64_t i = 0; i < tree.list_->len; i++)
            cfx_list_append(made.list_, map_leaves(tree.list_->items[i], leaf, arg));
    }
    return cfx_scope_return_value(mark, made);
}

static cfx_value take_leaf(void *leaves, cfx_value leaf) {
    cfx_list_append(leaves, leaf);
    return cfx_ellipsis();
}

cfx_value cfx_tree_flatten(cfx_value tree, cfx_list *leaves) {
    if (cfx_is_bad(tree))
        return tree;
    return map_leaves(tree, take_leaf, leaves);
}

int64_t cfx__tree_leaves(cfx_value spec) {
    if (!is_branch(spec))
        return 1;
    int64_t n = 0;
    if (spec.tag == CFX_TAG_DICT) {
        for (int64_t i = 0; i < spec.dict_->len; i++)
            n += cfx__tree_leaves(spec.dict_->entries[i].value);
        return n;
    }
    for (int64_t i = 0; i < spec.list_->len; i++)
        n += cfx__tree_leaves(spec.list_->items[i]);
    return n;
}

static bool fits(cfx_value spec, cfx_value tree) {
    if (!is_branch(spec))
        return !is_branch(tree);
    if (tree.tag != spec.tag)
        return false;
    bool same;
    if (spec.tag == CFX_TAG_DICT) {
        same = spec.dict_->len == tree.dict_->len;
        for (int64_t i = 0; same && i < spec.dict_->len; i++) {
            const cfx_value *v = cfx_dict_find(tree.dict_, spec.dict_->entries[i].key);
            same = v && fits(spec.dict_->entries[i].value, *v);
        }
        return same;
    }
    same = spec.spare == tree.spare && spec.list_->len == tree.list_->len;
    for (int64_t i = 0; same && i < spec.list_->len; i++)
        same = fits(spec.list_->items[i], tree.list_->items[i]);
    return same;
}

static void collect(cfx_value spec, cfx_value tree, cfx_list *leaves) {
    if (!is_branch(spec))
        cfx_list_append(leaves, tree);
    else if (spec.tag == CFX_TAG_DICT)
        for (int64_t i = 0; i < spec.dict_->len; i++)
            collect(spec.dict_->entries[i].value,
                    *cfx_dict_find(tree.dict_, spec.dict_->entries[i].key), leaves);
    else
        for (int64_t i = 0; i < spec.list_->len; i++)
            collect(spec.list_->items[i], tree.list_->items[i], leaves);
}

bool cfx__tree_flatten_as(cfx_value spec, cfx_value tree, cfx_list *leaves) {
    if (!fits(spec, tree))
        return false;
    collect(spec, tree, leaves);
    return true;
}

static cfx_value give_leaf(void *next, cfx_value leaf) {
    (void)leaf;
    const cfx_value **at = next;
    return *(*at)++;
}

cfx_value cfx_tree_unflatten(cfx_value spec, const cfx_list *leaves) {
    if (cfx_is_bad(spec))
        return spec;
    int64_t want = cfx__tree_leaves(spec), got = leaves ? leaves->len : 0;
    if (want != got) {
        size_t mark = cfx_scope_open();
        cfx__fail_lines(
            CFX_VALUE_ERROR, (cfx_site){0},
            "treespec.unflatten(leaves): `leaves` has length %lld but the spec refers to a "
            "pytree that holds %lld items (%s).",
            (long long)got, (long long)want, cfx_tree_spec_text(spec));
        cfx_scope_close(mark);
        return cfx_bad();
    }
    const cfx_value *next = leaves ? leaves->items : NULL;
    return map_leaves(spec, give_leaf, &next);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_spec(cfx__text *out, cfx_value spec, int indent);

static void put_child(cfx__text *out, cfx_value child, int64_t i, int indent) {
    if (i)
        cfx__text_printf(out, ",\n%*s", indent, "");
    put_spec(out, child, indent);
}

static void put_spec(cfx__text *out, cfx_value spec, int indent) {
    indent += 2;
    if (!is_branch(spec)) {
        cfx__text_putc(out, '*');
    } else if (spec.tag == CFX_TAG_DICT) {
        cfx__text_puts(out, "TreeSpec(dict, [");
        for (int64_t i = 0; i < spec.dict_->len; i++) {
            if (i)
                cfx__text_puts(out, ", ");
            cfx__repr(out, spec.dict_->entries[i].key);
        }
        cfx__text_puts(out, "], [");
        for (int64_t i = 0; i < spec.dict_->len; i++)
            put_child(out, spec.dict_->entries[i].value, i, indent);
        cfx__text_puts(out, "])");
    } else {
        const cfx_tree_type *type = cfx_tree_type_of(spec);
        cfx__text_printf(out, "TreeSpec(%s, ",
                         type && type->fields       ? "namedtuple"
                         : type                     ? type->name
                         : spec.tag == CFX_TAG_LIST ? "list"
                                                    : "tuple");
        if (type && type->fields)
            cfx__text_printf(out, "<class '%s'>, [", type->path);
        else
            cfx__text_puts(out, "None, [");
        for (int64_t i = 0; i < spec.list_->len; i++)
            put_child(out, spec.list_->items[i], i, indent);
        cfx__text_puts(out, "])");
    }
}

const char *cfx_tree_spec_text(cfx_value spec) {
    cfx__text out = {0};
    put_spec(&out, spec, 0);
    return cfx__text_take(&out);
}
