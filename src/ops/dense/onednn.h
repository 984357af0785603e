/* onednn: what the operators that call oneDNN share.
 *
 * Making a primitive costs more than a small convolution, so each thread keeps those it made, found
 * again by a key that holds everything they depend on. Weights in oneDNN's own layout stay with
 * their storage (cfx__packed). A failure of oneDNN is no error: the caller has loops of its own. */
#ifndef CFX__ONEDNN_H
#define CFX__ONEDNN_H

#include "../libraries.h"

#include <signal.h>

/* A function of oneDNN, once library_onednn() has said that it is there. */
#define DNN(name) (library_onednn()->name)

/* The calls of oneDNN between these two run on this thread alone: its own threads wait actively for
 * each other, which stops everything where the cores have other work. What is to be done by many
 * threads is cut by the caller, for our own pool. Signals wait until the end: products of oneDNN
 * (2.6) keep addresses below the top of the stack, where a handler's frame would be. */
typedef struct onednn_before {
    int threads;
    sigset_t signals;
} onednn_before;
/* False: oneDNN cannot be had. */
bool onednn_begin(onednn_before *before);
void onednn_end(const onednn_before *before);

/* This thread's engine and stream; NULL when oneDNN cannot start. */
dnnl_engine_t onednn_engine(void);
dnnl_stream_t onednn_stream(void);

/* What was kept under `key` (size bytes, padding included), or NULL. */
void *onednn_find(const void *key, size_t size);
/* Keeps `plan` under the key until it has long not been asked for; `done` frees it. */
void onednn_keep(const void *key, size_t size, void *plan, void (*done)(void *plan));

/* One operand of a primitive: as the tensor lies and as the primitive wants it. */
typedef struct {
    dnnl_memory_desc_t plain, wanted;
    dnnl_memory_t plain_mem, wanted_mem;
    dnnl_primitive_t in, out; /* reorders; NULL where both are the same, or not asked for */
    int64_t block; /* channels that lie together, where the layout is such; 0 otherwise */
    size_t size;   /* bytes of the wanted form */
    uint64_t key;  /* of that form, for cfx__packed */
} onednn_port;

/* Prepares a port. False when oneDNN refuses. */
bool onednn_port_make(onednn_port *p, const dnnl_memory_desc_t *plain,
                      const dnnl_memory_desc_t *wanted, bool in, bool out);
void onednn_port_free(onednn_port *p);
/* The operand in its wanted form: data itself, or a copy in scratch memory of the scope. NULL when
 * there is no memory. */
void *onednn_port_read(cfx_op_call *c, onednn_port *p, const void *data);
/* The same for weights, whose form is kept with the storage of t. *held is to be dropped after use.
 */
void *onednn_port_weights(cfx_op_call *c, onednn_port *p, const cfx_tensor *t, cfx__packed **held);
/* Where the primitive writes: data itself or scratch memory; and moving that to data afterwards. */
void *onednn_port_write(cfx_op_call *c, onednn_port *p, void *data);
void onednn_port_finish(onednn_port *p, void *wrote, void *data);

#endif
