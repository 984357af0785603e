"""weight_norm and spectral_norm as hooks before forward, the older way."""
from cfx._tensor import no_grad

from .. import functional as F
from ..parameter import Parameter
from .parametrizations import norm_except_dim


class _WeightNorm:
    def __init__(self, name, dim):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute(self, module):
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute(module))

    def begin(self, module):
        weight = module._parameters.pop(self.name)
        norm = norm_except_dim(weight, 2, self.dim).data
        module.register_parameter(f"{self.name}_g", Parameter(norm))
        module.register_parameter(f"{self.name}_v", Parameter(weight.data))
        setattr(module, self.name, self.compute(module))

    def end(self, module):
        weight = self.compute(module)
        module.__dict__.pop(self.name, None)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        module.register_parameter(self.name, Parameter(weight.data))


class _SpectralNorm:
    def __init__(self, name, n_power_iterations, dim, eps):
        self.name, self.n, self.dim, self.eps = name, n_power_iterations, dim, eps

    def _matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute(self, module, iterate):
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self._matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute(module, module.training))

    def begin(self, module):
        weight = module._parameters.pop(self.name)
        with no_grad():
            h, w = self._matrix(weight).size()
            u = F.normalize(weight.new_empty(h).normal_(0, 1), dim=0, eps=self.eps)
            v = F.normalize(weight.new_empty(w).normal_(0, 1), dim=0, eps=self.eps)
        module.register_parameter(f"{self.name}_orig", weight)
        setattr(module, self.name, weight.data)
        module.register_buffer(f"{self.name}_u", u)
        module.register_buffer(f"{self.name}_v", v)

    def end(self, module):
        with no_grad():
            weight = self.compute(module, False)
        module.__dict__.pop(self.name, None)
        del module._parameters[f"{self.name}_orig"]
        del module._buffers[f"{self.name}_u"], module._buffers[f"{self.name}_v"]
        module.register_parameter(self.name, Parameter(weight.detach()))


def _begin(module, hook):
    if any(type(h) is type(hook) and h.name == hook.name
           for h in module._forward_pre_hooks.values()):
        raise RuntimeError(f"Cannot register two {type(hook).__name__[1:]} hooks on the same "
                           f"parameter {hook.name}")
    hook.begin(module)
    module.register_forward_pre_hook(hook)
    return module


def _end(module, kind, name, word):
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, kind) and hook.name == name:
            hook.end(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"{word} of '{name}' not found in {module}")


def weight_norm(module, name="weight", dim=0):
    """The weight as a length and a direction: weight_g and weight_v."""
    return _begin(module, _WeightNorm(name, dim))


def remove_weight_norm(module, name="weight"):
    return _end(module, _WeightNorm, name, "weight_norm")


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The weight divided by its largest singular value."""
    if n_power_iterations <= 0:
        raise ValueError("Expected n_power_iterations to be positive, but got "
                         f"n_power_iterations={n_power_iterations}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return _begin(module, _SpectralNorm(name, n_power_iterations, dim, eps))


def remove_spectral_norm(module, name="weight"):
    return _end(module, _SpectralNorm, name, "spectral_norm")
