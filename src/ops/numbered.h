/* The column for the names of gradients. PyTorch calls them PowBackward0, PowBackward1, ... in the
 * order of its derivatives, which is not always the order of the overloads here. */
#ifndef CFX_OPS_NUMBERED_H
#define CFX_OPS_NUMBERED_H

/* NUMBERED(n) beside GRAD: PyTorch's number, in the bits of `aside` that no result has. */
#define NUMBERED(n) .aside = (n) + 1u
/* The number that a row says; -1: the place of the overload among those of its name. */
#define CFX__NUMBER_OF(op) ((int)((op)->aside & 0xff) - 1)

#endif
