"""Hooks of modules: what is called before and after forward, in the backward pass, and when things
are registered."""
import functools
import weakref
from collections import OrderedDict

import cfx

from ...utils.hooks import RemovableHandle


class _GlobalHooks:
    """Hooks of all modules."""

    def __init__(self):
        for name in ("forward", "forward_pre", "backward", "backward_pre", "forward_always",
                     "forward_with_kwargs", "buffer_registration", "module_registration",
                     "parameter_registration"):
            setattr(self, name, OrderedDict())
        self.full_backward = None

    @property
    def any(self):
        return self.forward or self.forward_pre or self.backward or self.backward_pre


global_hooks = _GlobalHooks()


class HookMethods:
    """The methods of a module that put hooks on it."""

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; what it gives, unless None, is passed instead."""
        handle = RemovableHandle(self._forward_pre_hooks,
                                 extra_dict=self._forward_pre_hooks_with_kwargs)
        self._forward_pre_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        if prepend:
            self._forward_pre_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; what it gives, unless None, is the output."""
        handle = RemovableHandle(self._forward_hooks,
                                 extra_dict=[self._forward_hooks_with_kwargs,
                                             self._forward_hooks_always_called])
        self._forward_hooks[handle.id] = hook
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        if prepend:
            self._forward_hooks.move_to_end(handle.id, last=False)
        return handle

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when the gradients of the inputs are there."""
        if self._is_full_backward_hook is False:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on "
                               "a single Module. Please use only one of them.")
        self._is_full_backward_hook = True
        return self._add_backward(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) when the gradients of the outputs are there."""
        return self._add_backward(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        if self._is_full_backward_hook is True:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on "
                               "a single Module. Please use only one of them.")
        self._is_full_backward_hook = False
        return self._add_backward(self._backward_hooks, hook, False)

    def _add_backward(self, hooks, hook, prepend):
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_state_dict_pre_hook(self, hook):
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def register_state_dict_post_hook(self, hook):
        hook._from_public_api = True
        return self._register_state_dict_hook(hook)

    def _register_state_dict_hook(self, hook):
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_load_state_dict_pre_hook(self, hook):
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = \
            functools.partial(_call_weakly, hook, weakref.ref(self)) if with_module else hook
        return handle

    def register_load_state_dict_post_hook(self, hook):
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle


def _call_weakly(hook, module, *args, **kwargs):
    return hook(module(), *args, **kwargs)


# ---- a call with hooks ---------------------------------------------------------------------------


def call_with_hooks(module, args, kwargs):
    """Pre-hooks, forward and hooks, in PyTorch's order."""
    called = set()
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        result = _run_forward(module, args, kwargs)
        for key, hook in [*global_hooks.forward.items(), *module._forward_hooks.items()]:
            if key in module._forward_hooks_always_called or key in global_hooks.forward_always:
                called.add(key)
            with_kwargs = (key in module._forward_hooks_with_kwargs
                           or key in global_hooks.forward_with_kwargs)
            changed = hook(module, args, kwargs, result) if with_kwargs else \
                hook(module, args, result)
            if changed is not None:
                result = changed
        return result
    except Exception:
        _run_always(module, args, kwargs, called)
        raise


def _run_always(module, args, kwargs, called):
    """The hooks that run after an error too; their own errors are told as warnings."""
    import warnings

    for hooks, always in ((global_hooks.forward, global_hooks.forward_always),
                          (module._forward_hooks, module._forward_hooks_always_called)):
        for key, hook in hooks.items():
            if key not in always or key in called:
                continue
            try:
                if key in module._forward_hooks_with_kwargs:
                    hook(module, args, kwargs, None)
                else:
                    hook(module, args, None)
            except Exception as e:
                warnings.warn("module forward hook with ``always_call=True`` raised an exception "
                              f"that was silenced as another error was raised in forward: {e}",
                              stacklevel=2)


