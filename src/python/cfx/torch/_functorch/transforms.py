"""torch.func's transforms: gradients, Jacobians and batches of functions.

Gradients are those of the tape: inputs are taken as leaves, or, inside another transform, as
aliases that hang on it. vmap calls the function once for each example and stacks what it gives."""
import functools

from cfx._grad import grad as _tape_grad
from cfx._tensor import Tensor, enable_grad

from ..utils import _pytree as pytree

_depth = 0  # transforms of gradients under way


def _argnums(argnums, args):
    many = isinstance(argnums, tuple)
    numbers = argnums if many else (argnums,)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    return [n % len(args) for n in numbers], many


def _tracked(tree):
    """The tree with tensors that gradients are taken by."""
    def track(t):
        if not isinstance(t, Tensor) or not (t.is_floating_point() or t.is_complex()):
            return t
        return t.view_as(t) if t.requires_grad else t.detach().requires_grad_()

    return pytree.tree_map(track, tree)


class _Level:
    """While a transform runs; results of the outermost have no tape unless its inputs had."""

    def __init__(self, args):
        self.keeps = _depth > 0 or any(isinstance(t, Tensor) and t.requires_grad
                                       for t in pytree.tree_leaves(args))

    def __enter__(self):
        global _depth
        _depth += 1
        self._grad = enable_grad()
        self._grad.__enter__()
        return self

    def __exit__(self, *error):
        global _depth
        _depth -= 1
        self._grad.__exit__(*error)

    def leave(self, tree):
        return tree if self.keeps else pytree.tree_map(
            lambda t: t.detach() if isinstance(t, Tensor) else t, tree)


def _gradients(outputs, tree, weights=None):
    """The gradients of outputs by the tensors of a tree, as that tree; zeros where nothing
    depends."""
    leaves, spec = pytree.tree_flatten(tree)
    wanted = [t for t in leaves if isinstance(t, Tensor) and t.requires_grad]
    live = [(o, w) for o, w in zip(outputs, weights or [None] * len(outputs)) if o.requires_grad]
    found = [None] * len(wanted)
    if live and wanted:
        found = _tape_grad([o for o, _ in live], wanted, [w for _, w in live] if weights else None,
                           retain_graph=True, create_graph=True, allow_unused=True)
    by = {id(t): t.new_zeros(t.shape) if g is None else g for t, g in zip(wanted, found)}
    return pytree.tree_unflatten([by.get(id(t), t.new_zeros(t.shape) if isinstance(t, Tensor)
                                         else None) for t in leaves], spec)


def _called(func, args, kwargs, numbers, has_aux, name):
    """(what func gives, what it gives beside that, the arguments that are differentiated by)."""
    args = list(args)
    for n in numbers:
        args[n] = _tracked(args[n])
    out, aux = func(*args, **kwargs), None
    if has_aux:
        if not isinstance(out, tuple) or len(out) != 2:
            raise RuntimeError(f"{name}(f)(*args): output of function f should be a tuple: "
                               "(output, aux) if has_aux is True")
        out, aux = out
    return out, aux, [args[n] for n in numbers]


def _differentiated(func, argnums, has_aux, name, give):
    """A function that calls func on a level of its own and gives give(level, what func gives, what
    it gives beside that, the arguments that are differentiated by, whether these are several)."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        numbers, many = _argnums(argnums, args)
        with _Level(args) as level:
            out, aux, inputs = _called(func, args, kwargs, numbers, has_aux, name)
            return give(level, out, aux, inputs, many)

    return wrapper


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives the gradient of func by some of its arguments, and its value."""

    def give(level, out, aux, inputs, many):
        if not isinstance(out, Tensor):
            raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a "
                               f"Tensor, got {type(out)}")
        if out.dim() != 0:
            raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a "
                               f"scalar Tensor, got tensor with {out.dim()} dims. Maybe you "
                               "wanted to use the vjp or jacrev APIs instead?")
        found = _gradients([out], inputs)
        result = tuple(found) if many else found[0]
        values = (out, aux) if has_aux else out
        return level.leave(result), level.leave(values)

    return _differentiated(func, argnums, has_aux, "grad_and_value", give)


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of func by some of its arguments."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function that multiplies its Jacobian from the left)"""
    global _depth
    level = _Level(primals)
    with level:
        inputs = _tracked(list(primals))
        out = func(*inputs)
        aux = None
        if has_aux:
            out, aux = out

    def pull(cotangents, retain_graph=True, create_graph=None):
        with level:
            outs, weights = pytree.tree_leaves(out), pytree.tree_leaves(cotangents)
            if len(outs) != len(weights):
                raise RuntimeError(f"Expected pytree structure of cotangents to be the same as "
                                   f"pytree structure of outputs to the function: {len(outs)} and "
                                   f"{len(weights)} tensors")
            return level.leave(tuple(_gradients(outs, inputs, weights)))

    shown = level.leave(out)
    return (shown, pull, level.leave(aux)) if has_aux else (shown, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its Jacobian times the tangents): by the gradient of a gradient."""
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {what} to be a tuple. E.g. it "
                               f"should be valid to call f(*{what}).")
    with _Level(primals) as level:
        inputs = _tracked(list(primals))
        out = func(*inputs)
        aux = None
        if has_aux:
            out, aux = out
        outs, spec = pytree.tree_flatten(out)
        dummies = [o.new_zeros(o.shape).requires_grad_() for o in outs]
        back = [g for g in pytree.tree_leaves(_gradients(outs, inputs, dummies))]
        product = _gradients(back, dummies, pytree.tree_leaves(tangents))
        result = (level.leave(out), level.leave(pytree.tree_unflatten(product, spec)))
        return (*result, level.leave(aux)) if has_aux else result


def linearize(func, *primals):
    """(func(*primals), the function that takes tangents to its Jacobian times them)."""
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that gives the Jacobian of func by some of its arguments."""

    def give(level, out, aux, inputs, many):
        from .. import stack

        def of(o):
            rows = [_gradients([e], inputs) for e in o.reshape(-1).unbind(0)]
            leaves, spec = zip(*(pytree.tree_flatten(r) for r in rows))
            parts = [stack(list(p)).reshape(tuple(o.shape) + tuple(p[0].shape))
                     for p in zip(*leaves)]
            found = pytree.tree_unflatten(parts, spec[0])
            return tuple(found) if many else found[0]

        result = level.leave(pytree.tree_map(of, out))
        return (result, level.leave(aux)) if has_aux else result

    return _differentiated(func, argnums, has_aux, "jacrev", give)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The same as jacrev, which is how it is computed."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func, argnums=0):
    """A function that gives the second derivatives of func."""
    return jacrev(jacrev(func, argnums), argnums)


