"""torch.nn.utils.parametrizations: weights by length and direction, spectral norm, orthogonal."""
import cfx
from cfx._tensor import no_grad

from ... import linalg
from .. import functional as F
from ..modules import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except_dim(v, pow=2, dim=0):
    """The norms of the slices along a dimension, which stays; None or -1: of all."""
    if dim is None or dim == -1:
        return v.norm(pow)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v.norm(pow, others, True) if others else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """The weight as a length and a direction: original0 and original1."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, which is followed by power iteration."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        n = weight.dim()
        if dim >= n or dim < -n:
            raise IndexError("Dimension out of range (expected to be in range of "
                             f"[-{n}, {n - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dim % n, eps, n_power_iterations
        if n > 1:
            matrix = self._matrix(weight)
            h, w = matrix.size()
            u = matrix.new_empty(h).normal_(0, 1)
            v = matrix.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix, times):
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(cfx.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(cfx.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / cfx.vdot(u, cfx.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The weight divided by its largest singular value."""
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return parametrize.register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    def __init__(self, weight, map_, use_trivialization=True):
        super().__init__()
        self.map = map_
        self.tall = weight.size(-2) >= weight.size(-1)
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        n, k = X.size(-2), X.size(-1)
        if not self.tall:
            X, n, k = X.mT, k, n
        A = X.tril()
        if n != k:
            A = cfx.cat([A, A.new_zeros(n, n - k).expand(*A.shape[:-2], -1, -1)], dim=-1)
        A = A - A.mH
        eye = cfx.eye(n, dtype=A.dtype)
        if self.map == "matrix_exp":
            Q = cfx.matrix_exp(A)
        else:
            Q = linalg.solve(cfx.add(eye, A, alpha=-0.5), cfx.add(eye, A, alpha=0.5))
        Q = Q[..., :k] if n != k else Q
        base = self._buffers.get("base")
        if base is not None:
            Q = base @ Q
        return Q if self.tall else Q.mT

    def right_inverse(self, Q):
        if "base" not in self._buffers:
            raise NotImplementedError("It is not possible to assign to the matrix exponential or "
                                      "the Cayley parametrizations when use_trivialization=False.")
        tall = Q if self.tall else Q.mT
        n, k = tall.size(-2), tall.size(-1)
        whole = tall if n == k else cfx.cat([tall, tall.new_empty(n, n - k).normal_()], -1)
        q, r = linalg.qr(whole)
        q = q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
        if n != k:
            q = cfx.cat([tall, q[..., k:]], -1)
        self.base = q.detach()
        negated = cfx.zeros_like(tall)
        return negated if self.tall else negated.mT


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """The weight is orthogonal; trained by way of a skew-symmetric matrix."""
    weight = getattr(module, name)
    if weight.dim() < 2:
        raise ValueError("Expected a matrix or batch of matrices. Got a tensor of "
                         f"{weight.dim()} dimensions.")
    map_ = orthogonal_map or "matrix_exp"
    if map_ == "householder":
        raise NotImplementedError("cfx has no orthogonal parametrization by Householder's; use "
                                  "\"matrix_exp\" or \"cayley\"")
    if map_ not in ("matrix_exp", "cayley"):
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
                         f"Got: {orthogonal_map}")
    made = _Orthogonal(weight, map_, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)
