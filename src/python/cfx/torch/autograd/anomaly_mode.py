"""torch.autograd.anomaly_mode: gradients that are not numbers are errors."""
from cfx import _cfx


class set_detect_anomaly:
    """Switches it on or off, at once; as a context, until its end."""

    def __init__(self, mode, check_nan=True):
        self._before = _cfx.check_gradients(bool(mode) and check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _cfx.check_gradients(self._before)


class detect_anomaly:
    """A context in which a gradient that is not a number is an error."""

    def __init__(self, check_nan=True):
        self._check = check_nan

    def __enter__(self):
        self._before = _cfx.check_gradients(self._check)

    def __exit__(self, *error):
        _cfx.check_gradients(self._before)
