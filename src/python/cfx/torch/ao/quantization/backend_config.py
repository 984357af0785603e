"""Which patterns a backend has kernels for. cfx quantizes traced models for PyTorch's native one:
its config can be passed on, and one of the caller's own is refused."""
import dataclasses
import enum

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints",
           "ObservationType", "get_fbgemm_backend_config", "get_native_backend_config",
           "get_onednn_backend_config", "get_qnnpack_backend_config"]


class ObservationType(enum.Enum):
    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclasses.dataclass
class DTypeWithConstraints:
    dtype: object = None
    quant_min_lower_bound: object = None
    quant_max_upper_bound: object = None
    scale_min_lower_bound: object = None
    scale_max_upper_bound: object = None
    scale_exact_match: object = None
    zero_point_exact_match: object = None


class DTypeConfig:
    """Dtypes of inputs, outputs, weights and biases of a pattern."""

    def __init__(self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None,
                 is_dynamic=None):
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic
        for name, d in (("input", input_dtype), ("output", output_dtype),
                        ("weight", weight_dtype)):
            full = d if isinstance(d, DTypeWithConstraints) else DTypeWithConstraints(dtype=d)
            setattr(self, f"{name}_dtype_with_constraints", full)

    input_dtype = property(lambda self: self.input_dtype_with_constraints.dtype)
    output_dtype = property(lambda self: self.output_dtype_with_constraints.dtype)
    weight_dtype = property(lambda self: self.weight_dtype_with_constraints.dtype)


class BackendPatternConfig:
    """What a backend does with one pattern."""

    def __init__(self, pattern=None):
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs = []

    def set_pattern(self, pattern):
        self.pattern = pattern
        return self

    def set_observation_type(self, observation_type):
        self.observation_type = observation_type
        return self

    def add_dtype_config(self, dtype_config):
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs):
        self.dtype_configs = list(dtype_configs)
        return self


class BackendConfig:
    """The patterns of a backend."""

    def __init__(self, name=""):
        self.name = name
        self.configs = []

    def set_name(self, name):
        self.name = name
        return self

    def set_backend_pattern_config(self, config):
        self.configs.append(config)
        return self

    def set_backend_pattern_configs(self, configs):
        self.configs += configs
        return self


def get_native_backend_config():
    """PyTorch's own kernels."""
    return BackendConfig("native")


def get_fbgemm_backend_config():
    return BackendConfig("fbgemm")


def get_qnnpack_backend_config():
    return BackendConfig("qnnpack")


def get_onednn_backend_config():
    return BackendConfig("onednn")


def check(config):
    """Refuses patterns that are the caller's."""
    if config is None:
        return
    if not isinstance(config, (BackendConfig, dict)):
        raise TypeError(f"backend_config must be a BackendConfig, not {type(config).__name__}")
    if isinstance(config, dict) or config.configs:
        raise NotImplementedError("cfx quantizes traced models for PyTorch's native backend; a "
                                  "BackendConfig with patterns of one's own is not supported")
