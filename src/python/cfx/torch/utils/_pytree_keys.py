"""Paths into trees: how a leaf is reached from the root."""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    key: typing.Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(kp):
    """A path as Python writes it: "['x'][0].y"."""
    return "".join(str(k) for k in kp)


def key_get(obj, kp):
    """What is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
