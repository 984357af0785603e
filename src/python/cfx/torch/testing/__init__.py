"""torch.testing: tensors that are close, and texts that contain what they should."""
from ._comparison import assert_allclose, assert_close  # noqa: F401
from ._creation import make_tensor  # noqa: F401
from ._file_check import FileCheck  # noqa: F401
