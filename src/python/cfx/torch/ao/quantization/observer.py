"""Observers: modules that look at what goes through them, and choose scale and zero point. A class
is one of C's kinds, or derived from ObserverBase in Python."""
import functools

import cfx
from cfx import _cfx

from ... import _qscheme
from ...nn.modules import _backed
from ...nn.modules.module import Module

__all__ = ["ObserverBase", "RecordingObserver", "UniformQuantizationObserverBase",
           "default_observer"]


class _Partial:
    """A class with some of its arguments: what a qconfig has."""

    def __init__(self, p):
        self.p = p
        self.callable_args = {}

    def __call__(self, *args, **kwargs):
        return self.p(*args, **{**{k: v() for k, v in self.callable_args.items()}, **kwargs})

    def __repr__(self):
        return self.p.__repr__() + self.callable_args.__repr__()

    def with_args(self, **kwargs):
        return _Partial(functools.partial(self, **kwargs))

    def with_callable_args(self, **kwargs):
        other = _Partial(self.p)
        other.callable_args = {**self.callable_args, **kwargs}
        return other

    @property
    def func(self):
        return self.p.func

    @property
    def keywords(self):
        return self.p.keywords

    def __eq__(self, other):
        return isinstance(other, _Partial) and _options(self) == _options(other)

    def __hash__(self):
        return hash(repr(_options(self)))


def _options(maker):
    """The options of the observer that a maker makes: two that make the same are equal."""
    return to_options(maker)


class _Maker:
    """Classes that a qconfig has with some of their arguments."""

    @classmethod
    def with_args(cls, **kwargs):
        return _Partial(functools.partial(cls, **kwargs))

    @classmethod
    def with_callable_args(cls, **kwargs):
        return _Partial(functools.partial(cls)).with_callable_args(**kwargs)


class ObserverBase(_Maker, Module):
    """The base of all observers: derived ones have forward(x) and calculate_qparams()."""

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no calculate_qparams")


class RecordingObserver(ObserverBase):
    """Keeps what goes through it."""

    def __init__(self, dtype=cfx.quint8):
        super().__init__(dtype)
        self.tensor_val = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self, **kwargs):
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self):
        return self.tensor_val


class InC(_Maker, _backed.Backed):
    """An observer, or a module that rounds, of C's."""

    _kind = _fake = 0  # C's numbers
    _order = ()        # names of arguments that are given without

    def __init__(self, *args, **kwargs):
        if len(args) > len(self._order):
            raise TypeError(f"{type(self).__name__}.__init__() takes at most {len(self._order)} "
                            f"positional arguments but {len(args)} were given")
        for name, value in zip(self._order, args):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got multiple values for "
                                f"argument '{name}'")
            kwargs[name] = value
        _backed.Backed.__init__(self, _cfx.observer(self._to_c(kwargs)))

    def _to_c(self, kwargs):
        options = {"kind": self._kind}
        for name, value in kwargs.items():
            if value is None or name == "factory_kwargs":
                continue
            if name == "qscheme":
                if not isinstance(value, _qscheme.qscheme):
                    raise TypeError("qscheme must be a torch.qscheme, not "
                                    f"{type(value).__name__}")
                value = value._number
            options[_NAMES.get(name, name)] = value
        return options

    def calculate_qparams(self, **kwargs):
        """(scale, zero_point) for what was seen."""
        return _cfx.observer_qparams(self._c)

    def _read(self):
        super()._read()
        if "qscheme" in self.__dict__ and isinstance(self.__dict__["qscheme"], str):
            self.__dict__["qscheme"] = _qscheme.named(self.__dict__["qscheme"])
        how = _cfx.observer_how(self._c)
        self.__dict__["is_dynamic"] = how["dynamic"]
        for name in ("quant_min", "quant_max"):
            if how["quant_min"] == how["quant_max"] == 0 and name in self.__dict__:
                self.__dict__[name] = _range(how)[name == "quant_max"]

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        fresh = _cfx.observer(_cfx.observer_how(self._c))
        for name, (b, _) in fresh.buffers().items():
            setattr(self, name, b)


def _range(how):
    """The integers of a dtype, one bit less where the range is reduced."""
    bits = {"torch.qint32": 32, "torch.int32": 32, "torch.int16": 16}.get(repr(how["dtype"]), 8)
    bits -= how["reduce_range"] and bits != 32
    if repr(how["dtype"]) in ("torch.quint8", "torch.uint8"):
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


class UniformQuantizationObserverBase(InC, ObserverBase):
    """The base of those of C's."""


