/* walk: one walk through the containers that a value may be made of.
 *
 * A container is a list, a tuple, a dict (whose values are walked, not its keys), a slice or a
 * keyword; what is in it is walked in order, and so on inwards. Everything else is a leaf. How deep
 * values nest is bounded (nest.c), so this recurses. What describes a tensor as a dict of its facts
 * (the notes of nodes) is a container here as any other: who wants such a dict whole must not walk.
 */
#ifndef CFX__WALK_H
#define CFX__WALK_H

#include "value.h"

/* Sees a leaf; false ends the walk. */
typedef bool cfx__walk_fn(cfx_value leaf, void *user);
/* Whether the walk came to its end. */
bool cfx__value_each(cfx_value v, cfx__walk_fn *fn, void *user);

/* What a leaf becomes. */
typedef cfx_value cfx__map_fn(cfx_value leaf, void *user);
/* v with each leaf replaced; scope. A container in which nothing is replaced stays the same. Bad
 * where a leaf becomes bad. */
cfx_value cfx__value_map(cfx_value v, cfx__map_fn *fn, void *user);

#endif
