"""Which functions are promised to stay: a mark, and the sets that hold what is marked."""
import textwrap

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Marks a function or class."""

    def mark(f):
        docstring = textwrap.dedent(f.__doc__ or "")
        docstring += "\n.. note::\n    " + (
            "Backwards-compatibility for this API is guaranteed.\n" if is_backward_compatible else
            "This API is experimental and is *NOT* backward-compatible.\n")
        f.__doc__ = docstring
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(f)
        _MARKED_WITH_COMPATIBILITY.setdefault(f)
        return f

    return mark
