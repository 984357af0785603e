"""torch.random: the generator of this thread."""
import contextlib

from ._basics import (default_generator, get_rng_state, initial_seed, manual_seed, seed,
                      set_rng_state)

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
           "set_rng_state"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cuda"):
    """What is drawn inside is not drawn outside."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)
