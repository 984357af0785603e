"""torch.fft: Fourier transforms."""
from cfx._functions import namespace

__getattr__, __dir__ = namespace(__name__, "torch.fft")
