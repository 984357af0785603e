"""torch.autograd.Function: a step with a gradient of the user's own."""
import functools
import inspect
import warnings

from cfx import _cfx
from cfx._tensor import Tensor, is_grad_enabled, no_grad

from ..compiler import is_exporting

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What forward leaves for backward."""

    def __init__(self):
        self._to_save = ()
        self._dirty = ()
        self._no_gradient = ()
        self._materialize = True
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self._to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._no_gradient = tensors

    def set_materialize_grads(self, value):
        self._materialize = value

    @property
    def saved_tensors(self):
        return self._to_save

    @property
    def saved_variables(self):
        return self._to_save


def _among(t, tensors):
    return any(t is other for other in tensors)


def _position(t, tensors):
    return next(i for i, other in enumerate(tensors) if other is t)


class _Step:
    """What the tape calls in a backward pass. It holds no tensor of the call: those that are saved
    are the tape's."""

    def __init__(self, function, ctx, count, places, outlines):
        self.function, self.ctx = function, ctx
        self.count = count        # arguments of apply
        self.places = places      # of each saved tensor: None, or (0 or 1, its number in a list)
        self.outlines = outlines  # of the outputs: None, or (shape, dtype)

    def __call__(self, inputs, outputs, gradients):
        ctx, lists = self.ctx, (inputs, outputs)
        if ctx._materialize:
            from .. import zeros

            gradients = [zeros(o[0], dtype=o[1]) if g is None and o else g
                         for g, o in zip(gradients, self.outlines)]
        ctx._to_save = tuple(p and lists[p[0]][p[1]] for p in self.places)
        try:
            given = self.function(ctx, *gradients)
        finally:
            ctx._to_save = ()
        given = given if isinstance(given, tuple) else (given,)
        name = f"{ctx._name}Backward"
        if len(given) > self.count and all(g is None for g in given[self.count:]):
            given = given[:self.count]
        if len(given) != self.count:
            raise RuntimeError(f"function {name} returned an incorrect number of gradients "
                               f"(expected {self.count}, got {len(given)})")
        for i, g in enumerate(given):
            if g is not None and not isinstance(g, Tensor):
                raise TypeError("expected Variable or None (got "
                                f"{type(g).__name__})")
            if g is not None and not ctx._are_tensors[i]:
                raise RuntimeError(f"function {name} returned a gradient different from None at "
                                   f"position {i + 1}, but the corresponding forward input was "
                                   "not a Variable")
        return [g for g, is_tensor in zip(given, ctx._are_tensors) if is_tensor]


class Function(FunctionCtx):
    """A subclass has forward(ctx, ...) and backward(ctx, *gradients), or forward(...) and
    setup_context(ctx, inputs, output) in place of the first, all static; it is called by
    apply(...)."""

    def __init__(self, *args, **kwargs):
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions are "
                      "all static, so you should invoke them on the class itself. Instantiating an "
                      "autograd function will raise an error in a future version of PyTorch.",
                      DeprecationWarning, stacklevel=2)
        super().__init__()

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. "
                           "Please use new-style autograd function with static forward method. "
                           "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd."
                           "Function)")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom "
                                  "autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your "
                                  "custom autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("cfx has no forward mode of automatic differentiation")

    @classmethod
    def apply(cls, *args, **kwargs):
        separate = cls.setup_context is not Function.setup_context
        if separate and kwargs:
            signature = inspect.signature(cls.forward).bind(*args, **kwargs)
            signature.apply_defaults()
            args, kwargs = signature.args, {}
        ctx = FunctionCtx()
        ctx._name = cls.__name__
        ctx._are_tensors = [isinstance(a, Tensor) for a in args]
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        records = is_grad_enabled() and any(ctx.needs_input_grad) and \
            not is_exporting()
        if not records:
            return cls._forward(ctx, separate, args, kwargs)
        with no_grad():
            result = cls._forward(ctx, separate, args, kwargs)
        return _record(cls, ctx, args, result)

    @classmethod
    def _forward(cls, ctx, separate, args, kwargs):
        if not separate:
            return cls.forward(ctx, *args, **kwargs)
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
        return result


def _record(cls, ctx, args, result):
    """Puts the call on the tape. An argument that comes back untouched is another tensor, since it
    has two histories."""
    many = isinstance(result, tuple)
    if not many and not isinstance(result, Tensor) and result is not None:
        raise TypeError(f"{cls.__name__}.forward: expected to return a Tensor or a tuple of "
                        f"Tensors, got {type(result).__name__}")
    outputs = list(result) if many else [result]
    inputs = [a for a in args if isinstance(a, Tensor)]
    for i, o in enumerate(outputs):
        if isinstance(o, Tensor) and (_among(o, inputs) or _among(o, ctx._no_gradient)):
            if not _among(o, ctx._dirty):
                outputs[i] = o.detach()
                ctx._no_gradient = tuple(outputs[i] if o is t else t for t in ctx._no_gradient)
    taped = [o if isinstance(o, Tensor) and not _among(o, ctx._no_gradient) else None
             for o in outputs]
    if not any(o is not None and (o.is_floating_point() or o.is_complex()) for o in taped):
        return tuple(outputs) if many else outputs[0]
    saved = [t for t in ctx._to_save if t is not None]
    for i, t in enumerate(ctx._to_save):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"save_for_backward can only save variables, but argument {i} is of "
                            f"type {type(t).__name__}")
    if any(isinstance(t, Tensor) and t.requires_grad and t.is_leaf for t in ctx._dirty):
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place "
                           "operation.")
    kept = inputs + [t for t in saved if not _among(t, inputs) and not _among(t, taped)]
    places = [None if t is None else (1, _position(t, taped)) if _among(t, taped)
              and not _among(t, inputs) else (0, _position(t, kept)) for t in ctx._to_save]
    outlines = [(o.shape, o.dtype) if isinstance(o, Tensor) else None for o in outputs]
    ctx._to_save = ctx._dirty = ctx._no_gradient = ()
    backward = cls.vjp if cls.backward is Function.backward else cls.backward
    step = _Step(backward, ctx, len(args), places, outlines)
    _cfx.function_on_tape(f"{cls.__name__}Backward", step, kept, taped, saved)
    return tuple(outputs) if many else outputs[0]


def once_differentiable(fn):
    """For a backward that is not to be differentiated itself: its operations are not recorded."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with no_grad():
            given = fn(ctx, *args)
        if not is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad
                                            for a in args):
            return given
        many = isinstance(given, tuple)

        def refuse(inputs, outputs, gradients):
            raise RuntimeError("trying to differentiate twice a function that was marked with "
                               "@once_differentiable")

        fresh = [g.detach() if isinstance(g, Tensor) else g for g in (given if many else (given,))]
        _cfx.function_on_tape("DelayedErrorBackward", refuse,
                              [a for a in args if isinstance(a, Tensor)],
                              [g if isinstance(g, Tensor) else None for g in fresh], None)
        return tuple(fresh) if many else fresh[0]

    return wrapper
