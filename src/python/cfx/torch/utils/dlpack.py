"""torch.utils.dlpack: tensors of other libraries over the same memory."""
from cfx._tensor import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """The capsule of a tensor, which may be taken once."""
    return tensor.__dlpack__()
