"""Dataclasses as plain data."""
import dataclasses


def _dataclass_to_dict(obj):
    """Dataclasses become dicts, in containers too."""
    if dataclasses.is_dataclass(obj):
        return {f.name: _dataclass_to_dict(getattr(obj, f.name)) for f in dataclasses.fields(obj)}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_dataclass_to_dict(x) for x in obj)
    if isinstance(obj, dict):
        return {k: _dataclass_to_dict(v) for k, v in obj.items()}
    return obj
