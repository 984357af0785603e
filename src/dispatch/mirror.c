/* Conjugates. In PyTorch conj() of a complex tensor is a view, conjugated where it is read. Here it
 * is a copy that knows what it mirrors: before a call reads it, it is made again if that was
 * written to, and what a call writes to it is written there as well. Views of it lie in its
 * storage, which has the note. */
#include "dispatch.h"

#include "registry.h"

typedef struct cfx__mirror {
    cfx_obj head;
    cfx_tensor *of;                 /* counted */
    uint32_t seen;                  /* the version of its storage that the copy shows */
    int64_t stride[CFX_MAX_DIMS];   /* of the copy, which has the sizes of `of` */
} mirror;

static void mirror_free(void *p) { cfx_drop(((mirror *)p)->of); }

static const cfx__obj_type mirror_type = {.name = "mirror", .free = mirror_free};

/* Memory that others use again, an arena's, is nothing to come back to. */
static bool stays(const cfx__storage *s) {
    return !s->fixed || s->release || s->size <= CFX__INLINE_STORAGE;
}

void cfx__mirror_make(cfx_tensor *copy, cfx_tensor *of) {
    const cfx__dispatch *d = cfx__dispatcher();
    const bool learns = d->grad == CFX_GRAD_ON && cfx__tensor_needs_grad(of);
    if (!cfx_ok() || !copy->data || !of->data || copy->head.flags & CFX__ON_CARD || learns ||
        !stays(of->storage))
        return;
    mirror *m = cfx__obj_make(&mirror_type, sizeof *m);
    m->of = cfx_keep(of);
    m->seen = of->storage->version;
    memcpy(m->stride, copy->stride, (size_t)copy->ndim * sizeof *m->stride);
    copy->storage->mirror = m;
    copy->head.flags |= CFX__MIRROR;
}

bool cfx__mirror_turned(const cfx_tensor *t) {
    bool turned = false;
    for (; t->head.flags & CFX__MIRROR; t = t->storage->mirror->of)
        turned = !turned;
    return turned;
}

/* The copy, of which t may be a part, as a tensor of its own. */
static cfx_tensor *whole_of(const cfx_tensor *t) {
    const mirror *m = t->storage->mirror;
    cfx_tensor *whole = cfx__tensor_alias(t, m->of->ndim, m->of->shape, m->stride, 0);
    whole->dtype = m->of->dtype;
    whole->head.flags &= ~(uint32_t)CFX__MIRROR;
    return whole;
}

static void copy_conjugate(cfx_tensor *to, cfx_tensor *from) {
    cfx_value one[] = {cfx_tensor_value(from)};
    cfx_value turned = cfx__op_run((cfx_site){0}, cfx_op_find("aten._conj_physical.default"), one);
    cfx_value args[] = {cfx_tensor_value(to), turned, cfx_bool(false)};
    if (cfx_ok())
        cfx__op_run((cfx_site){0}, cfx_op_find("aten.copy_.default"), args);
}

void cfx__mirror_refresh(const cfx_tensor *t) {
    if (!(t->head.flags & CFX__MIRROR) || !cfx_ok() || cfx__dispatcher()->fake)
        return;
    mirror *m = t->storage->mirror;
    cfx__mirror_refresh(m->of);
    if (m->of->storage->version == m->seen)
        return;
    const size_t mark = cfx_scope_open();
    m->seen = m->of->storage->version;
    copy_conjugate(whole_of(t), m->of);
    cfx_scope_close(mark);
}

void cfx__mirror_read(int n, const cfx_value *args) {
    for (int i = 0; i < n; i++) {
        if (args[i].tag == CFX_TAG_TENSOR)
            cfx__mirror_refresh(cfx_as_tensor(args[i]));
        else if (args[i].tag == CFX_TAG_LIST || args[i].tag == CFX_TAG_TUPLE)
            cfx__mirror_read((int)cfx_as_list(args[i])->len, cfx_as_list(args[i])->items);
    }
}

static void wrote(cfx_value v) {
    if (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE)
        for (int64_t i = 0; i < cfx_as_list(v)->len; i++)
            wrote(cfx_as_list(v)->items[i]);
    if (v.tag != CFX_TAG_TENSOR || !(cfx_as_tensor(v)->head.flags & CFX__MIRROR) || !cfx_ok())
        return;
    mirror *m = cfx_as_tensor(v)->storage->mirror;
    copy_conjugate(m->of, whole_of(cfx_as_tensor(v)));
    m->seen = m->of->storage->version;
}

void cfx__mirror_wrote(cfx_op *op, int n, const cfx_value *args) {
    const size_t mark = cfx_scope_open();
    for (int i = 0; i < n; i++)
        if (cfx__op_writes(op, args, i))
            wrote(args[i]);
    cfx_scope_close(mark);
}
