"""cond: one of two functions, by a value that a program computes."""
import warnings

from cfx import _cfx

from ._operator import register


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands)."""
    if isinstance(pred, (bool, int, float)):
        warnings.warn("Pred is a Python constant. When used with torch.cond, it specializes on one "
                      "of the branches. If you want torch.cond to preserve two branches, please "
                      "make the predicate a boolean tensor or a SymBool.", stacklevel=2)
        return (true_fn if pred else false_fn)(*operands)
    if _cfx.is_overridden(pred, *operands):
        return _cfx.override(cond_op, (pred, true_fn, false_fn, operands), {})
    return _cfx.cond(pred, (true_fn, false_fn), tuple(operands))


cond_op = register("cond", cond)
