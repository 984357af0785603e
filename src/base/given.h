/* What a caller must give. */
#ifndef CFX__GIVEN_H
#define CFX__GIVEN_H

#include "base.h"

/* Whether there is something; "the `what` is NULL", a TypeError, where not. */
bool cfx__given(cfx_site at, const void *p, const char *what);

#endif
