"""torch.utils.data.dataloader: batches."""
from . import DataLoader, default_collate, default_convert, get_worker_info  # noqa: F401
