"""The class of all optimisers."""
import collections
import functools

from cfx import _cfx
from cfx._tensor import Tensor, enable_grad

from ..utils.hooks import RemovableHandle

required = object()


def _group_of(params):
    """A group's parameters as a list."""
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError("optimizer parameters need to be organized in ordered collections, but the "
                        "ordering of tensors in sets will change between runs. Please use a list "
                        "instead.")
    params = list(params)
    return [p[1] if isinstance(p, tuple) else p for p in params]


def _handle(hooks, hook, first=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


_all_pre_hooks, _all_post_hooks = collections.OrderedDict(), collections.OrderedDict()


def register_optimizer_step_pre_hook(hook):
    """The same for all optimisers."""
    return _handle(_all_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    return _handle(_all_post_hooks, hook)


def _hooked(step):
    """A step() with the hooks around it."""

    @functools.wraps(step)
    def stepped(self, *args, **kwargs):
        if self.__dict__.get("_stepping"):  # super().step() of a step
            return step(self, *args, **kwargs)
        self._opt_called = True
        for hook in [*_all_pre_hooks.values(), *self._hooks("step_pre").values()]:
            given = hook(self, (self, *args), kwargs)
            if given is not None:
                (_, *args), kwargs = given
        self._stepping = True
        try:
            result = step(self, *args, **kwargs)
        finally:
            self._stepping = False
        for hook in [*self._hooks("step_post").values(), *_all_post_hooks.values()]:
            hook(self, (self, *args), kwargs)
        return result

    return stepped


class Optimizer:
    """Changes parameters by their gradients. A subclass of Python's overrides step(); those of
    torch.optim step in C."""

    _type = None  # the optimiser of C's

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of "
                            f"Tensors or dicts, but got {params.type()}")
        self.defaults = defaults
        self.state = collections.defaultdict(dict)
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.param_groups = []
        for group in groups:
            self._add(dict(group))
        self._made = None
        if self._type:
            self._make()

    def _add(self, group):
        group["params"] = _group_of(group["params"])
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is "
                                f"{type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError("parameter group didn't specify a value of required optimization "
                                 f"parameter {name}")
            group.setdefault(name, default)
        seen = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in seen for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def _make(self):
        groups = [{"params": g["params"], **{k: g[k] for k in self.defaults}}
                  for g in self.param_groups]
        self._made = _cfx.OptimBase(self._type, [{"params": g["params"]} for g in groups],
                                    groups[0])
        for i, group in enumerate(groups):
            self._made._set(i, group)

    def add_param_group(self, param_group):
        """Parameters that are optimised from now on; what is known of the others stays."""
        state = self._made._state() if self._made else None
        self._add(dict(param_group))
        if self._made:
            self._make()
            count = sum(len(g["params"]) for g in self.param_groups)
            fresh = self._made._state()
            fresh["state"] = {i: s for i, s in state["state"].items() if i < count}
            self._made._load(fresh)

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else p.grad.detach().zero_()

    def step(self, closure=None):
        """One step; what the closure gives, where there is one."""
        if self._made is None:
            raise NotImplementedError
        loss = self._loss(closure)
        for i, group in enumerate(self.param_groups):
            self._made._set(i, group)
        self._made._step()
        return loss

    @staticmethod
    def _loss(closure):
        """What a closure gives, None where there is none."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    # ---- hooks ----

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)

    def _hooks(self, kind):
        return self.__dict__.setdefault(f"_optimizer_{kind}_hooks", collections.OrderedDict())

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step; what it gives are its arguments."""
        return _handle(self._hooks("step_pre"), hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        return _handle(self._hooks("step_post"), hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) before each state_dict()."""
        return _handle(self._hooks("state_dict_pre"), hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) after each; what it gives takes the place of the dict."""
        return _handle(self._hooks("state_dict_post"), hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) before each load_state_dict(), which is given a copy of the
        dict; what the hook gives is loaded in its place."""
        return _handle(self._hooks("load_state_dict_pre"), hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) after each load_state_dict()."""
        return _handle(self._hooks("load_state_dict_post"), hook, prepend)

    def state_dict(self):
        """What is to be saved: the state of each parameter by its number, and the groups."""
        for hook in list(self._hooks("state_dict_pre").values()):
            hook(self)
        state = self._state_dict()
        for hook in list(self._hooks("state_dict_post").values()):
            changed = hook(self, state)
            state = state if changed is None else changed
        return state

    def _state_dict(self):
        numbers = {}
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
        groups = [{**{k: v for k, v in g.items() if k != "params"},
                   "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        if self._made is None:
            state = {numbers[id(p)]: s for p, s in self.state.items()}
        else:
            state = self._made._state()["state"]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        state_dict = dict(state_dict)
        for hook in list(self._hooks("load_state_dict_pre").values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        self._load_state_dict(state_dict)
        for hook in list(self._hooks("load_state_dict_post").values()):
            hook(self)

    def _load_state_dict(self, state_dict):
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the "
                             "size of optimizer's group")
        for own, new in zip(self.param_groups, groups):
            own.update({k: v for k, v in new.items() if k != "params"})
        if self._made is None:
            flat = [p for g in self.param_groups for p in g["params"]]
            self.state.update({flat[i]: dict(s) for i, s in state_dict["state"].items()})
            return
        known = self._made._state()
        known["state"] = state_dict["state"]
        self._made._load(known)

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join(lines + [")"])


Optimizer.step = _hooked(Optimizer.step)
