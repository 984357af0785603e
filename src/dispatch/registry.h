/* The registry's tables that change while a process runs. */
#ifndef CFX__REGISTRY_H
#define CFX__REGISTRY_H

#include "dispatch.h"

#include <pthread.h>

enum { CFX__OP_NAME_MAX = 256 };

/* Forms that were derived, and operators of the user's. */
typedef struct cfx__extra_ops {
    pthread_mutex_t lock;
    cfx__map ops; /* "mine::twice.default" to cfx_op */
    cfx__map fns; /* "mine::twice" and spellings to cfx_fn */
    cfx__map names;   /* each name that was ever in those, to itself */
    const void *gone; /* functions that were taken out, which may be in use; see own.c */
} cfx__extra_ops;
extern cfx__extra_ops cfx__op_extra;

/* Writes "ns::base.overload", or "ns::base" where overload is NULL, to a key of CFX__OP_NAME_MAX
 * bytes; whether it fits. */
bool cfx__op_join(char *key, const char *ns, const char *base, const char *overload);
/* The operator of such a name among those that are written down; NULL. */
cfx_op *cfx__op_written(const char *key);
/* Whether an operator can have the forms that its columns name; else with an error. */
bool cfx__op_forms_fit(cfx_op *op);

#endif
