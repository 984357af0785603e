"""torch.utils.flop_counter: how many floating-point operations calls take."""
import collections

from ._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode"]


class FlopCounterMode(TorchDispatchMode):
    """Counts those of products, convolutions and attention, of all and of each module."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        super().__init__()
        self.flop_counts = collections.defaultdict(lambda: collections.defaultdict(int))
        self.depth, self.display, self.custom_mapping = depth, display, dict(custom_mapping or {})
        self._path = ["Global"]

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """Of each module, of each operator."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts of modules down to a depth, as text."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = []
        for name in sorted(k for k in self.flop_counts if k.count(".") <= depth):
            count = sum(self.flop_counts[name].values())
            rows.append((name, f"{count}", f"{100 * count / total:.2f}%"))
        head = ("Module", "FLOP", "% Total")
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(3)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip()
                 for r in [head, tuple("-" * w for w in widths), *rows]]
        return "\n".join(lines)

    def __enter__(self):
        from ..nn.modules.module import watched

        self.flop_counts.clear()
        self._watching = watched(self._call, lambda name, value: value)
        self._watching.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._watching.__exit__(*error)
        if self.display:
            print(self.get_table())

    def _call(self, module, forward, args, kwargs):
        """A module's call: what is counted inside is counted for it and those around it."""
        around = self._path[-1]
        inner = getattr(self, "_inside", None)
        name = next((n for n, m in inner.named_children() if m is module), None) \
            if inner is not None else None
        path = type(module).__name__ if name is None else f"{around}.{name}"
        self._path.append(path)
        self._inside = module
        try:
            return forward(*args, **kwargs)
        finally:
            self._path.pop()
            self._inside = inner

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        own = self.custom_mapping.get(func, self.custom_mapping.get(func.overloadpacket))
        count = own(*args, **kwargs, out_val=result) if own else func._flops(tuple(args), kwargs)
        if count:
            for path in dict.fromkeys(self._path):
                self.flop_counts[path][func.overloadpacket] += count
        return result