# ---- batches -------------------------------------------------------------------------------------


def _spread(dims, tree, what):
    """One dimension for each leaf of a tree, from a tree that may end earlier."""
    if isinstance(dims, int) or dims is None:
        return [dims] * len(pytree.tree_leaves(tree))
    if isinstance(dims, dict) and isinstance(tree, dict):
        return [d for k in tree for d in _spread(dims[k], tree[k], what)]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and \
            len(dims) == len(tree):
        return [d for a, b in zip(dims, tree) for d in _spread(a, b, what)]
    raise ValueError(f"vmap: {what} is not compatible with the structure of what it is for: "
                     f"{dims}")


def _mapped_dims(where, in_dims, args):
    """The tensors of the arguments, how these are nested, and the dimension of each that is mapped
    over; None of those that every call is given whole."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{where}: expected `in_dims` to be int or a (potentially nested) tuple "
                         f"matching the structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"{where}: got no inputs. Maybe you forgot to add inputs, or you are "
                         "trying to vmap over a function with no inputs. The latter is "
                         "unsupported.")
    leaves, spec = pytree.tree_flatten(args)
    dims = _spread(in_dims, args, "in_dims") if not isinstance(in_dims, tuple) or \
        len(in_dims) == len(args) else None
    if dims is None:
        raise ValueError(f"{where}: in_dims is not compatible with the structure of `inputs`. "
                         f"in_dims has structure {pytree.tree_flatten(in_dims)[1]} but inputs has "
                         f"structure {spec}.")
    for t, d in zip(leaves, dims):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"{where}: Got in_dim={d} for an input but in_dim must be either an "
                             "integer dimension or None.")
        if not isinstance(t, Tensor):
            raise ValueError(f"{where}: Got in_dim={d} for an input but the input is of type "
                             f"{type(t)}. We cannot vmap over non-Tensor arguments, please use "
                             "None as the respective in_dim")
        if not -t.dim() <= d < t.dim():
            raise ValueError(f"{where}: Got in_dim={d} for some input, but that input is a Tensor "
                             f"of dimensionality {t.dim()} so expected in_dim to satisfy "
                             f"-{t.dim()} <= in_dim < {t.dim()}.")
    return leaves, spec, dims


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that maps func over a dimension of its arguments."""
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        from .. import stack

        leaves, spec, dims = _mapped_dims(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)",
                                          in_dims, args)
        sizes = {t.size(d) for t, d in zip(leaves, dims) if d is not None}
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if len(sizes) > 1:
            shown = [t.size(d) for t, d in zip(leaves, dims) if d is not None]
            raise ValueError("vmap: Expected all tensors to have the same size in the mapped "
                             f"dimension, got sizes {shown} for the mapped dimension")
        columns = [[t] * max(sizes) if d is None else t.unbind(d) for t, d in zip(leaves, dims)]
        results = [func(*pytree.tree_unflatten(list(row), spec), **kwargs)
                   for row in zip(*columns)]
        if not results:
            raise ValueError("vmap: cfx maps a function over at least one example")
        flat, specs = zip(*(pytree.tree_flatten(r) for r in results))
        for leaf in flat[0]:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type "
                                 f"{type(leaf)}. Did you mean to set out_dims= to None for "
                                 "output?")
        outs = _spread(out_dims, results[0], "out_dims")
        return pytree.tree_unflatten([stack(list(c), d) if d is not None else c[0]
                                      for c, d in zip(zip(*flat), outs)], specs[0])

    return wrapper


def stack_module_state(models):
    """(parameters, buffers): those of several models of one kind, stacked."""
    from .. import stack

    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")

    def stacked(each):
        names = list(each[0])
        return {n: stack([m[n] for m in each]) for n in names}

    parameters = stacked([dict(m.named_parameters()) for m in models])
    parameters = {n: p.detach().requires_grad_(models[0].get_parameter(n).requires_grad)
                  for n, p in parameters.items()}
    return parameters, stacked([dict(m.named_buffers()) for m in models])
