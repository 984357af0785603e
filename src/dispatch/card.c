/* Calls on tensors of a card: checks that all arguments are on one device, and places the
 * results there. */
#include "../value/later.h"
#include "dispatch.h"

typedef struct {
    const cfx_tensor *card;  /* the first that is on one */
    const cfx_tensor *first; /* of those that have to be on one device, */
    const cfx_tensor *other; /* and the first that is not where that is */
    int argument;            /* the one that it belongs to */
} devices;

static bool is_beside(const cfx_tensor *a, const cfx_tensor *b) {
    return cfx__device_card(a->device) == cfx__device_card(b->device);
}

/* Numbers, and tensors without dims that the host has, go anywhere. */
static void look_at(devices *d, const cfx_tensor *t, int argument) {
    const bool on_card = t->head.flags & CFX__ON_CARD;
    if (on_card && !d->card)
        d->card = t;
    if (!on_card && (!t->ndim || t->device.type != CFX_CPU))
        return;
    if (!d->first)
        d->first = t;
    if (d->other || is_beside(t, d->first))
        return;
    d->other = t;
    d->argument = argument;
}

static void look_in(devices *d, cfx_value v, int argument) {
    if (v.tag == CFX_TAG_TENSOR)
        look_at(d, cfx_as_tensor(v), argument);
    else if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            look_in(d, cfx_as_list(v)->items[i], argument);
}

/* Whether the call itself needs its tensors on one device: others give them to what they call. */
static bool needs_one(const cfx_op_call *c) {
    const bool parts = c->op->effects & CFX_COMPOSITE && !c->op->kernel;
    return !c->fake && !parts && !cfx__dispatcher()->anywhere && !cfx__op_info_of(c->op)->python;
}

static const char *name_of(cfx_device d) { return cfx_value_str(cfx_device_value(d)); }

/* In the words of PyTorch, which has others for what goes element by element. */
static void refuse(const cfx_op_call *c, const devices *d) {
    const cfx__op_info *info = cfx__op_info_of(c->op);
    const cfx_op *plain = info->functional ? info->functional : c->op;
    const cfx_tensor *off = d->other == d->card ? d->first : d->other;
    if (plain->effects & CFX_POINTWISE)
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 "Expected all tensors to be on the same device, but found at least two devices, "
                 "%s and %s!",
                 name_of(d->card->device), name_of(off->device));
    else
        cfx_fail(CFX_RUNTIME_ERROR, c->at,
                 "Expected all tensors to be on the same device, but got %s is on %s, different "
                 "from other tensors on %s (when checking argument in method wrapper_CUDA_%s)",
                 info->schema->args[d->argument].name, name_of(d->other->device),
                 name_of(d->first->device), info->schema->name);
}

bool cfx__op_enter_card(const cfx_op_call *c) {
    devices d = {0};
    for (int i = 0; i < c->nargs; i++)
        look_in(&d, c->args[i], i);
    const bool any = c->op->effects & CFX_ANY_DEVICE;
    if (d.card->data && !cfx__later_rooms.card_executor(d.card->device.index))
        return false; /* lost, or of another process: the host cannot reach that memory either */
    if (d.other && needs_one(c)) {
        if (!any)
            refuse(c, &d);
        else if (c->args[1].tag == CFX_TAG_LIST && cfx_as_tensor(c->args[0]) != d.card &&
                 !is_beside(cfx_as_tensor(c->args[0]), d.card))
            cfx_fail(CFX_RUNTIME_ERROR, c->at,
                     "indices should be either on cpu or on the same device as the indexed tensor "
                     "(%s)",
                     name_of(cfx_as_tensor(c->args[0])->device));
    }
    cfx__ctx()->card = cfx__device_card((any ? cfx_as_tensor(c->args[0]) : d.card)->device);
    return cfx_ok();
}
