"""Common subexpressions: what is computed twice is computed once."""
from typing import Any, Dict, Tuple  # noqa: F401

from cfx import _cfx

from ...._compatibility import compatibility
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

_RANDOM = ("rand rand_like randn randn_like randint randint_like randperm bernoulli bernoulli_ "
           "dropout dropout_ native_dropout normal normal_ multinomial poisson uniform_ "
           "exponential_ geometric_ log_normal_ random_ cauchy_ rrelu rrelu_ rrelu_with_noise "
           "rrelu_with_noise_ feature_dropout alpha_dropout feature_alpha_dropout "
           "_fused_dropout").split()
_WRITES = ("detach_ squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_ resize_ "
           "copy_ add_ mul_ sub_ div_ set_ zero_ fill_").split()


@compatibility(is_backward_compatible=False)
def get_CSE_banned_ops():
    """Operators that are never merged: those that draw random numbers or write."""
    from ..... import ops

    banned = set()
    for name in _RANDOM + _WRITES:
        packet = getattr(ops.aten, name, None)
        if packet is not None:
            banned.add(packet)
    return banned


@compatibility(is_backward_compatible=False)
class CSEPass(PassBase):
    """Leaves out calls that were made before with the same arguments."""

    def __init__(self, banned_ops=None):
        super().__init__()
        self.banned_ops = set() if banned_ops is None else banned_ops

    def _is_banned(self, node):
        target = node.target
        if isinstance(target, _cfx.OpOverload):
            return target.overloadpacket in self.banned_ops or target in self.banned_ops
        return target in self.banned_ops

    def call(self, graph_module):
        """A GraphModule of its own where something was left out."""
        new, env, seen, changed = Graph(), {}, {}, False
        for n in graph_module.graph.nodes:
            free = n.op in ("placeholder", "output", "get_attr") or self._is_banned(n)
            if free:
                env[n] = new.node_copy(n, lambda x: env[x])
                continue
            args, kwargs = _key(n.args, env), _key(sorted(n.kwargs.items()), env)
            key = (n.op, n.target, args, kwargs)
            try:
                known = seen.get(key)
            except TypeError:
                known, key = None, None
            if known is not None:
                env[n] = known
                changed = True
                continue
            env[n] = new.node_copy(n, lambda x: env[x])
            if key is not None:
                seen[key] = env[n]
        new._codegen = graph_module.graph._codegen
        result = GraphModule(graph_module, new)
        return PassResult(result, changed)


def _key(a, env):
    """Arguments as something that is compared and hashed: numbers with their types."""
    if isinstance(a, Node):
        return ("node", env[a])
    if isinstance(a, (list, tuple)):
        return (type(a).__name__, tuple(_key(i, env) for i in a))
    if isinstance(a, dict):
        return ("dict", tuple((k, _key(v, env)) for k, v in a.items()))
    if isinstance(a, slice):
        return ("slice", _key((a.start, a.stop, a.step), env))
    return (type(a), a)
