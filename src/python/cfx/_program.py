"""Programs: what torch.export made and a file holds, or what a model becomes: shown, run, tapped,
changed, compared, drawn and saved."""
import io
import math
import os

from . import _cfx
from ._errors import FileError, LimitError  # noqa: F401
from ._tensor import Tensor, from_dlpack, from_numpy

SCHEMES = {"static": 0, "dynamic": 1, "weight": 2}
WEIGHTS = {"auto": 0, "inline": 1, "file": 2}
PER = {"channel": 0, "tensor": 1, "group": 2}


def _input(x):
    """Arrays of other libraries as tensors over their memory, in containers too."""
    if type(x) is Tensor or isinstance(x, (Tensor, int, float, str, type(None))):
        return x
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(_input(i) for i in x)
    if isinstance(x, dict):
        return {k: _input(v) for k, v in x.items()}
    if hasattr(x, "__array_interface__"):
        return from_numpy(x)
    return from_dlpack(x) if hasattr(x, "__dlpack__") else x


class Handle:
    """Takes a hook off again."""

    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


class Program(_cfx.ProgramBase):
    """A graph of ATen operators with its weights and a signature. Call it like the model."""

    # ---- running ----

    def __call__(self, *args, **kwargs):
        for x in args:
            if type(x) is not Tensor:
                args, kwargs = _input(args), _input(kwargs)
                break
        hooks = self.__dict__.get("_hooks")
        if hooks:
            return self._run(args, kwargs, False, tuple(s for s, _ in hooks), self._show)
        return self._run(args, kwargs, False, (), None)

    def run(self, *args, tap=None, see=None, reference=False, **kwargs):
        """The result for these inputs. tap, a selector or several ("relu", "op:gelu",
        "module:layers.0*"): (result, {node: value}). see(name, node, value) is called with every
        value, or every one tapped; what it returns, unless None, takes the value's place.
        reference: by the interpreter."""
        selectors = () if tap is None else (tap,) if isinstance(tap, str) else tuple(tap)
        taken = {}

        def look(name, node, value):
            if tap is not None:
                taken[name] = value
            return see(name, node, value) if see else None

        watches = tap is not None or see is not None
        result = self._run(_input(args), _input(kwargs), reference,
                           (selectors or ("*",)) if watches else (), look if watches else None)
        if tap is None:
            return result
        if not taken:
            raise KeyError(f"no node matches {tap!r}")
        return result, taken

    def hook(self, selector, fn):
        """Calls fn(name, node, value) with what the selector picks, at every call; what it returns,
        unless None, takes the value's place. The handle takes it off."""
        hooks = self.__dict__.setdefault("_hooks", [])
        hooks.append((selector, fn))
        return Handle(hooks, hooks[-1])

    def _show(self, name, node, value):
        changed = None
        for selector, fn in self._hooks:
            if node._selected(selector):
                new = fn(name, node, value)
                if new is not None:
                    changed = value = new
        return changed

    def plan(self, *args, **kwargs):
        """How it would run on such inputs: a line for each kernel; "" where the interpreter runs
        it."""
        return self._plan(_input(args), _input(kwargs))

    # ---- looking ----

    @property
    def graph(self):
        """The graph; edits of it are edits of the program."""
        from .torch import fx  # noqa: F401

        return self._graph()

    @property
    def code(self):
        """The Python that the graph stands for."""
        return self.graph.python_code("self").src

    def readable(self, **options):
        """The code with shapes and source lines."""
        from ._functions import torch

        module = torch().export.graph_module_of(self)
        return module.print_readable(print_output=False, **options)

    inputs = property(lambda self: self._inputs())
    outputs = property(lambda self: self._outputs())
    state_dict = property(lambda self: self._state())
    constants = property(lambda self: self._constants())
    sample_inputs = property(lambda self: self._sample_inputs())
    json = property(lambda self: self._json())

    def load_state_dict(self, state, strict=True):
        """Other tensors for parameters and persistent buffers."""
        self._load_state_dict(dict(state), strict)

    def cost(self, sizes=None):
        """FLOPs and bytes: {"flops", "bytes", "peak", "unknown", "nodes": {name: {...}}}."""
        sums, nodes = self._cost(sizes)
        names = ("flops", "bytes", "live", "unknown")
        sums["nodes"] = {name: dict(zip(names, rest)) for name, *rest in nodes}
        return sums

    def __str__(self):
        return self._str()

    def __repr__(self):
        users = sum(kind == 0 for kind, *_ in self._inputs())
        return (f"<cfx.Program: {len(self._graph())} nodes, {users} inputs, "
                f"{len(self._outputs())} outputs>")

    def _repr_svg_(self):
        return self._draw({"form": "svg"}, None)

    def _repr_html_(self):
        """The page of the viewer, in a frame of its own."""
        import html

        page = html.escape(self._draw({"form": "html"}, None), quote=True)
        return (f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0">'
                "</iframe>")

    def draw(self, path=None, *, form=None, beside=None, **options):
        """The drawing as a text, or written to a file (.svg, .html, .dot). Options: name, depth,
        all, focus, columns, style; beside: another program to compare with (HTML)."""
        form = form or (os.path.splitext(path)[1][1:] if path else "svg")
        if form not in ("svg", "html", "dot"):
            raise ValueError(f"a drawing is .svg, .html or .dot, not '{form}'")
        text = self._draw({**options, "form": form}, beside)
        if path is None:
            return text
        with io.open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    # ---- changing ----

    def decompose(self, keep=()):
        """The program in Core ATen; operators of `keep` stay."""
        return self._decompose(list(keep))

    def functionalize(self):
        """Writes as values, operators as they are."""
        return self._functionalize()

    def optimize(self, *passes, rounds=0, report=None):
        """The program after passes: names, or (name, {option: text}); the default pipeline where
        none is given. report, a list, gets what each did."""
        steps = [(p, {}) if isinstance(p, str) else (p[0], {k: str(v) for k, v in p[1].items()})
                 for p in passes]
        program, rows = self._passes(steps, rounds)
        if report is not None:
            names = ("pass", "changes", "nodes_before", "nodes_after", "seconds")
            report.extend(dict(zip(names, r)) for r in rows)
        return program

    def rewrite(self, rules):
        """The program after rules: "swish: x * sigmoid(x) -> silu(x)"."""
        return self._rewrite(rules)[0]

    def quantize(self, batches=(), scheme="static", bits=8, per="channel", group=32, skip=(),
                 smooth=0.0, report=None):
        """The program with weights, and activations, of few bits. batches: inputs to calibrate
        with. report, a dict, gets what became of layers, and the noise in dB."""
        if scheme not in SCHEMES or per not in PER:
            raise ValueError(f"schemes are {', '.join(SCHEMES)}; weights are scaled per "
                             f"{', '.join(PER)}")
        listed = [list(_input(b)) if isinstance(b, (list, tuple)) else [_input(b)]
                  for b in batches]
        program, layers, noise = self._quantize(listed, SCHEMES[scheme], bits, PER[per], group,
                                                list(skip), smooth)
        if report is not None:
            report["layers"] = [dict(zip(("node", "op", "left"), row)) for row in layers]
            if noise is not None:
                report["db"], report["noise"] = noise[0], dict(noise[1])
        return program

    def extract(self, first=None, last=None):
        """The part from some nodes to others as a program of its own."""
        return self._extract(first, last)

    def copy(self):
        return self._copy()

    __copy__ = copy

    def __reduce__(self):
        return (from_bytes, (self.to_bytes(),))

    def to_bytes(self):
        """The bytes of its .pt2."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.pt2")
            self.save(path)
            with io.open(path, "rb") as f:
                return f.read()

    def __deepcopy__(self, memo):
        return self._copy()

    # ---- comparing ----

    def compare(self, other, *args, **kwargs):
        """Runs both on the same inputs: a list of what belongs together, in the order of nodes,
        (node, its other, largest difference), where they differ in something."""
        pairs = self._pairs(other)
        _, mine = self.run(*args, tap="*", **kwargs)
        _, others = other.run(*args, tap="*", **kwargs)
        rows = []
        for a, b, _ in pairs:
            x, y = mine.get(a), others.get(b)
            if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape:
                d = (x.to(_cfx.float64) - y.to(_cfx.float64)).abs()
                most = d.max().item() if d.numel() else 0.0
                if most != 0:
                    rows.append((a, b, most))
        return rows

    def pairs(self, other):
        """Which node of this program belongs to which of another: (name, name, changed)."""
        return self._pairs(other)

    # ---- out ----

    def module(self):
        """A GraphModule called like the model, over the same weights: torch.export's."""
        from ._functions import torch

        return torch().export.ExportedProgram(self).module()

    def save(self, path):
        """Writes a .pt2, which PyTorch loads too, a .fx, or an .onnx; ValueError for other ends."""
        self._save(os.fspath(path))

    def compile_c(self, path=None, *, name=None, weights="auto", test=False, main=False,
                  threads=False, sizes=None, inputs=None):
        """Writes the program as C with no runtime and no library but libm: path ("model.c"), a
        header and, unless weights are "inline", a file of them beside it. Without a path: the
        source as a text. sizes: {"s0": 8, "s1": (2, 64)} for sizes that vary; test adds a
        self-test on the inputs, main a program."""
        if weights not in WEIGHTS:
            raise ValueError(f"weights are {', '.join(WEIGHTS)}, not {weights!r}")
        said = " ".join(f"{s}={n[0]}:{n[1]}" if isinstance(n, tuple) else f"{s}={n}"
                        for s, n in (sizes or {}).items())
        return self._compile_c(path, (name, WEIGHTS[weights], test, main, threads, said or None,
                                      None if inputs is None else list(_input(inputs))))

    def split(self, stages, memory=0, report=None):
        """Programs that compute it one after the other, each for a process of its own: each takes
        what the one before it gives. memory: the bytes of tensors that one may hold. report, a
        list, gets what each costs."""
        rows = self._stages(stages, memory)
        if report is not None:
            names = ("seconds", "flops", "weights", "handed_on")
            report.extend(dict(zip(names, r[1:])) for r in rows)
        return [r[0] for r in rows]

    def parallel(self, ranks, report=None):
        """The programs of ranks that compute every layer together, with collectives where they
        need each other. report, a dict, gets which layers are cut."""
        if ranks < 1:
            raise ValueError(f"there is at least one rank, not {ranks}")
        parts = [self._rank(i, ranks) for i in range(ranks)]
        if report is not None:
            report.update(parts[0][1])
        return [p for p, _ in parts]

    def load_weights(self, path, partial=False):
        """Gives it the weights of a file (.safetensors, .pt, .npz) by name: which were loaded,
        converted, missing and unused."""
        return self._load_weights(path, partial)

    def merge_lora(self, path, alpha=None):
        """Merges a LoRA adapter into the weights: which were merged."""
        return self._merge_lora(path, math.nan if alpha is None else alpha)


def open(path):  # noqa: A001
    """The program in a file: .pt2, .fx or .onnx."""
    return _cfx.open_program(path)


def from_bytes(data):
    """The program in the bytes of a .pt2."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.pt2")
        with io.open(path, "wb") as f:
            f.write(data)
        return open(path)


def export(module, args, kwargs=None, dynamic=None):
    """The program of a model of torch.nn, as torch.export.export makes it."""
    from ._functions import torch

    return torch().export.export(module, args, kwargs, dynamic_shapes=dynamic)._program


_cfx.adopt("program_class", Program)
