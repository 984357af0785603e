"""torch._functorch.config: settings of exports."""
import contextlib

# While a model is exported it is run on the example too: what it decides by data is decided so,
# as in torch.export.draft_export, and operators of the user's are held against their schemas.
fake_tensor_propagate_real_tensors = False


@contextlib.contextmanager
def patch(settings=None, **changes):
    """Other settings for a while."""
    changes = {**(settings or {}), **changes}
    unknown = [n for n in changes if n not in globals() or n.startswith("_")]
    if unknown:
        raise AttributeError(f"torch._functorch.config.{unknown[0]} does not exist")
    was = {n: globals()[n] for n in changes}
    globals().update(changes)
    try:
        yield
    finally:
        globals().update(was)
