/* Cards: opening, memory, copies. */
#include <cfx/cuda.h>

#include "device.h"

#include <stdlib.h>

enum { CARDS = 16 };

enum { /* attributes of a device, as the driver numbers them */
       PROCESSORS = 16,
       PROCESSOR_THREADS = 39,
       MAJOR = 75,
       MINOR = 76,
       MANAGED = 83,
       SHARED_OPTIN = 97
};

enum { ATTACH_GLOBAL = 1, NON_BLOCKING = 1 };

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t working[CARDS];
static cfx__cuda_device cards[CARDS];

/* ---- answers --------------------------------------------------------------------------------- */

static const char *words_of(const cfx__cuda_driver *driver, int answer) {
    const char *text = NULL;
    if (driver->error_text(answer, &text) || !text)
        return cfx__text_format("error %d", answer);
    return text;
}

/* Answers after which nothing of the context can be used any more, as the driver's header tells
 * them: an error of the memory or of a link, an address that is none or not aligned, a trap, a
 * kernel that took too long. A launch that asks for too much is none of them. */
static bool is_fatal(int answer) {
    static const int fatal[] = {214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
    for (int i = 0; i < COUNT(fatal); i++)
        if (fatal[i] == answer)
            return true;
    return false;
}

bool cfx__cuda_done(cfx__cuda_device *d, int answer, const char *what) {
    if (!answer)
        return true;
    d->lost |= is_fatal(answer);
    cfx_fail(answer == CFX__CUDA_OUT_OF_MEMORY ? CFX_MEMORY_ERROR : CFX_RUNTIME_ERROR,
             (cfx_site){0}, "%s failed on cuda:%d (%s): %s%s", what, d->number, d->name,
             words_of(d->driver, answer), d->lost ? "; the card cannot be used any more" : "");
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool begun, forked;

/* A process that was forked from one that used the driver cannot use it, nor the memory of cards:
 * that is not there any more. Locks may have been held by threads that are not there either. */
static void after_fork(void) {
    forked = begun;
    pthread_mutex_init(&opening, NULL);
}

static int begin(const cfx__cuda_driver *driver) {
    static bool told;
    if (!told)
        told = !pthread_atfork(NULL, NULL, after_fork);
    begun = true;
    return driver->init(0);
}

int cfx__cuda_device_count(void) {
    static int n; /* as it was found, for a process that was forked since */
    const cfx__cuda_driver *driver = cfx_ok() && !forked ? cfx__cuda_driver_open() : NULL;
    if (!driver) {
        cfx__error_forgive();
        return forked ? n : 0;
    }
    pthread_mutex_lock(&opening);
    int now = 0;
    n = begin(driver) || driver->count(&now) ? 0 : now;
    now = n;
    pthread_mutex_unlock(&opening);
    return now;
}

static int attribute(const cfx__cuda_device *d, int which) {
    int v = 0;
    return d->driver->attribute(&v, which, d->handle) ? 0 : v;
}

static bool fill_in(cfx__cuda_device *d) {
    const cfx__cuda_driver *driver = d->driver;
    int version = 0;
    if (!cfx__cuda_done(d, driver->version(&version), "asking for the driver's version"))
        return false;
    if (version < 12000) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "the driver is of CUDA %d.%d; cfx needs that of 12.0 or newer", version / 1000,
                 version % 1000 / 10);
        return false;
    }
    if (!cfx__cuda_done(d, driver->get(&d->handle, d->number), "opening the card"))
        return false;
    driver->name(d->name, sizeof d->name, d->handle);
    d->major = attribute(d, MAJOR);
    d->minor = attribute(d, MINOR);
    d->processors = attribute(d, PROCESSORS);
    d->shared_most = attribute(d, SHARED_OPTIN);
    if (d->major < 7 || !attribute(d, MANAGED)) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "cuda:%d (%s, %d.%d) is too old: cfx needs 7.0 or newer, and memory that both "
                 "sides see",
                 d->number, d->name, d->major, d->minor);
        return false;
    }
    return true;
}

/* The context of a card and its stream, by whichever thread. */
static void *open_context(void *arg) {
    cfx__cuda_device *d = arg;
    d->opened = d->driver->retain(&d->context, d->handle);
    if (!d->opened)
        d->opened = d->driver->set_current(d->context);
    if (!d->opened)
        d->opened = d->driver->stream_create(&d->stream, NON_BLOCKING);
    return NULL;
}

static void wait_for(cfx__cuda_device *d) {
    if (d->opening)
        pthread_join(d->opener, NULL);
    d->opening = false;
}

/* At the end of a process that did not get so far as to use what it asked for. */
static void wait_for_all(void) {
    for (int i = 0; i < CARDS; i++)
        wait_for(&cards[i]);
}

static void begin_opening(cfx__cuda_device *d) {
    static bool told;
    if (!told)
        told = !atexit(wait_for_all);
    d->opening = told && !pthread_create(&d->opener, NULL, open_context, d);
    d->ready = true;
}

/* Whether a card has a context; else an error, and the next who asks tries again. */
static bool has_context(cfx__cuda_device *d) {
    wait_for(d);
    if (!d->stream)
        open_context(d);
    return cfx__cuda_done(d, d->opened, "opening the card");
}

