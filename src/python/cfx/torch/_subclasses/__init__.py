"""torch._subclasses: tensors without numbers."""
from .fake_tensor import (DynamicOutputShapeException, FakeTensor, FakeTensorMode,  # noqa: F401
                          UnsupportedFakeTensorException)
