"""torch.autograd.functional: derivatives of functions, by the backward pass."""
from cfx._grad import grad
from cfx._tensor import Tensor, enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _inputs(inputs, create_graph):
    """(a tuple of tensors to differentiate by, whether there was one tensor alone)"""
    alone = isinstance(inputs, Tensor)
    found = []
    for i, t in enumerate((inputs,) if alone else inputs):
        if not isinstance(t, Tensor):
            raise TypeError("The inputs given to the function must be either a Tensor or a tuple "
                            f"of Tensors but the value at index {i} has type {type(t)}.")
        found.append(t.view_as(t) if create_graph and t.requires_grad
                     else t.detach().requires_grad_())
    return tuple(found), alone


def _outputs(outputs, name):
    alone = isinstance(outputs, Tensor)
    outputs = (outputs,) if alone else outputs
    for i, t in enumerate(outputs):
        if not isinstance(t, Tensor):
            raise TypeError(f"The {name} must be either a Tensor or a tuple of Tensors but the "
                            f"value at index {i} has type {type(t)}.")
    return tuple(outputs), alone


def _directions(v, like, name):
    """The vectors to multiply with: ones where a single number needs none."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {name} is a single-element "
                               "tensor.")
        return tuple(t.new_ones(t.shape) for t in like)
    v = (v,) if isinstance(v, Tensor) else tuple(v)
    if len(v) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got "
                           f"{len(v)}.")
    for i, (a, b) in enumerate(zip(v, like)):
        if a.shape != b.shape:
            raise RuntimeError(f"Entry {i} in v has invalid size: should be {b.shape} but got "
                               f"{a.shape}.")
    return v


def _grads(outputs, inputs, with_, create_graph, strict):
    """The gradients, zeros where nothing depends."""
    live = [(o, w) for o, w in zip(outputs, with_ or [None] * len(outputs)) if o.requires_grad]
    if strict and len(live) < len(outputs):
        raise RuntimeError("The output of the user-provided function is independent of the "
                           "inputs. This is not allowed in strict mode.")
    found = [None] * len(inputs)
    if live:
        found = grad([o for o, _ in live], inputs, [w for _, w in live] if with_ else None,
                     retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        raise RuntimeError("The output of the user-provided function is independent of input "
                           f"{[g is None for g in found].index(True)}. This is not allowed in "
                           "strict mode.")
    return tuple(i.new_zeros(i.shape) if g is None else g for g, i in zip(found, inputs))


def _finished(values, alone, create_graph):
    values = tuple(v if create_graph else v.detach() for v in values)
    return values[0] if alone else values


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of v and its Jacobian)"""
    with enable_grad():
        xs, alone = _inputs(inputs, create_graph)
        outs, single = _outputs(func(*xs), "outputs of the user-provided function")
        v = _directions(v, outs, "output of the user-provided function")
        found = _grads(outs, xs, v, create_graph, strict)
    return _finished(outs, single, create_graph), _finished(found, alone, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of its Jacobian and v): by the gradient of a gradient."""
    with enable_grad():
        xs, _ = _inputs(inputs, create_graph)
        v = _directions(v, xs, "input")
        outs, single = _outputs(func(*xs), "outputs of the user-provided function")
        dummy = tuple(o.new_zeros(o.shape).requires_grad_() for o in outs)
        found = _grads(outs, xs, dummy, True, strict)
        product = _grads(found, dummy, v, create_graph, False)
    return _finished(outs, single, create_graph), _finished(product, single, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False,
             strategy="reverse-mode"):
    """The Jacobian: of each output, by each input, sizes of the output first."""
    with enable_grad():
        xs, alone = _inputs(inputs, create_graph)
        outs, single = _outputs(func(*xs), "outputs of the user-provided function")
        table = []
        for o in outs:
            flat = o.reshape(-1)
            rows = [_grads((flat[j],), xs, None, create_graph, strict) for j in range(o.numel())]
            table.append(tuple(
                _stacked([row[i] for row in rows], x, tuple(o.shape) + tuple(x.shape))
                for i, x in enumerate(xs)))
    parts = tuple(_finished(row, alone, create_graph) for row in table)
    return parts[0] if single else parts


def _stacked(rows, like, shape):
    from .. import stack

    return stack(rows).reshape(shape) if rows else like.new_zeros(shape)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False,
            outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function that gives one number."""

    def gradient(*xs):
        out = func(*xs)
        outs, _ = _outputs(out, "outputs of the user-provided function")
        if len(outs) != 1 or outs[0].numel() != 1:
            raise RuntimeError("The output of the user-provided function should contain a single "
                               "element")
        found = _grads((outs[0].reshape(()),), xs, None, True, strict)
        return found[0] if isinstance(inputs, Tensor) else found

    return jacobian(gradient, inputs, create_graph=create_graph, strict=strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the product of v and its Hessian)"""
    with enable_grad():
        xs, alone = _inputs(inputs, create_graph)
        v = _directions(v, xs, "input")
        outs, single = _outputs(func(*xs), "outputs of the user-provided function")
        first = _grads(outs, xs, None, True, strict)
        second = _grads(first, xs, v, create_graph, strict)
    return _finished(outs, single, create_graph), _finished(second, alone, create_graph)


hvp = vhp  # the Hessian is symmetric


