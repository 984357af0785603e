/* device: a card, its memory and its loaded code.
 *
 * Invariant: a card is opened once for a process and stays open; one thread at a time uses it
 * (cfx__cuda_enter). Every driver call is checked, and a failure is an error with the driver's
 * text. Bytes on the card are counted and limited by the memory limit. */
#ifndef CFX__CUDA_DEVICE_H
#define CFX__CUDA_DEVICE_H

#include <pthread.h>

#include "../tensor/tensor.h"
#include "driver.h"

typedef struct cfx__cuda_device {
    const cfx__cuda_driver *driver;
    int number, handle;
    char name[128];
    int major, minor; /* what it can compute: 9.0 */
    int processors;   /* that run blocks */
    int shared_most;  /* bytes of shared memory that a block may ask for */
    void *context, *stream;
    pthread_t opener; /* makes these two, while the program is read and planned */
    bool ready;       /* it was found, and is opened or being opened */
    bool opening;     /* that has to be waited for */
    int opened;       /* what the driver answered */
    int64_t held;     /* bytes */
    int64_t most;     /* of them at once */
    void *blas, *dnn; /* handles of the libraries; NULL: not there, or not asked for yet */
    bool lost;        /* a kernel failed in a way that ends the context */
} cfx__cuda_device;

/* Card number n, which is opened from now on; NULL, with an error, where there is none. */
cfx__cuda_device *cfx__cuda_device_open(int n);
/* How many cards there are; 0, without an error, where there is no driver. */
int cfx__cuda_device_count(void);
/* How many threads card n runs at once; 0, without an error, where there is none. */
int64_t cfx__cuda_threads(int n);
/* Whether a card is not lost; else an error. */
bool cfx__cuda_is_there(const cfx__cuda_device *d);
/* Work on a card begins, for this thread alone, and ends. False, with an error, where it is lost.
 */
bool cfx__cuda_enter(cfx__cuda_device *d);
void cfx__cuda_leave(cfx__cuda_device *d);
/* Whether an answer of the driver's is good; else an error that says what failed. */
bool cfx__cuda_done(cfx__cuda_device *d, int answer, const char *what);

/* Memory on the card, and memory that both sides see at one address; 0, with an error, where there
 * is not enough, even after what is kept for later was given back. Freed by cfx__cuda_free. */
cfx__cuda_address cfx__cuda_alloc(cfx__cuda_device *d, int64_t bytes);
cfx__cuda_address cfx__cuda_alloc_shared(cfx__cuda_device *d, int64_t bytes);
void cfx__cuda_free(cfx__cuda_device *d, cfx__cuda_address at, int64_t bytes);
/* Copies, in the order of the stream; what is on the host has to stay until the stream is waited
 * for. */
bool cfx__cuda_copy(cfx__cuda_device *d, cfx__cuda_address to, cfx__cuda_address from,
                    int64_t bytes);
bool cfx__cuda_wait(cfx__cuda_device *d);

/* ---- tensors (tensor.c) ---------------------------------------------------------------------- */

/* A tensor on the card; its memory can be read and written on the host too, once the stream has
 * been waited for. stride NULL: contiguous. Scope. */
cfx_tensor *cfx__cuda_tensor(cfx__cuda_device *d, cfx_dtype dtype, int ndim, const int64_t *shape,
                             const int64_t *stride);
/* The memory of such a tensor, held by *owner, of which the caller owns a count. NULL, with an
 * error. */
void *cfx__cuda_memory(cfx_site at, int card, size_t bytes, void **owner);
/* to[...] = from, of which one at least lies on the card. False, with an error. */
bool cfx__cuda_copy_tensor(cfx__cuda_device *d, cfx_tensor *to, const cfx_tensor *from);
/* Gives back what is kept for the next tensors. */
void cfx__cuda_tensors_forget(void);
/* A copy of t on card n; the bad tensor, with an error. Scope. */
cfx_tensor *cfx__cuda_copy_of(cfx_site at, cfx_tensor *t, int n);

/* ---- code (code.c) --------------------------------------------------------------------------- */

/* A text compiled for the card: from the cache on the disk where it has been before. Counted. */
typedef struct cfx__cuda_code {
    cfx_obj head;
    cfx__cuda_device *device;
    void *module;
} cfx__cuda_code;

/* Texts that are asked for one by one, each compiled in a thread of its own as soon as it is known,
 * where it is not in the cache. */
typedef struct cfx__cuda_codes {
    VEC(struct cfx__cuda_request *) asked;
    int threads; /* at work */
} cfx__cuda_codes;
/* The number of a text, which has to stay until the end; < 0, with an error. */
int cfx__cuda_codes_ask(cfx__cuda_codes *q, cfx__cuda_device *d, const char *text);
/* Waits for all: the code of each text, of which the caller owns a count. False, with an error,
 * where one cannot be compiled or loaded: those behind it are NULL then. */
bool cfx__cuda_codes_take(cfx__cuda_codes *q, cfx__cuda_device *d, cfx__cuda_code **codes);
/* Forgets what was asked for, waiting for what is at work. */
void cfx__cuda_codes_end(cfx__cuda_codes *q);
/* What code and choices depend on beside their texts: the driver, and the card. Scope. */
const char *cfx__cuda_versions(const cfx__cuda_device *d);
/* What was kept on the disk for a key, to be freed; NULL: nothing. And keeps it: that this cannot
 * be done is no error. */
char *cfx__cuda_recall(const char *key, size_t *size);
void cfx__cuda_remember(const char *key, const char *data, size_t size);
/* A kernel of it, which may ask for so much shared memory; NULL, with an error. */
void *cfx__cuda_function(const cfx__cuda_code *c, const char *name, unsigned shared);

#endif
