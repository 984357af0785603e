/* An oracle: a module computes the same, and gradients flow the same, whichever way it went. It is
 * exported, exported again, traced, a layer of other models, decomposed, saved and opened, and each
 * is compared with the module itself on inputs on both sides of what it decides. */
#ifndef CFX__WAYS_TEST_H
#define CFX__WAYS_TEST_H

#include "exported_test.h"

typedef struct {
    const char *name;
    cfx_module *(*make)(void);
    cfx_value (*input)(int k); /* arguments, a tuple; the first are the example */
    int ninputs;
    bool opaque; /* forward does what cannot be traced, or only on tensors that have sizes */
    bool plain;  /* no gradients are asked for */
    bool modes;  /* they flow otherwise once it is decomposed: regions are written out, as in
                    PyTorch */
    bool mixed;  /* a loop carries numbers: .pt2 has no form for it */
} ways_model;

/* Checks all ways of the model. */
void ways_check(const ways_model *m);

#endif
