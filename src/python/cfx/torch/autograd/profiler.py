"""torch.autograd.profiler: names of stretches of code."""
from ..profiler import record_function  # noqa: F401