static bool open_card(cfx__cuda_device *d, int n) {
    wait_for(d);
    *d = (cfx__cuda_device){.driver = cfx__cuda_driver_open(), .number = n};
    int count = 0;
    if (!d->driver)
        return false;
    const int answer = begin(d->driver);
    if (answer && answer != CFX__CUDA_NO_DEVICE) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "CUDA cannot be used here: %s",
                 words_of(d->driver, answer));
        return false;
    }
    if (!answer && d->driver->count(&count))
        count = 0;
    if (n >= count) {
        if (count)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no cuda:%d: cards here are 0 to %d",
                     n, count - 1);
        else
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "there is no card that CUDA can use");
        return false;
    }
    return fill_in(d);
}

cfx__cuda_device *cfx__cuda_device_open(int n) {
    n = n < 0 ? 0 : n;
    if (n >= CARDS) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no cuda:%d", n);
        return NULL;
    }
    if (forked) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                 "multiprocessing, you must use the 'spawn' start method");
        return NULL;
    }
    pthread_mutex_lock(&opening);
    cfx__cuda_device *d = &cards[n];
    const bool stale = d->driver && d->driver != cfx__cuda_driver_open(); /* a test's, before */
    bool fine = d->ready && !stale;
    if (!fine) {
        pthread_mutexattr_t own; /* a step of the host's may run a graph on the card */
        pthread_mutexattr_init(&own);
        pthread_mutexattr_settype(&own, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&working[n], &own);
        pthread_mutexattr_destroy(&own);
        fine = open_card(d, n);
        if (fine)
            begin_opening(d);
    }
    pthread_mutex_unlock(&opening);
    return fine ? d : NULL;
}

int64_t cfx__cuda_threads(int n) {
    const cfx__cuda_device *d = cfx_ok() ? cfx__cuda_device_open(n) : NULL;
    if (!d)
        cfx__error_forgive();
    return d ? (int64_t)d->processors * attribute(d, PROCESSOR_THREADS) : 0;
}

bool cfx__cuda_is_there(const cfx__cuda_device *d) {
    if (d->lost)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "cuda:%d (%s) was lost to an error before; a new process can use it", d->number,
                 d->name);
    return !d->lost;
}

bool cfx__cuda_enter(cfx__cuda_device *d) {
    pthread_mutex_lock(&working[d->number]);
    if (cfx__cuda_is_there(d) && has_context(d) &&
        cfx__cuda_done(d, d->driver->set_current(d->context), "going to the card"))
        return true;
    pthread_mutex_unlock(&working[d->number]);
    return false;
}

void cfx__cuda_leave(cfx__cuda_device *d) { pthread_mutex_unlock(&working[d->number]); }

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_in_limit(const cfx__cuda_device *d, int64_t bytes) {
    const size_t limit = cfx__ctx()->memory_limit;
    return !limit || (uint64_t)d->held + (uint64_t)bytes <= limit;
}

static int ask(const cfx__cuda_device *d, bool shared, int64_t bytes, cfx__cuda_address *at) {
    return shared ? d->driver->alloc_managed(at, (size_t)bytes, ATTACH_GLOBAL)
                  : d->driver->alloc(at, (size_t)bytes);
}

static cfx__cuda_address take(cfx__cuda_device *d, bool shared, int64_t bytes) {
    cfx__cuda_address at = 0;
    bytes = bytes ? bytes : 1;
    if (!is_in_limit(d, bytes)) /* what is kept for later may be what is lacking */
        cfx_cuda_empty_cache();
    if (!is_in_limit(d, bytes)) {
        cfx_fail(CFX_MEMORY_ERROR, (cfx_site){0},
                 "the memory limit of %zu bytes is reached on cuda:%d: %lld are held, %lld more "
                 "were asked for",
                 cfx__ctx()->memory_limit, d->number, (long long)d->held, (long long)bytes);
        return 0;
    }
    int answer = ask(d, shared, bytes, &at);
    if (answer == CFX__CUDA_OUT_OF_MEMORY) {
        cfx_cuda_empty_cache();
        answer = ask(d, shared, bytes, &at);
    }
    if (!cfx__cuda_done(d, answer,
                        cfx__text_format("asking for %lld bytes of memory", (long long)bytes)))
        return 0;
    const int64_t held = __atomic_add_fetch(&d->held, bytes, __ATOMIC_RELAXED);
    int64_t most = __atomic_load_n(&d->most, __ATOMIC_RELAXED);
    while (most < held && !__atomic_compare_exchange_n(&d->most, &most, held, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return at;
}

cfx__cuda_address cfx__cuda_alloc(cfx__cuda_device *d, int64_t bytes) {
    return take(d, false, bytes);
}

cfx__cuda_address cfx__cuda_alloc_shared(cfx__cuda_device *d, int64_t bytes) {
    return take(d, true, bytes);
}

void cfx__cuda_free(cfx__cuda_device *d, cfx__cuda_address at, int64_t bytes) {
    if (!at || forked)
        return;
    bytes = bytes ? bytes : 1;
    d->driver->set_current(d->context);
    d->driver->free(at);
    __atomic_fetch_sub(&d->held, bytes, __ATOMIC_RELAXED);
}

bool cfx__cuda_copy(cfx__cuda_device *d, cfx__cuda_address to, cfx__cuda_address from,
                    int64_t bytes) {
    return !bytes ||
           cfx__cuda_done(d, d->driver->copy(to, from, (size_t)bytes, d->stream), "a copy");
}

bool cfx__cuda_wait(cfx__cuda_device *d) {
    return cfx__cuda_done(d, d->driver->stream_wait(d->stream), "a kernel");
}
