/* guard: conditions on the sizes of inputs, as torch.export notes them: "L['x'].size()[0] != 7". */
#ifndef CFX__GUARD_H
#define CFX__GUARD_H

#include "value.h"

/* ---- from text (guard.c) --------------------------------------------------------------------- */

typedef enum cfx__truth { CFX__FALSE, CFX__TRUE, CFX__UNKNOWN } cfx__truth;

/* The number that a source of len characters stands for, "L['x'].size()[0]"; false where it stands
 * for none. */
typedef bool cfx__guard_lookup(const char *source, size_t len, void *user, int64_t *out);
/* Whether a guard holds; unknown where it cannot be read, or has no value. */
cfx__truth cfx__guard_holds(const char *text, cfx__guard_lookup *lookup, void *user);
/* The guard as PyTorch shows it when it fails: "x.size()[0] != 7". Scope. */
const char *cfx__guard_shown(const char *text);

/* ---- to text (guard_text.c) ------------------------------------------------------------------ */

typedef enum cfx__rel { CFX__EQ, CFX__NE, CFX__LT, CFX__LE, CFX__GT, CFX__GE } cfx__rel;
/* a rel b as a guard, whose symbols are called as their sources: "(L['x'].size()[0] % 16) == 0".
 * Scope. */
const char *cfx__guard_text(cfx_value a, cfx__rel rel, cfx_value b);

#endif
