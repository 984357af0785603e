"""torch.nn.utils.prune: weights with masks."""
import cfx


__all__ = ["custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured",
           "ln_structured", "random_structured", "random_unstructured", "remove"]


class BasePruningMethod:
    """A mask of a tensor, multiplied with it before each forward. A subclass says which elements
    go: compute_mask(t, default_mask)."""

    PRUNING_TYPE = "unstructured"
    _tensor_name = None

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t, default_mask):
        raise NotImplementedError

    def apply_mask(self, module):
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    def prune(self, t, default_mask=None, importance_scores=None):
        mask = cfx.ones_like(t) if default_mask is None else default_mask
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, mask)

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a tensor of a module; one that is pruned already loses more."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if f"{name}_orig" not in module._parameters:
            original = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
            default = cfx.ones_like(original)
        else:
            default = getattr(module, f"{name}_mask").detach().clone()
            for key, hook in list(module._forward_pre_hooks.items()):
                if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
                    del module._forward_pre_hooks[key]
            original = getattr(module, f"{name}_orig")
        scores = original if importance_scores is None else importance_scores
        mask = method._mask_of(scores.detach(), default)
        if f"{name}_mask" in module._buffers:
            module._buffers[f"{name}_mask"] = mask
        else:
            module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def _mask_of(self, scores, default):
        """The new mask; of what was left, where elements went before."""
        kept = default == 1
        if self.PRUNING_TYPE == "unstructured" and not bool(kept.all()):
            new = default.clone()
            new[kept] = self.compute_mask(scores[kept], cfx.ones_like(scores[kept])).to(new.dtype)
            return new
        return self.compute_mask(scores, default).to(default.dtype)

    def remove(self, module):
        name = self._tensor_name
        weight = self.apply_mask(module)
        module.__dict__.pop(name, None)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        module.register_parameter(name, original)


def _count(amount, n):
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0 or amount < 0:
        raise ValueError(f"amount={amount} should be a non-negative int, or a float in the range "
                         "[0.0, 1.0]")
    count = amount if isinstance(amount, int) else round(amount * n)
    if count > n:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to "
                         f"prune={n}")
    return count


class Identity(BasePruningMethod):
    def compute_mask(self, t, default_mask):
        return default_mask


class L1Unstructured(BasePruningMethod):
    """The smallest elements go."""

    def __init__(self, amount):
        self.amount = amount

    def compute_mask(self, t, default_mask):
        mask, n = default_mask.clone(), _count(self.amount, t.numel())
        if n:
            mask.view(-1)[cfx.topk(t.abs().reshape(-1), n, largest=False).indices] = 0
        return mask


class RandomUnstructured(L1Unstructured):
    def compute_mask(self, t, default_mask):
        mask, n = default_mask.clone(), _count(self.amount, t.numel())
        if n:
            mask.view(-1)[cfx.topk(cfx.rand_like(t).reshape(-1), n).indices] = 0
        return mask


class CustomFromMask(BasePruningMethod):
    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class LnStructured(BasePruningMethod):
    """The slices along a dimension that have the smallest norm go."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        self.amount, self.n, self.dim = amount, n, dim

    def _scores(self, t):
        return t.norm(self.n, [d for d in range(t.dim()) if d != self.dim % t.dim()])

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.shape[self.dim])
        if not count:
            return default_mask
        keep = cfx.topk(self._scores(t), t.shape[self.dim] - count).indices
        mask = cfx.zeros_like(t)
        mask.index_fill_(self.dim, keep, 1)
        return mask * default_mask


class RandomStructured(LnStructured):
    def __init__(self, amount, dim=-1):
        super().__init__(amount, None, dim)

    def _scores(self, t):
        return cfx.rand(t.shape[self.dim])


def identity(module, name):
    Identity.apply(module, name)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_unstructured(module, name, amount):
    RandomUnstructured.apply(module, name, amount)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    RandomStructured.apply(module, name, amount, dim)
    return module


def custom_from_mask(module, name, mask):
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several tensors as if they were one."""
    parameters = list(parameters)
    given = importance_scores or {}
    tensors = [given.get((m, n), getattr(m, n)).detach() for m, n in parameters]
    masks = [getattr(m, f"{n}_mask", cfx.ones_like(getattr(m, n))) for m, n in parameters]
    method = pruning_method(**kwargs)
    mask = method._mask_of(cfx.cat([t.reshape(-1) for t in tensors]),
                           cfx.cat([m.reshape(-1) for m in masks]))
    at = 0
    for (module, name), t in zip(parameters, tensors):
        custom_from_mask(module, name, mask[at:at + t.numel()].view_as(t))
        at += t.numel()


def remove(module, name):
    """The pruned tensor is a parameter again."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can "
                     "be removed")


def is_pruned(module):
    return any(isinstance(h, BasePruningMethod) for m in module.modules()
               for h in m._forward_pre_hooks.values())
