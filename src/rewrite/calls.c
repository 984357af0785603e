/* Normalises calls: torch.relu(x), F.relu(x), x.relu() and torch.ops.aten.relu.default(x) are
 * one function of one argument. Start at cfx__call_of. */
#include "match.h"

#include "../ops/ops.h"

/* The operator that a second name stands for: multiply is mul. */
static cfx_op *unaliased(cfx_op *op) {
    return op->decompose == decompose_alias ? (cfx_op *)op->row : op;
}

static bool ends_in_place(const char *name) {
    size_t n = strlen(name);
    return n > 1 && name[n - 1] == '_' && name[n - 2] != '_';
}

/* In-place forms have keys of their own, and so has what writes to out=. */
static uint64_t key_of(const char *name, bool in_place, bool out) {
    uint64_t key = cfx__text_hash(name, strlen(name));
    return key + (in_place ? 1 : 0) + (out ? 2 : 0);
}

static uint64_t op_key(cfx_op *op, bool in_place) {
    const cfx__op_info *info = cfx__op_info_of(op);
    if (!info)
        return 0;
    bool out = info->form == CFX__OUT;
    if (info->form != CFX__FUNCTIONAL) {
        in_place |= info->form == CFX__INPLACE;
        op = info->functional;
    }
    const cfx__schema *s = cfx__op_info_of(unaliased(op))->schema;
    if (strcmp(s->ns, "aten") && strcmp(s->ns, "python")) {
        size_t mark = cfx_scope_open();
        uint64_t key = key_of(cfx__text_format("%s::%s", s->ns, s->name), in_place, out);
        cfx_scope_close(mark);
        return key;
    }
    if (!ends_in_place(s->name))
        return key_of(s->name, in_place, out);
    size_t mark = cfx_scope_open(); /* an in-place operator that has a row of its own */
    uint64_t key = key_of(cfx__string_new(s->name, strlen(s->name) - 1)->text, true, out);
    cfx_scope_close(mark);
    return key;
}

uint64_t cfx__target_key(cfx_opcode op, cfx_target t) {
    bool is_call = op == CFX_CALL_FUNCTION || op == CFX_CALL_METHOD;
    if (!is_call || t.object || (!t.fn && !t.op))
        return cfx__text_hash(t.name, strlen(t.name)) * 31 + op;
    if (!t.fn)
        return op_key(t.op, false);
    return op_key(t.fn->ops[0], ends_in_place(t.name));
}

/* F.relu(x, inplace=True): functions of torch.nn.functional have a flag for it. */
static int in_place_flag(const cfx__schema *s) {
    if (!strcmp(s->ns, "python"))
        for (int i = 0; i < s->nargs; i++)
            if (!strcmp(s->args[i].name, "inplace"))
                return i;
    return -1;
}

bool cfx__call_of(const cfx_node *n, cfx__call *out) {
    cfx_target t = n->target;
    out->key = cfx__target_key(n->op, t);
    out->op = NULL;
    out->schema = NULL;
    if ((n->op != CFX_CALL_FUNCTION && n->op != CFX_CALL_METHOD) || t.object || (!t.fn && !t.op))
        return false;
    cfx_dict *kw = cfx_as_dict(n->kwargs);
    cfx_args a = {(int)cfx_as_list(n->args)->len, cfx_as_list(n->args)->items, kw->len ? kw : NULL};
    cfx_op *op = t.op;
    if (t.fn)
        op = cfx__fn_overload((cfx_site){0}, t.fn, a, out->args);
    cfx__op_info *info = op ? cfx__op_info_of(op) : NULL;
    if (!info || (!t.fn && !cfx__bind(info->schema, (cfx_site){0}, a,
                                      CFX__BIND_EXACT | CFX__BIND_NUMBERS, out->args)))
        return false;
    out->op = op;
    out->schema = info->schema;
    out->named = !t.fn;
    int flag = in_place_flag(info->schema);
    if (flag >= 0 && out->args[flag].tag == CFX_TAG_BOOL && cfx_integer(out->args[flag]))
        out->key = op_key(op, true);
    return true;
}

bool cfx__arg_counts(const cfx__schema *s, int i) {
    return s->args[i].name[0] != '_' && i != in_place_flag(s);
}

int cfx__arg_like(const cfx__schema *s, const cfx__schema *of, int i) {
    if (s == of)
        return i;
    if (i == 0)
        return s->nargs ? 0 : -1; /* self, input, x */
    for (int k = 1; k < s->nargs; k++)
        if (!strcmp(s->args[k].name, of->args[i].name) ||
            cfx__schema_arg_named(&s->args[k], of->args[i].name))
            return k;
    bool alone = i < s->nargs && s->args[i].type == of->args[i].type;
    for (int k = 1; alone && k < of->nargs; k++)
        alone = !cfx__schema_arg_named(&of->args[k], s->args[i].name);
    return alone ? i : -1; /* train of one is training of the other */
}

bool cfx__call_commutes(const cfx__call *c) {
    if (!c->op || c->schema->nargs < 2)
        return false;
    bool commutes = (unaliased(c->op)->effects & CFX_COMMUTES) != 0;
    for (int i = 2; i < c->schema->nargs; i++) /* add(x, y, alpha=2) does not */
        commutes &= cfx_equal_values(c->args[i], c->schema->args[i].fallback);
    return commutes;
}

/* ---- names that are none --------------------------------------------------------------------- */

enum { MAX_NAME = 64, MAX_DISTANCE = 3 };

/* How many letters have to change to make one word of the other. */
static int distance(const char *a, const char *b) {
    int row[MAX_NAME + 1];
    int n = (int)strlen(b);
    if (n > MAX_NAME || strlen(a) > MAX_NAME)
        return MAX_NAME;
    for (int k = 0; k <= n; k++)
        row[k] = k;
    for (; *a; a++) {
        int corner = row[0]++;
        for (int k = 1; k <= n; k++) {
            int best = corner + (*a != b[k - 1]);
            best = row[k] + 1 < best ? row[k] + 1 : best;
            best = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            corner = row[k];
            row[k] = best;
        }
    }
    return row[n];
}

const char *cfx__nearest_operator(const char *name) {
    const char *dot = strrchr(name, '.'), *best = NULL;
    const char *last = dot && dot[1] ? dot + 1 : name;
    int least = MAX_DISTANCE + 1;
    for (int i = 0; i < cfx_op_count(); i++) {
        const cfx__op_info *info = cfx__op_info_of(cfx_op_at(i));
        int d = info ? distance(last, info->schema->name) : MAX_NAME;
        if (d < least) {
            least = d;
            best = info->schema->name;
        }
    }
    return best;
}
