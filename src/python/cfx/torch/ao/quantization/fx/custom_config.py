"""What the steps on traced models leave alone."""
__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig"]


class _Config:
    """Attributes with a setter each; what cfx cannot do is refused where it is set."""

    _names = ()  # of lists

    def __init__(self):
        for name in self._names:
            setattr(self, name, [])

    def __repr__(self):
        return f"{type(self).__name__}({ {k: v for k, v in vars(self).items() if v} })"

    def to_dict(self):
        return {_KEYS.get(k, k): v for k, v in vars(self).items() if v}

    @classmethod
    def from_dict(cls, d):
        new, keys = cls(), {_KEYS.get(name, name): name for name in cls._names}
        for key, value in d.items():
            if key not in keys:
                raise NotImplementedError(f"{cls.__name__}: cfx has no {key!r}")
            setattr(new, keys[key], value)
        return new


_KEYS = {"non_traceable_module_names": "non_traceable_module_name",
         "non_traceable_module_classes": "non_traceable_module_class"}


def _setter(name):
    def set_(self, value):
        setattr(self, name, value)
        return self

    set_.__name__ = f"set_{name}"
    return set_


def _refused(name):
    def set_(self, *args):
        raise NotImplementedError(f"{type(self).__name__}.{name}: cfx does not have it")

    set_.__name__ = name
    return set_


class PrepareCustomConfig(_Config):
    """For prepare_fx and prepare_qat_fx."""

    _names = ("non_traceable_module_names", "non_traceable_module_classes", "preserved_attributes")
    set_non_traceable_module_names = _setter("non_traceable_module_names")
    set_non_traceable_module_classes = _setter("non_traceable_module_classes")
    set_preserved_attributes = _setter("preserved_attributes")
    set_standalone_module_name = _refused("set_standalone_module_name")
    set_standalone_module_class = _refused("set_standalone_module_class")
    set_float_to_observed_mapping = _refused("set_float_to_observed_mapping")
    set_input_quantized_indexes = _refused("set_input_quantized_indexes")
    set_output_quantized_indexes = _refused("set_output_quantized_indexes")


class ConvertCustomConfig(_Config):
    """For convert_fx."""

    _names = ("preserved_attributes",)
    set_preserved_attributes = _setter("preserved_attributes")
    set_observed_to_quantized_mapping = _refused("set_observed_to_quantized_mapping")


class FuseCustomConfig(_Config):
    """For fuse_fx."""

    _names = ("preserved_attributes",)
    set_preserved_attributes = _setter("preserved_attributes")
