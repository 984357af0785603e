"""Sessions: one user's state over programs that many share."""
from . import _cfx
from ._program import _input


class Session(_cfx.SessionBase):
    """Has copies of what programs write to (caches of keys and values, counters), and of nothing
    else. session.run(program, x) is program(x) with the session's own state. Used by one thread
    at a time; any number of sessions run the same programs at once."""

    def run(self, program, *args, **kwargs):
        """The result of a program, whose writes are the session's."""
        return self._run(program, _input(args), _input(kwargs))
