"""torch.backends: what PyTorch computes with elsewhere, none of which is here."""
import types

cudnn = types.SimpleNamespace(enabled=False, benchmark=False, deterministic=True, allow_tf32=False,
                              is_available=lambda: False, version=lambda: None)
mps = types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
cuda = types.SimpleNamespace(is_built=lambda: False,
                             matmul=types.SimpleNamespace(allow_tf32=False))
mkldnn = types.SimpleNamespace(enabled=True, is_available=lambda: True)
mkl = types.SimpleNamespace(is_available=lambda: False)
openmp = types.SimpleNamespace(is_available=lambda: True)
