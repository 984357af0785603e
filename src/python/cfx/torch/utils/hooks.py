"""The handle of a hook."""
import itertools
import weakref

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook off again: handle.remove(), or at the end of a with block."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_ids)
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) \
            else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self):
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()
