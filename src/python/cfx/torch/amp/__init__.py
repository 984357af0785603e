"""torch.amp: regions in which some operators compute in a lower precision."""
from . import autocast_mode
from .autocast_mode import (_enter_autocast, _exit_autocast, autocast, custom_bwd, custom_fwd,
                            is_autocast_available)
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
_ = (autocast_mode, _enter_autocast, _exit_autocast)
