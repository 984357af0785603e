/* Symbols and their sizes in each world; see worlds.h. */
#include <cfx/ops.h>

#include "relations.h"
#include "../value/walk.h"

/* ---- symbols --------------------------------------------------------------------------------- */

static void relations_drop(cfx__relation *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        cfx_value_drop(all[i].a);
        cfx_value_drop(all[i].b);
    }
}

void cfx__relations_free(cfx__relations *all) {
    relations_drop(all->data, all->len);
    VEC_FREE(*all);
}

void cfx__worlds_free(cfx__worlds *w) {
    for (size_t i = 0; i < w->symbols.len; i++)
        cfx__free(w->symbols.data[i].name);
    for (size_t i = 0; i < w->totals.len; i++) {
        cfx_value_drop(w->totals.data[i].sum);
        cfx_value_drop(w->totals.data[i].total);
    }
    for (size_t i = 0; i < w->replaced.len; i++) {
        cfx__free(w->replaced.data[i].name);
        cfx__free(w->replaced.data[i].by);
        cfx__free(w->replaced.data[i].input);
    }
    VEC_FREE(w->replaced);
    cfx__relations_free(&w->checks);
    cfx__relations_free(&w->asserted);
    cfx__relations_free(&w->asked);
    cfx__relations_free(&w->implied);
    cfx__relations_free(&w->conditions);
    cfx__worlds_forget_extra(w, true);
    VEC_FREE(w->extra);
    VEC_FREE(w->symbols);
    VEC_FREE(w->totals);
}

bool cfx__symbol_is_size(const cfx__symbol *s) { return *s->name != 'u' && *s->name != 'z'; }

cfx__symbol *cfx__worlds_find(const cfx__worlds *w, const char *name) {
    for (size_t i = 0; i < w->symbols.len; i++)
        if (!strcmp(w->symbols.data[i].name, name))
            return &w->symbols.data[i];
    for (size_t i = 0; i < w->replaced.len; i++)
        if (!strcmp(w->replaced.data[i].name, name))
            return cfx__worlds_find(w, w->replaced.data[i].by);
    return NULL;
}

void cfx__worlds_add(cfx__worlds *w, const char *name, int64_t least, int64_t most, int64_t hint) {
    if (cfx__worlds_find(w, name))
        return;
    cfx__symbol s = {.name = cfx__text_copy(name, strlen(name)),
                     .least = least, .most = most, .hint = hint};
    VEC_PUSH(w->symbols, s);
}

