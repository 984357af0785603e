/* What an argument of a schema is where nothing is given. */
#ifndef CFX__DEFAULT_H
#define CFX__DEFAULT_H

#include "value.h"

/* Whether v is that; one number stands for a list of it. */
bool cfx__schema_is_default(const cfx__schema_arg *a, cfx_value v);

#endif