_NAMES = {"is_dynamic": "dynamic"}
_ORDER = ("dtype", "qscheme", "reduce_range", "quant_min", "quant_max", "factory_kwargs", "eps",
          "is_dynamic")
_FIRST = {"MovingAverageMinMaxObserver": ("averaging_constant",),
          "PerChannelMinMaxObserver": ("ch_axis",),
          "MovingAveragePerChannelMinMaxObserver": ("averaging_constant", "ch_axis"),
          "HistogramObserver": ("bins",), "FixedQParamsObserver": ("scale", "zero_point")}
_classes = {}
_OPTIONS = ("kind", "fake")


def _make():
    """A class for each kind of C's."""
    kind = 1
    while True:
        try:
            made = _cfx.observer({"kind": kind})
        except ValueError:
            return
        cls = type(made.type, (UniformQuantizationObserverBase,), {
            "_kind": kind, "_order": (*_FIRST.get(made.type, ()), *_ORDER), "__module__": __name__,
            "__doc__": None})
        _classes[made.type] = cls
        globals()[made.type] = cls
        __all__.append(made.type)
        kind += 1


_make()


def to_options(maker):
    """What C is told of what a maker of observers makes."""
    try:
        made = maker()
    except TypeError as e:
        raise TypeError(f"an observer of a qconfig cannot be made: {e}") from None
    if not is_plain(made):
        raise NotImplementedError(f"{type(made).__name__}: traced models are observed by C's "
                                  "observers; one whose forward or calculate_qparams is Python's "
                                  "is for models that are not traced (prepare and convert)")
    return _cfx.observer_how(made._c)


def is_plain(made):
    """Whether C does all that an observer does."""
    cls = type(made)
    return isinstance(made, InC) and cls.forward is InC.forward \
        and cls.calculate_qparams is InC.calculate_qparams


def is_activation_post_process(module):
    """Whether a module is an observer or rounds."""
    return isinstance(module, (ObserverBase, InC))


_is_activation_post_process = is_activation_post_process


def from_options(options):
    """The maker of what C was told so."""
    made = _cfx.observer(options)
    cls = _class_of(made)
    kwargs = {"observer": _classes[_inner_type(made)]} if options["fake"] else {}
    plain = _cfx.observer({"kind": options["kind"], "fake": options["fake"]})
    defaults = _cfx.observer_how(plain)
    given = {name: value for name, value in options.items() if name not in _OPTIONS
             and value != defaults[name] and value not in (0, cfx.uint8)}
    if "quant_max" in given:
        given = {"quant_min": options["quant_min"], "quant_max": given.pop("quant_max"), **given}
    for name, value in given.items():
        if name == "qscheme":
            value = _qscheme.ALL[value]
        kwargs["is_dynamic" if name == "dynamic" else name] = value
    return cls.with_args(**kwargs)


def _inner_type(made):
    return dict(made.children())["activation_post_process"].type


def _class_of(made):
    from . import fake_quantize

    return _classes.get(made.type) or fake_quantize.CLASSES.get(made.type)


def _find(made):
    cls = _class_of(made)
    if cls is None:
        return None
    try:
        _cfx.observer_how(made)
    except TypeError:
        return None
    return cls


_backed._finders.append(_find)

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)  # noqa: F821
default_placeholder_observer = PlaceholderObserver  # noqa: F821
default_debug_observer = NoopObserver  # noqa: F821
default_weight_observer = MinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.qint8, qscheme=_qscheme.per_tensor_symmetric)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)  # noqa: F821
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.qint8, qscheme=_qscheme.per_channel_symmetric)
default_dynamic_quant_observer = PlaceholderObserver.with_args(  # noqa: F821
    dtype=cfx.quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.quint8, qscheme=_qscheme.per_channel_affine_float_qparams, ch_axis=0)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.qint8, qscheme=_qscheme.per_tensor_symmetric, quant_min=-127, quant_max=127,
    eps=2 ** -12)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.qint8, qscheme=_qscheme.per_channel_symmetric, quant_min=-127, quant_max=127,
    eps=2 ** -12)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(  # noqa: F821
    scale=1.0 / 256.0, zero_point=0, dtype=cfx.quint8, quant_min=0, quant_max=255)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(  # noqa: F821
    scale=2.0 / 256.0, zero_point=128, dtype=cfx.quint8, quant_min=0, quant_max=255)
default_reuse_input_observer = ReuseInputObserver  # noqa: F821
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(  # noqa: F821
    dtype=cfx.quint8, qscheme=_qscheme.per_channel_affine_float_qparams, ch_axis=0, quant_max=15)
__all__ += [name for name in list(globals()) if name.startswith(("default_", "weight_obs",
                                                                 "per_channel_weight"))]
