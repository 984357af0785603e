"""torch.autograd.gradcheck: gradients beside differences of the function."""
from cfx._grad import grad
from cfx._tensor import Tensor, enable_grad, no_grad


class GradcheckError(RuntimeError):
    """Gradients that are not what the function's differences say."""


def _outputs(func, inputs):
    out = func(*inputs)
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return [o for o in outs if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex())]


def _differences(func, inputs, x, eps):
    """A column for each element of x: what the outputs change by."""
    columns = []
    with no_grad():
        flat = x.detach().view(-1) if x.is_contiguous() else None
        if flat is None:
            raise ValueError("gradcheck expects all tensor inputs to be contiguous here")
        for i in range(flat.numel()):
            before = flat[i].item()
            flat[i] = before + eps
            up = [o.clone() for o in _outputs(func, inputs)]
            flat[i] = before - eps
            down = [o.clone() for o in _outputs(func, inputs)]
            flat[i] = before
            columns.append([((a - b) / (2 * eps)).reshape(-1) for a, b in zip(up, down)])
    return columns


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True,
              nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
              check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """True where the gradients of func are those of its differences; inputs are doubles."""
    try:
        return _check(func, inputs, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(func, inputs, eps, atol, rtol):
    from .. import allclose, stack, zeros_like

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but "
                         "none of the them have requires_grad=True.")
    if any(t.is_complex() for t in wanted):
        raise NotImplementedError("cfx has no gradcheck of complex inputs")
    with enable_grad():
        outs = _outputs(func, inputs)
        found = [[grad(e, wanted, retain_graph=True, allow_unused=True) if e.requires_grad
                  else [None] * len(wanted) for e in o.reshape(-1).unbind(0)] for o in outs]
    for k, x in enumerate(wanted):
        columns = _differences(func, inputs, x, eps)
        for j, o in enumerate(outs):
            if not o.numel() or not x.numel():
                continue
            analytical = stack([(zeros_like(x) if row[k] is None else row[k]).reshape(-1)
                                for row in found[j]], 1).detach()
            numerical = stack([c[j] for c in columns]).to(analytical.dtype)
            if not allclose(analytical, numerical, rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {k},\n"
                    f"numerical:{numerical}\nanalytical:{analytical}\n")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
                  check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """The same for the gradients of the gradients."""
    from .. import randn_like

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        with enable_grad():
            grad_outputs = [randn_like(o).requires_grad_() for o in _outputs(func, inputs)]
    given = tuple([grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs)
    places = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]

    def gradients(*all_):
        first, weights = all_[:len(inputs)], all_[len(inputs):]
        with enable_grad():
            outs = _outputs(func, first)
            return grad(outs, [first[i] for i in places], list(weights), create_graph=True,
                        materialize_grads=True)

    return gradcheck(gradients, (*inputs, *given), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception)
