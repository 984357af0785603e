/* Steps of optimisers on cards: one launch for each parameter, by kernels that are compiled of the
 * rules of the host (kernels/optim.cu). Start at cfx__cuda_optim. */
#include "optim.h"

#include "device.h"
#include "kernels.h"

enum { THREADS = 256, WORDS = sizeof(cfx__optim_step) / 8 };
_Static_assert(sizeof(cfx__optim_step) == 8 * WORDS && WORDS == 15, "as the kernel takes a step");

/* Code that was compiled for a card, a rule and a dtype; kept as long as the process. One thread at
 * a time works on a card, so each is compiled once. */
static struct {
    int card;
    const char *rule;
    cfx_dtype dtype;
    cfx__cuda_code *code;
} kept[256];
static int nkept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cfx__cuda_code *find(int card, const char *rule, cfx_dtype dtype) {
    cfx__cuda_code *code = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < nkept && !code; i++)
        if (kept[i].card == card && kept[i].rule == rule && kept[i].dtype == dtype)
            code = kept[i].code;
    pthread_mutex_unlock(&lock);
    return code;
}

static void keep(int card, const char *rule, cfx_dtype dtype, cfx__cuda_code *code) {
    pthread_mutex_lock(&lock);
    if (nkept < COUNT(kept)) {
        kept[nkept].card = card;
        kept[nkept].rule = rule;
        kept[nkept].dtype = dtype;
        kept[nkept++].code = code;
    }
    pthread_mutex_unlock(&lock);
}

/* A kernel's text for parameters of a dtype; scope. */
static const char *text_of(const char *rule, cfx_dtype p) {
    const bool half = p == CFX_BF16 || p == CFX_F16;
    return cfx__text_format("#define T %s\n#define P %s\n#define %s\n#define RULE rule_%s\n%s"
                            "#ifndef CFX_PLAY\ntypedef long long int64_t;\n#endif\n"
                            "#define NAME(name) rule_##name\n"
                            "INLINE T rule_root(T x) { return sqrt(x); }\n%s%s",
                            p == CFX_F64 ? "double" : "float",
                            half ? "unsigned short" : "T", p == CFX_BF16 ? "BF16" : "HALF", rule,
                            cfx__cuda_text("base"), cfx__cuda_text("optim_step"),
                            cfx__cuda_text("optim"));
}

/* Borrowed; NULL, with an error. The card is entered. */
static const cfx__cuda_code *code_of(cfx__cuda_device *d, const char *rule, cfx_dtype p) {
    cfx__cuda_code *code = find(d->number, rule, p);
    if (code)
        return code;
    cfx__cuda_codes codes = {0};
    if (cfx__cuda_codes_ask(&codes, d, text_of(rule, p)) >= 0)
        cfx__cuda_codes_take(&codes, d, &code);
    cfx__cuda_codes_end(&codes);
    if (code)
        keep(d->number, rule, p, code);
    return code;
}

static bool launch(cfx__cuda_device *d, const cfx__optim_work *w) {
    const cfx__cuda_code *code = code_of(d, w->a->rule, (cfx_dtype)w->p->dtype);
    void *function = code ? cfx__cuda_function(code, "optim", 0) : NULL;
    if (!function)
        return false;
    uint64_t word[3 + CFX__MOMENTS + WORDS];
    void *arguments[COUNT(word)];
    int n = 0;
    word[n++] = (uintptr_t)w->p->data;
    word[n++] = (uintptr_t)w->g->data;
    for (int i = 0; i < CFX__MOMENTS; i++)
        word[n++] = w->s[i] ? (uintptr_t)w->s[i]->data : 0;
    word[n++] = (uint64_t)w->p->numel;
    memcpy(word + n, &w->k, sizeof w->k);
    for (size_t i = 0; i < COUNT(word); i++)
        arguments[i] = &word[i];
    const cfx__cuda_launching l = {
        .grid = {(unsigned)((w->p->numel + THREADS - 1) / THREADS), 1, 1},
        .block = {THREADS, 1, 1},
        .stream = d->stream,
    };
    return cfx__cuda_done(d, d->driver->launch(&l, function, arguments, NULL), "starting a kernel");
}

void cfx__cuda_optim(const cfx__optim_work *w, int n) {
    for (int i = 0, next; i < n && cfx_ok(); i = next) { /* neighbours on one card */
        const cfx_device where = w[i].p->storage->device;
        cfx__cuda_device *d = cfx__cuda_device_open(where.index);
        if (!d || !cfx__cuda_enter(d))
            return;
        bool fine = true;
        for (next = i; next < n && w[next].p->storage->device.index == where.index; next++)
            fine = fine && (!w[next].p->numel || launch(d, &w[next]));
        if (fine)
            cfx__cuda_wait(d);
        cfx__cuda_leave(d);
    }
}
