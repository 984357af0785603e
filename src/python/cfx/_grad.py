"""Gradients: hooks of tensors, and what a tensor's grad_fn tells."""
import weakref

from . import _cfx


class HookHandle:
    """Takes a hook off a tensor again."""

    def __init__(self, tensor, number):
        self._tensor, self.id = tensor, number

    def remove(self):
        _cfx.unhook(self._tensor, self.id)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def tensor_hook(tensor, hook):
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return HookHandle(tensor, _cfx.hook(tensor, hook, False))


def leaf_hook(tensor, hook):
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return HookHandle(tensor, _cfx.hook(tensor, lambda leaf: hook(leaf) and None, True))


class GradFn:
    """What made a tensor, as the tape has it. There is one object for a call, as long as somebody
    has it; its class is called like it."""

    def __init__(self, capsule, told):
        self._capsule = capsule
        self._address, self._name, self._leaf, _ = told

    def name(self):
        return "torch::autograd::AccumulateGrad" if self._is_leaf() else self._name

    def _is_leaf(self):
        return self._name == "AccumulateGrad"

    @property
    def next_functions(self):
        """(what the gradient of an argument goes to, which of its results that is) for each."""
        return tuple((None if c is None else grad_fn(c), output)
                     for c, output in _cfx.grad_node_told(self._capsule)[3])

    def __getattr__(self, name):
        if name == "variable" and self._is_leaf():
            return self._leaf
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self):
        own = "torch.autograd.function." if self._name.endswith("Backward") else ""
        return f"<{own}{self._name} object at {hex(id(self))}>"


_functions = weakref.WeakValueDictionary()  # the address of a node to its object
_classes = {}


def grad_fn(capsule):
    """The object for a node of the tape."""
    told = _cfx.grad_node_told(capsule)
    address, name = told[:2]
    found = _functions.get(address)
    if found is None:
        if name not in _classes:
            _classes[name] = type(name, (GradFn,), {})
        found = _functions[address] = _classes[name](capsule, told)
    return found


def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         allow_unused=None, materialize_grads=False):
    """The gradients of outputs by inputs, a tuple; nothing is added to any .grad."""
    ins = as_list(inputs)
    given = None if grad_outputs is None else as_list(grad_outputs)
    found = _cfx.grad(as_list(outputs), ins, given,
                      create_graph if retain_graph is None else retain_graph, create_graph,
                      bool(allow_unused) or materialize_grads)
    if materialize_grads:
        found = tuple(i.new_zeros(i.shape) if g is None else g for i, g in zip(ins, found))
    return found


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of several tensors to the leaves that they were made from."""
    tensors = as_list(tensors)
    given = [None] * len(tensors) if grad_tensors is None else as_list(grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        found = grad(tensors, inputs, grad_tensors, retain, create_graph, allow_unused=True)
        for leaf, g in zip(as_list(inputs), found):
            if g is not None:
                leaf.grad = g if leaf.grad is None else leaf.grad + g
        return
    for i, (t, g) in enumerate(zip(tensors, given)):
        t._backward(g, retain or i + 1 < len(tensors), create_graph)
