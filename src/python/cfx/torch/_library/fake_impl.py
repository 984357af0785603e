"""What a fake of an operator may ask: torch.library.get_ctx()."""
import contextlib
import threading

_running = threading.local()


class FakeImplCtx:
    """The call of an operator on tensors without numbers."""

    def __init__(self, op):
        self._op = op

    def new_dynamic_size(self, *, min=0, max=None):  # noqa: A002
        """A size that depends on data."""
        raise NotImplementedError(f"{self._op}: the sizes of what it gives depend on data, and cfx "
                                  "has no operators of the user's that do")

    create_unbacked_symint = new_dynamic_size


@contextlib.contextmanager
def running(op):
    """While the fake of an operator runs."""
    before = getattr(_running, "ctx", None)
    _running.ctx = FakeImplCtx(op)
    try:
        yield
    finally:
        _running.ctx = before


def get_ctx():
    """The call that the fake which is running is part of."""
    ctx = getattr(_running, "ctx", None)
    if ctx is None:
        raise RuntimeError("get_ctx() can only be called inside of a fake implementation, see "
                           "torch.library.register_fake")
    return ctx