def _run_pre_hooks(module, args, kwargs):
    for key, hook in [*global_hooks.forward_pre.items(), *module._forward_pre_hooks.items()]:
        if key in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, "
                                       f"new_kwargs), but got {changed}.")
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _run_forward(module, args, kwargs):
    after = list(global_hooks.backward.values()) + list(module._backward_hooks.values())
    before = list(global_hooks.backward_pre.values()) + list(module._backward_pre_hooks.values())
    if not after and not before:
        return module.forward(*args, **kwargs)
    return _Gates(module, before, after).call(args, kwargs)


class _Gates:
    """A call of a module between identities: gradients of its results go through the outer ones,
    those of its arguments through the inner ones, and the hooks see both."""

    def __init__(self, module, before, after):
        self.module, self.before, self.after = module, before, after
        self.grads_out, self.grads_in, self.open = [], [], 0

    def call(self, args, kwargs):
        if self.after:
            self.grads_in = [None] * len(args)
            args = tuple(self._gate(i, a, self._input_arrived) for i, a in enumerate(args))
            inputs, self.open = self.open, 0
        result = self.module.forward(*args, **kwargs)
        many = isinstance(result, tuple)
        outs = list(result) if many else [result]
        self.grads_out = [None] * len(outs)
        outs = [self._gate(i, o, self._output_arrived) for i, o in enumerate(outs)]
        self.outputs_open = self.open
        self.inputs_open = inputs if self.after else 0
        if not many:
            return outs[0]
        return type(result)(*outs) if hasattr(result, "_fields") else tuple(outs)

    def _gate(self, i, value, arrived):
        if not (isinstance(value, cfx.Tensor) and value.requires_grad and cfx.is_grad_enabled()):
            return value
        self.open += 1
        gate = value.view_as(value)
        gate.register_hook(lambda g: arrived(i, g))
        return gate

    def _output_arrived(self, i, g):
        self.grads_out[i] = g
        self.outputs_open -= 1
        if self.outputs_open:  # others are still computed
            return None
        for hook in self.before:
            changed = hook(self.module, tuple(self.grads_out))
            if changed is not None:
                self._take(self.grads_out, changed, i, "full backward pre hook")
        if self.after and not self.inputs_open:
            self._call_after(None)
        return self.grads_out[i]

    def _input_arrived(self, i, g):
        self.grads_in[i] = g
        self.inputs_open -= 1
        if not self.inputs_open:
            self._call_after(i)
        return self.grads_in[i]

    def _call_after(self, last):
        for hook in self.after:
            changed = hook(self.module, tuple(self.grads_in), tuple(self.grads_out))
            if changed is not None:
                self._take(self.grads_in, changed, last, "backward hook")

    def _take(self, grads, changed, last, what):
        """Puts what a hook gave in the place of gradients: one that went on already stays."""
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != len(grads):
            raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got "
                               f"{len(changed)}, but expected {len(grads)}")
        for i, (old, new) in enumerate(zip(grads, changed)):
            if new is not old and i != last and old is not None:
                raise RuntimeError(f"a {what} of {type(self.module).__name__} replaces gradients "
                                   "of several tensors: cfx can replace that of one")
            grads[i] = new


# ---- hooks of all modules ------------------------------------------------------------------------


def _register(hooks, hook, prepend=False, more=()):
    handle = RemovableHandle(hooks, extra_dict=list(more))
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module."""
    return _register(global_hooks.forward_pre, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, result) after the forward of every module."""
    handle = _register(global_hooks.forward, hook,
                       more=(global_hooks.forward_always, global_hooks.forward_with_kwargs))
    if with_kwargs:
        global_hooks.forward_with_kwargs[handle.id] = True
    if always_call:
        global_hooks.forward_always[handle.id] = True
    return handle


def register_module_full_backward_hook(hook):
    """hook(module, gradients of inputs, gradients of results) in every backward pass."""
    return _register(global_hooks.backward, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_full_backward_pre_hook(hook):
    return _register(global_hooks.backward_pre, hook)


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) where one is registered; what it gives takes its place."""
    return _register(global_hooks.buffer_registration, hook)


def register_module_module_registration_hook(hook):
    return _register(global_hooks.module_registration, hook)


def register_module_parameter_registration_hook(hook):
    return _register(global_hooks.parameter_registration, hook)


__all__ = [n for n in dir() if n.startswith("register_module_")] + ["cfx"]
