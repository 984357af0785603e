"""torch.linalg: linear algebra."""
from cfx._errors import _LinAlgError as LinAlgError  # noqa: F401
from cfx._functions import namespace

__getattr__, __dir__ = namespace(__name__, "torch.linalg")