void cfx__worlds_forget_unknown(cfx__worlds *w) {
    size_t kept = 0;
    for (size_t i = 0; i < w->symbols.len; i++) {
        if (!cfx__symbol_is_size(&w->symbols.data[i]))
            cfx__free(w->symbols.data[i].name);
        else
            w->symbols.data[kept++] = w->symbols.data[i];
    }
    w->symbols.len = kept;
    relations_drop(w->checks.data, w->checks.len);
    w->checks.len = 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static uint64_t scatter(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Whether another symbol has this size in world k, or this one in another world. */
static bool is_taken(const cfx__worlds *w, const cfx__symbol *s, int k, int64_t size) {
    for (size_t i = 0; i < w->symbols.len; i++)
        if (&w->symbols.data[i] < s && w->symbols.data[i].size.at[k] == size)
            return true;
    for (int i = 0; i < k; i++)
        if (s->size.at[i] == size)
            return true;
    return false;
}

int64_t cfx__symbol_largest(const cfx__symbol *s) {
    return s->picked && s->picked < s->most ? s->picked : s->most;
}

int64_t cfx__symbol_smallest(const cfx__symbol *s) {
    int64_t least = s->least < 2 ? 2 : s->least;
    if (least >= s->most)
        least = s->least < 1 ? 1 : s->least;
    return least > s->most ? s->most : least;
}

/* World 1 is as small as can be. In worlds 2 and 3 sizes without bound are large, each of another
 * order of magnitude: the first symbol the smallest, then the largest. In the others sizes are
 * around that of the example, each symbol in the lower half in three and in the upper in three; so
 * of two symbols that may be either way round each is the larger one somewhere. */
enum { SMALL = 1, RISING = 2, FALLING = 3, NEAR = 48, FAR = 1000 };
/* Where sizes that depend on data are as small as can be. */
enum { ONE = 4, NONE = 7 };

/* Sizes from *from on, *span of them, that a symbol may have in world k. */
static void narrow(const cfx__worlds *w, const cfx__symbol *s, int k, int64_t *from,
                   uint64_t *span) {
    static const int upper[] = {7, 56, 11, 52, 13, 50, 14, 49, 19, 44}; /* three of six */
    int64_t i = s - w->symbols.data, n = (int64_t)w->symbols.len;
    int64_t far = FAR * (k == FALLING ? n - i : i + 1);
    if ((k == RISING || k == FALLING) && *span > (uint64_t)far + NEAR)
        *from += far;
    if (*span > NEAR)
        *span = NEAR;
    if (k <= FALLING || *span < 4)
        return;
    *span /= 2;
    if (upper[i % COUNT(upper)] >> (k - FALLING - 1) & 1)
        *from += (int64_t)*span;
}

/* Hints and ranges come from files: sums of them are formed wider than they are. */
static int64_t capped(__int128 n) {
    return n > INT64_MAX ? INT64_MAX : n < INT64_MIN ? INT64_MIN : (int64_t)n;
}

/* The size, or one near it that the symbol may have. */
static int64_t stepped(const cfx__symbol *s, int64_t size) {
    if (s->by < 2)
        return size;
    __int128 past = ((__int128)size - s->hint) % s->by;
    __int128 at = size - (past < 0 ? past + s->by : past);
    return capped(at >= s->least ? at : at + s->by);
}

/* Worlds beyond the first few are next to each other: every remainder is seen. */
static int64_t next_to(const cfx__symbol *s, int i) {
    __int128 from = cfx__symbol_smallest(s), size = s->hint > from ? s->hint : from;
    __int128 by = s->by ? s->by : 1;
    if (size > s->most - (CFX__MANY_WORLDS - CFX__FEW_WORLDS) * by)
        size = from;
    size += 1 + i * by;
    return size <= s->most ? capped(size) : s->most;
}

/* The number, or one that the symbol may be. */
static int64_t in_range(const cfx__symbol *s, __int128 n, int k) {
    if (n >= s->least && n <= s->most)
        return capped(n);
    __int128 span = (__int128)s->most - s->least + 1;
    __int128 past = span > 0 ? (k * 7 + 1) % (span > 64 ? 64 : span) : 0;
    return capped(n > s->most ? s->most - past : s->least + past);
}

/* A number that a loop carries: 0, 1 and negative ones among them, which a program might tell from
 * others; or, where it can have only some, those that follow on the first. */
static int64_t any_number(const cfx__worlds *w, const cfx__symbol *s, int k, int near) {
    static const int64_t far[CFX__FEW_WORLDS] = {0, 3, 1009, 1, -1, 7, -5, 12, 29, 2};
    static const int64_t next[CFX__FEW_WORLDS] = {0, 1, 2, 3, 0, 2, 1, 3, 2, 1};
    int64_t i = s - w->symbols.data;
    if (!k || near > 1)
        return in_range(s, (__int128)s->hint + next[k % CFX__FEW_WORLDS], k);
    if (near || k >= CFX__FEW_WORLDS)
        return in_range(s, (__int128)s->hint + k, k);
    return in_range(s, far[k] + (far[k] > 1 || far[k] < -1 ? far[k] * i : 0), k);
}

bool cfx__worlds_nearer(cfx__worlds *w) {
    bool any = false;
    for (size_t i = 0; i < w->symbols.len; i++)
        any |= w->symbols.data[i].any;
    return any && w->near++ < 2;
}

bool cfx__worlds_larger(cfx__worlds *w) {
    bool any = false;
    for (size_t i = 0; i < w->symbols.len; i++)
        any |= w->bare && *w->symbols.data[i].name == 'u';
    w->bare = false;
    return any;
}

bool cfx__worlds_coarser(cfx__worlds *w) {
    enum { COARSEST = 64 };
    bool any = false;
    if (w->guards && w->guards->len && !w->obeys)
        return w->obeys = true;
    for (size_t i = 0; i < w->symbols.len; i++) {
        cfx__symbol *s = &w->symbols.data[i];
        bool fits = *s->name == 's' && s->by < COARSEST;
        if (fits)
            s->by = s->by ? 2 * s->by : 2;
        any |= fits;
    }
    return any;
}

/* A size that is some steps from that of the example, others for each symbol and world. */
static int64_t near_example(const cfx__worlds *w, const cfx__symbol *s, int k, int attempt) {
    enum { WIDTH = 29 };
    int64_t i = s - w->symbols.data, step = w->step;
    if (w->held == i + 1)
        return s->hint;
    uint64_t room = step > 0 ? ((uint64_t)s->most - (uint64_t)s->hint) / (uint64_t)step
                             : (uint64_t)(s->hint - cfx__symbol_smallest(s)) / (uint64_t)-step;
    if (s->hint < cfx__symbol_smallest(s) || !room)
        return s->hint;
    int64_t apart = w->held == CFX__RISING    ? i
                    : w->held == CFX__FALLING ? (int64_t)w->symbols.len - 1 - i
                                              : 0;
    apart *= FAR * step;
    if (step < 0 || s->hint + apart > s->most - WIDTH * step)
        apart = 0;
    uint64_t past = (uint64_t)k * (uint64_t)(i % 5 * 2 + 3) + (uint64_t)(i / 5 + attempt);
    return s->hint + apart + step * (int64_t)(1 + past % (room < WIDTH ? room : WIDTH));
}

/* Whether a number of which data decides that it is one or the other is the lesser in world k: in
 * world 0 never, in world 1 always. */
static bool is_least(const cfx__worlds *w, const cfx__symbol *s, int k, int attempt) {
    const uint64_t i = (uint64_t)(s - w->symbols.data);
    return k == SMALL || (k && scatter(i * 4099 + (uint64_t)k * 131 + (uint64_t)attempt * 17) & 1);
}

static int64_t choose(const cfx__worlds *w, const cfx__symbol *s, int k, int attempt) {
    enum { TRIES = 32 };
    int64_t from = cfx__symbol_smallest(s), size = from;
    bool hinted = s->hint >= s->least && s->hint <= s->most && s->hint > 0;
    if (s->any || (s->least < 0 && attempt))
        return any_number(w, s, k, attempt > w->near ? attempt : w->near);
    if (w->bare && *s->name == 'u' && !s->joined && !s->least && !attempt &&
        (k == ONE || k == NONE))
        return k == ONE;
    if (k == 0 && hinted && !attempt)
        return s->hint;
    if (w->step && cfx__symbol_is_size(s) && hinted)
        return near_example(w, s, k, attempt);
    if (k >= CFX__FEW_WORLDS && !attempt)
        return stepped(s, next_to(s, k - CFX__FEW_WORLDS));
    if (*s->name == 'u' && from == s->most && s->least < from) /* nothing larger to choose from */
        return is_least(w, s, k, attempt) ? s->least : from;
    if (attempt && hinted && s->hint > from)
        from = s->hint; /* smaller ones may be too small for what is done with them */
    uint64_t span = (uint64_t)s->most - (uint64_t)from;
    span += span < UINT64_MAX;
    narrow(w, s, k, &from, &span);
    for (int i = 0; i < TRIES; i++) {
        uint64_t salt = scatter((uint64_t)(s - w->symbols.data) * 4099 + (uint64_t)k * 131 +
                                (uint64_t)attempt * 17 + (uint64_t)i);
        size = stepped(s, from + (int64_t)((k == SMALL ? (uint64_t)i : salt) % span));
        if (!is_taken(w, s, k, size))
            break;
    }
    return size;
}

/* ---- expressions ----------------------------------------------------------------------------- */

typedef struct {
    const cfx__worlds *worlds;
    int k;
} place;

static bool size_of(const struct cfx_sym *name, void *user, int64_t *out) {
    const place *p = user;
    const cfx__symbol *s = cfx__worlds_find(p->worlds, name->name);
    if (s)
        *out = s->size.at[p->k];
    return s != NULL;
}

bool cfx__worlds_eval(const cfx__worlds *w, int k, cfx_value v, int64_t *out) {
    if (v.tag == CFX_TAG_SYM)
        return cfx__sym_eval(cfx_as_sym(v), size_of, &(place){w, k}, out);
    *out = v.tag == CFX_TAG_INT ? cfx_as_int(v) : 0;
    return v.tag == CFX_TAG_INT;
}

static cfx_value no_value(cfx_value size) {
    cfx__fail_unknown((cfx_site){0}, "the size %s has no value", cfx_value_repr(size));
    return cfx_bad();
}

cfx_value cfx__worlds_value(const cfx__worlds *w, int k, cfx_value v) {
    int64_t n;
    if (v.tag != CFX_TAG_SYM)
        return v;
    return cfx__worlds_eval(w, k, v, &n) ? cfx_int(n) : no_value(v);
}

static int sizes_of(const cfx__worlds *w, int k, cfx_value list, int64_t *out) {
    if ((list.tag != CFX_TAG_TUPLE && list.tag != CFX_TAG_LIST) ||
        cfx_as_list(list)->len > CFX_MAX_DIMS)
        return -1;
    for (int64_t i = 0; i < cfx_as_list(list)->len; i++) {
        cfx_value v = cfx_as_list(list)->items[i]; /* be it a text, for what no file can mean */
        if (!cfx__worlds_eval(w, k, v, &out[i])) {
            no_value(v);
            return -1;
        }
    }
    return (int)cfx_as_list(list)->len;
}

cfx_value cfx__worlds_tensor(const cfx__worlds *w, int k, cfx_value val) {
    if (val.tag == CFX_TAG_TENSOR)
        return val;
    if (val.tag != CFX_TAG_DICT)
        return cfx_none();
    cfx_value dtype = cfx_dict_get(cfx_as_dict(val), "dtype"),
              device = cfx_dict_get(cfx_as_dict(val), "device");
    int64_t shape[CFX_MAX_DIMS], stride[CFX_MAX_DIMS];
    int n = sizes_of(w, k, cfx_dict_get(cfx_as_dict(val), "shape"), shape);
    int m = n < 0 ? -1 : sizes_of(w, k, cfx_dict_get(cfx_as_dict(val), "stride"), stride);
    if (n < 0 || dtype.tag != CFX_TAG_DTYPE)
        return cfx_none();
    cfx_tensor *t = cfx__tensor_empty((cfx_site){0}, cfx_as_dtype(dtype), true, n, shape,
                                      m == n ? stride : NULL);
    if (!cfx__obj_is_bad(t) && device.tag == CFX_TAG_DEVICE)
        cfx__tensor_place(t, cfx_as_device(device));
    return cfx_tensor_value(t);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int terms_of(const struct cfx_sym *e) {
    return e->op == CFX__SYM_ADD ? terms_of(e->a) + terms_of(e->b) : 1;
}

/* Gives the symbols of a sum values that make up the total; what is left goes to the last. */
static int64_t share_out(cfx__worlds *w, int k, const struct cfx_sym *e, int64_t total, int salt) {
    if (e->op == CFX__SYM_NAME) {
        cfx__worlds_find(w, e->name)->size.at[k] = total;
        return total;
    }
    int left = terms_of(e->a), all = left + terms_of(e->b);
    int64_t part = total / all * left, room = part > left ? part - left : 0;
    uint64_t chosen = scatter((uint64_t)(k * 31 + all * 7 + salt));
    if (room > 1)
        part -= (int64_t)(chosen % (uint64_t)room);
    else if (total > 0) /* few for so many: some get none, so that none has always the same */
        part = (int64_t)(chosen % ((uint64_t)total + 1));
    share_out(w, k, e->a, part, salt);
    share_out(w, k, e->b, total - part, salt);
    return total;
}

static int chosen_worlds(const cfx__worlds *w) { return w->most ? w->most : CFX__FEW_WORLDS; }

int cfx__worlds_count(const cfx__worlds *w) { return chosen_worlds(w) + (int)w->extra.len; }

bool cfx__worlds_again(cfx__worlds *w, bool guessed) {
    bool again = guessed && !w->most;
    if (again)
        w->most = CFX__MANY_WORLDS;
    return again;
}

/* The first check that does not hold in world k; NULL: all do. */
static const cfx__relation *failing(const cfx__worlds *w, int k) {
    for (size_t i = 0; i < w->checks.len; i++)
        if (!cfx__relation_holds(w, k, &w->checks.data[i]))
            return &w->checks.data[i];
    for (size_t i = 0; i < w->asserted.len; i++)
        if (!cfx__relation_holds(w, k, &w->asserted.data[i]))
            return &w->asserted.data[i];
    return NULL;
}

bool cfx__worlds_checked(const cfx__worlds *w, int k) { return !failing(w, k); }

/* Other numbers that are data, where the program checks what these are not: one at a time, and now
 * and then all. */
void cfx__worlds_mend(cfx__worlds *w, int k) {
    enum { TRIES = 512, REACH = 40, PATIENCE = 32 };
    for (int t = 1; t < TRIES; t++) {
        const cfx__relation *r = failing(w, k);
        if (!r)
            return;
        uint64_t salt = scatter((uint64_t)(t * 8191 + k * 131));
        if (t % PATIENCE)
            cfx__relation_mend(w, k, r, salt);
        for (size_t i = 0; !(t % PATIENCE) && i < w->symbols.len; i++) {
            cfx__symbol *s = &w->symbols.data[i];
            salt = scatter(salt + i * 31);
            if (*s->name == 'u')
                s->size.at[k] = in_range(s, (__int128)(salt % REACH), (int)(salt % 61));
        }
    }
}

/* A size around that of the example, `span` of them; every other one is the example's. Without one
 * it is the smallest. */
static int64_t choose_near(const cfx__worlds *w, const cfx__symbol *s, int k, int64_t span,
                           int salt) {
    uint64_t chosen =
        scatter((uint64_t)(s - w->symbols.data) * 4099 + (uint64_t)k * 131 + (uint64_t)salt);
    int64_t from = cfx__symbol_smallest(s), size = s->hint > 0 ? s->hint : from;
    if (chosen & 1)
        size += (int64_t)((chosen >> 1) % (uint64_t)span) - span / 2;
    return stepped(s, size < from ? from : size > s->most ? s->most : size);
}

/* Sizes that the program is made for: those of inputs are taken closer to the example's, until its
 * guards hold. */
static void choose_allowed(cfx__worlds *w, int k, int attempt) {
    enum { TRIES = 96, EACH = 16 };
    for (int i = 0; i < TRIES && w->obeys && cfx_ok() && !cfx__worlds_allow(w, k); i++)
        for (size_t j = 0; j < w->symbols.len; j++) {
            cfx__symbol *s = &w->symbols.data[j];
            if (*s->name == 's')
                s->size.at[k] = choose_near(w, s, k, (2 * NEAR >> i / EACH) + 1, i + attempt * 997);
        }
}

static void choose_all(cfx__worlds *w, int k, int attempt) {
    const int64_t *extra = k >= chosen_worlds(w) && k < cfx__worlds_count(w)
                               ? w->extra.data[k - chosen_worlds(w)]
                               : NULL;
    for (size_t i = 0; i < w->symbols.len; i++) {
        cfx__symbol *s = &w->symbols.data[i];
        s->size.at[k] =
            extra && cfx__symbol_is_size(s) ? extra[i] : choose(w, s, k, attempt);
    }
    choose_allowed(w, k, attempt);
    for (size_t i = 0; i < w->totals.len; i++) {
        int64_t total, now;
        if (cfx__worlds_eval(w, k, w->totals.data[i].total, &total) &&
            (!w->totals.data[i].at_most ||
             (cfx__worlds_eval(w, k, w->totals.data[i].sum, &now) && now > total)))
            share_out(w, k, cfx_as_sym(w->totals.data[i].sum), total, attempt + 97 * (int)i);
    }
    cfx__worlds_mend(w, k);
}

/* Sizes of inputs that are not much larger than those of the example, or just these. */
static void choose_small(cfx__worlds *w, int k, int salt, bool example) {
    for (size_t i = 0; i < w->symbols.len; i++) {
        cfx__symbol *s = &w->symbols.data[i];
        int64_t least = cfx__symbol_smallest(s), span = 2 * s->hint + 8;
        if (!cfx__symbol_is_size(s))
            continue;
        span = span < s->most - least ? span : s->most - least;
        uint64_t any = scatter((uint64_t)(k * 977 + salt) * 31 + i);
        s->size.at[k] = example ? s->size.at[0] : least + (int64_t)(any % (uint64_t)(span + 1));
    }
}

void cfx__worlds_choose(cfx__worlds *w, int k, int attempt) {
    enum { TRIES = 50, SMALL_TRIES = 2000 };
    choose_all(w, k, attempt);
    for (int i = 1; i < TRIES && k && !cfx__worlds_hold(w, k); i++)
        choose_all(w, k, attempt + i);
    for (int i = 1; i <= SMALL_TRIES && k && !cfx__worlds_hold(w, k); i++)
        choose_small(w, k, i, i == SMALL_TRIES);
}

/* ---- what is asked of sizes ------------------------------------------------------------------ */

void cfx__worlds_require(cfx__worlds *w, cfx__relation r) {
    cfx_value_keep(r.a);
    cfx_value_keep(r.b);
    VEC_PUSH(w->conditions, r);
}

bool cfx__worlds_hold(const cfx__worlds *w, int k) {
    for (size_t i = 0; i < w->conditions.len; i++)
        if (!cfx__relation_holds(w, k, &w->conditions.data[i]))
            return false;
    return true;
}

bool cfx__worlds_add_extra(cfx__worlds *w, int k) {
    if (w->extra.len >= CFX__EXTRA_WORLDS)
        return false;
    int64_t *sizes = cfx__alloc0((w->symbols.len + 1) * sizeof *sizes);
    for (size_t i = 0; i < w->symbols.len; i++)
        sizes[i] = w->symbols.data[i].size.at[k];
    VEC_PUSH(w->extra, sizes);
    return true;
}

void cfx__worlds_forget_extra(cfx__worlds *w, bool all) {
    while (w->extra.len) {
        cfx__free(w->extra.data[--w->extra.len]);
        if (!all)
            break;
    }
}
