"""Tracing of functions whose assertions and annotations are rewritten first."""
import ast
import copy
import functools
import inspect
import types

from ...nn import Module
from .._symbolic_trace import Tracer
from ..graph import Graph


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites what cannot be traced as calls that can."""

    def rewrite(self, fn):
        lines = inspect.getsourcelines(fn)[0]
        head = next(line for line in lines if line.lstrip().startswith(("def ", "async def ")))
        indent = head[:len(head) - len(head.lstrip())]
        source = "".join(line.removeprefix(indent) for line in lines)  # texts may be less indented
        tree = ast.fix_missing_locations(self.visit(ast.parse(source)))
        scope = copy.copy(fn.__globals__)
        before = set(scope)
        exec(compile(tree, "", "exec"), scope)
        names = [k for k in scope if k not in before]
        if len(names) != 1:
            raise AssertionError(f"Expected 1 new key, got {len(names)}")
        made = scope[names[0]]
        g = types.FunctionType(made.__code__, fn.__globals__, name=made.__name__,
                               argdefs=made.__defaults__, closure=made.__closure__)
        g = functools.update_wrapper(g, made)
        g.__kwdefaults__ = copy.copy(made.__kwdefaults__)
        return g

    def visit_Assert(self, node):
        """assert x, "text" becomes torch._assert(x, "text")."""
        call = ast.parse("torch._assert()", mode="eval").body
        call.args = [node.test, node.msg if node.msg else ast.Constant(value="", kind=None)]
        return ast.copy_location(ast.Expr(value=call), node)

    def visit_AnnAssign(self, node):
        """y: T = f(x) becomes y = annotate(f(x), T)."""
        return ast.Assign(targets=[node.target], value=ast.Call(
            func=ast.Name(id="annotate", ctx=ast.Load()), args=[node.value, node.annotation],
            keywords=[]))


class RewritingTracer(Tracer):
    """Rewrites forward before it is traced, of modules below too."""

    def trace(self, root, concrete_args=None):
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn):
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)

    def rewrite_module(m):
        class RewrittenModule(Module):
            def __init__(self, orig):
                super().__init__()
                for k, v in orig.__dict__.items():
                    self.__dict__[k] = copy.copy(rewrite_module(v) if isinstance(v, Module) else v)
                for k, v in orig._modules.items():
                    self._modules[k] = rewrite_module(v) if v is not None else None

        RewrittenModule.forward = AST_Rewriter().rewrite(m.forward)
        return RewrittenModule(m)

    def own(m):
        return type(m).__module__.startswith("torch.nn") or \
            type(m).__module__.startswith("cfx.torch.nn")

    inner = rewrite_module

    def rewrite_module(m):
        return m if own(m) else inner(m)

    return inner(fn)


_ = Graph
