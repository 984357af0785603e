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
cpu = types.SimpleNamespace(get_cpu_capability=lambda: "DEFAULT")
opt_einsum = types.SimpleNamespace(enabled=False, strategy=None, is_available=lambda: False)


class _Quantized:
    """The rules of quantized layers are those of one engine, whatever it is called."""

    supported_engines = ["qnnpack", "none", "onednn", "x86", "fbgemm"]
    _engine = "x86"

    @property
    def engine(self):
        return self._engine

    @engine.setter
    def engine(self, name):
        if name not in self.supported_engines:
            raise RuntimeError(f"{name} is not a valid value for quantized engine")
        self._engine = name


quantized = _Quantized()
