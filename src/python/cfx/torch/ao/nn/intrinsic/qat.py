"""torch.ao.nn.intrinsic.qat: fused layers that round their weights while they are trained."""
from .. import classes as _classes

__all__ = ["freeze_bn_stats", "update_bn_stats", *_classes.NAMES["intrinsic.qat"]]


def freeze_bn_stats(mod):
    """For model.apply: normalisations go on with the means that they have."""
    if hasattr(mod, "freeze_bn_stats"):
        mod.freeze_bn_stats()


def update_bn_stats(mod):
    """For model.apply: normalisations learn means again."""
    if hasattr(mod, "update_bn_stats"):
        mod.update_bn_stats()


def __getattr__(name):
    return _classes.named("intrinsic.qat", name)


def __dir__():
    return __all__
