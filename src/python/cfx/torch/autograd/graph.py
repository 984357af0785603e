"""torch.autograd.graph: nodes of the tape, and hooks over several tensors."""
import contextlib

from cfx._grad import GradFn as Node

__all__ = ["Node", "disable_saved_tensors_hooks", "register_multi_grad_hook", "save_on_cpu",
           "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Saved tensors are not packed: what the tape holds is C's."""

    def __init__(self, pack_hook, unpack_hook):
        raise NotImplementedError("cfx's tape keeps what it saves by itself: it has no "
                                  "saved_tensors_hooks")


class save_on_cpu:
    """Everything is there already."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    yield


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(gradients) when those of all tensors came, or, with mode="any", fn(gradient) at the
    first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    seen, handles = [None] * len(tensors), []

    def hook_of(i):
        def hook(g):
            first = all(s is None for s in seen)
            seen[i] = g
            if mode == "any" and first:
                fn(g)
            done = all(s is not None for s in seen)
            given = list(seen)
            if done:
                seen[:] = [None] * len(seen)
            if mode == "all" and done:
                fn(given)

        return hook

    for i, t in enumerate(tensors):
        handles.append(t.register_hook(hook_of(i)))

    class Handle:
        def remove(self):
            for h in handles:
                h.remove()

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.remove()

    return Handle()
