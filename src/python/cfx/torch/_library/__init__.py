"""What is behind torch.library."""
from . import custom_ops, fake_impl, infer_schema, utils  # noqa: F401
