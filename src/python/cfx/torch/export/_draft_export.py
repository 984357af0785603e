"""What torch.export.export would have refused of a program that draft_export made."""
import dataclasses
import enum

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]


class FailureType(enum.IntEnum):
    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self):
        return self.name


_TYPES = {"data": FailureType.DATA_DEPENDENT_ERROR, "sizes": FailureType.GUARD_ADDED}


@dataclasses.dataclass
class FailureReport:
    """One decision: what was asked, what the example answered, and where."""

    failure_type: FailureType
    data: dict
    xfail: bool = False


class DraftExportReport:
    """print() shows it in PyTorch's words; `failures` has it in parts."""

    def __init__(self, program):
        self.failures = [FailureReport(_TYPES[f["kind"]],
                                       {k: v for k, v in f.items() if k != "kind"})
                         for f in program._draft_failures()]
        self._text = program._draft_report()

    def successful(self):
        return not self.failures

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"DraftExportReport({self.failures})"


def __getattr__(name):
    if name == "draft_export":
        from ._trace import draft_export

        return draft_export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
