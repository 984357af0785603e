"""What forward assigns to attributes while a model is exported: to a buffer it is a write, which
the program does too; to others it would be lost, and is refused where it is a tensor."""
import contextlib
import warnings

import cfx

from ..utils._pytree import tree_map_only

_NOTHING = object()


def _leaves(path, value):
    """(path, item) of everything in lists, tuples and dicts."""
    items = enumerate(value) if isinstance(value, (list, tuple)) else \
        value.items() if isinstance(value, dict) else None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from _leaves(f"{path}[{key!r}]", item)


class _Attributes:
    """The attributes of a module that are no parts of it, as they were."""

    def __init__(self, path, module):
        self._module = module
        self._prefix = f"self.{path}." if path else "self."
        self._values = {k: v for k, v in module.__dict__.items()
                        if not k.startswith("_") and k != "training"}
        self._leaves = dict(self._all(self._values))
        self._inside = []  # (container, its items)
        for value in self._values.values():
            self._remember(value)

    def _all(self, values):
        for k, v in values.items():
            yield from _leaves(self._prefix + k, v)

    def _remember(self, value):
        if isinstance(value, (list, dict)):
            self._inside.append((value, value.copy()))
        if isinstance(value, (list, tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                self._remember(item)

    def restore(self):
        """Puts them back: the paths of what was assigned, and what that was."""
        now = {k: v for k, v in self._module.__dict__.items()
               if not k.startswith("_") and k != "training"}
        changed = [(path, v) for path, v in self._all(now)
                   if self._leaves.get(path, _NOTHING) is not v]
        for container, items in self._inside:
            container.clear()
            (container.extend if isinstance(container, list) else container.update)(items)
        for k in now:
            if k not in self._values:
                del self._module.__dict__[k]
        self._module.__dict__.update(self._values)
        return changed


class _Buffers:
    """The buffers of all modules, as they were."""

    def __init__(self, modules):
        self._before = [(m, dict(m._buffers)) for m in modules]

    def assigned(self):
        """(buffer, what was assigned to it) of all that forward assigned."""
        return [(t, m._buffers[key]) for m, before in self._before for key, t in before.items()
                if isinstance(t, cfx.Tensor) and isinstance(m._buffers.get(key), cfx.Tensor)
                and m._buffers[key] is not t]

    def apart(self, value):
        """A result without the memory that is written to when forward has ended: it is what the
        buffer was."""
        written = [t for t, _ in self.assigned()]

        def copy(leaf):
            return leaf.clone() if any(leaf._shares(t) for t in written) else leaf
        return tree_map_only(cfx.Tensor, copy, value) if written else value

    def restore(self, done):
        """Puts the buffers back, with the numbers of what was assigned to them."""
        pairs = self.assigned() if done else []
        for m, before in self._before:
            m._buffers.update(before)
        values = [new.clone() if any(new._shares(t) for t, _ in pairs) else new
                  for _, new in pairs]  # two that change places, a view of itself
        for (t, _), new in zip(pairs, values):
            t.copy_(new)


@contextlib.contextmanager
def kept(root):
    """Runs a model's forward, whose result goes through the function that this gives; afterwards
    buffers are those that they were, with the numbers that were assigned, and attributes are what
    they were."""
    modules = dict(root.named_modules())
    buffers = _Buffers(modules.values())
    attributes = [_Attributes(path, m) for path, m in modules.items()]
    done = False
    try:
        yield buffers.apart
        done = True
    finally:
        buffers.restore(done)
        changed = [pair for a in attributes for pair in a.restore()]
    _tell(changed)


def _tell(changed):
    tensors = [path for path, v in changed if isinstance(v, cfx.Tensor)]
    if tensors:
        one = len(tensors) == 1
        raise ValueError(f"The tensor attribute{'' if one else 's'} {', '.join(tensors)} "
                         f"{'was' if one else 'were'} assigned during export. Such attributes must "
                         "be registered as buffers using the `register_buffer` API "
                         "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                         "#torch.nn.Module.register_buffer).")
    if changed:
        names, one = ", ".join(path for path, _ in changed), len(changed) == 1
        warnings.warn(f"The attribute{'' if one else 's'} {names} {'was' if one else 'were'} "
                      "assigned during export, which the program does not do.", stacklevel=2)
