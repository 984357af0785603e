"""What tracing puts in the place of functions and methods that are to become nodes, and takes away
again."""
import contextlib
import functools

from .node import map_aggregate
from .proxy import Proxy


def _proxies_in(a):
    found = []
    map_aggregate(a, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found


_wrapped_fns_to_patch = {}     # (id of a module's dict, name) to that dict
_wrapped_methods_to_patch = []  # (class, name)


@functools.lru_cache(maxsize=128)  # all functions of math are wrapped in every trace
def _create_wrapped_func(orig_fn):
    """The function, or a node that calls it where an argument is a proxy."""
    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if proxies:
            result = proxies[0].tracer.create_proxy("call_function", orig_fn, args, kwargs)
            result.node.meta["is_wrapped"] = True
            return result
        return orig_fn(*args, **kwargs)

    return wrapped


def _create_wrapped_method(cls, name):
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxies = _proxies_in((args, kwargs))
        if proxies:
            return proxies[0].tracer.create_proxy("call_method", name, args, kwargs)
        return orig_fn(*args, **kwargs)

    return wrapped


class _Patcher:
    """Puts other things under names, and the old ones back at the end."""

    def __init__(self):
        self.patches_made = []
        self.visited = set()

    def patch_all(self, frame_dict, found):
        """The same for several names that are there."""
        self.patches_made.append((frame_dict, {name: frame_dict[name] for name in found}, True,
                                  None))
        frame_dict.update(found)

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        had, old = name in frame_dict, frame_dict.get(name)
        frame_dict[name] = new_fn
        self.patches_made.append((frame_dict, name, had, old))

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        self.patches_made.append((cls, name, True, getattr(cls, name)))
        setattr(cls, name, new_fn)

    def visit_once(self, thing):
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def revert_all_patches(self):
        while self.patches_made:
            where, name, had, old = self.patches_made.pop()
            if isinstance(name, dict):
                where.update(name)
            elif not isinstance(where, dict):
                setattr(where, name, old)
            elif had:
                where[name] = old
            else:
                del where[name]
        return self.patches_made

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.revert_all_patches()
        self.visited.clear()


CURRENT_PATCHER = None


@contextlib.contextmanager
def _new_patcher():
    global CURRENT_PATCHER
    was, CURRENT_PATCHER = CURRENT_PATCHER, _Patcher()
    try:
        with CURRENT_PATCHER as patcher:
            yield patcher
    finally:
        CURRENT_PATCHER = was


@contextlib.contextmanager
def _maybe_revert_all_patches():
    """Without the patches of the tracing that goes on, if one does."""
    if CURRENT_PATCHER is None:
        yield
        return
    made = list(CURRENT_PATCHER.patches_made)
    now = [(w, n, {k: w[k] for k in n} if isinstance(n, dict) else
            w[n] if isinstance(w, dict) else getattr(w, n)) for w, n, *_ in made]
    CURRENT_PATCHER.revert_all_patches()
    try:
        yield
    finally:
        for where, name, fn in now:
            if isinstance(name, dict):
                CURRENT_PATCHER.patch_all(where, fn)
                continue
            put = CURRENT_PATCHER.patch if isinstance(where, dict) else CURRENT_PATCHER.patch_method
            put(where, name, fn, deduplicate=False)


def _patch_wrapped_functions(patcher):
    import builtins

    for (_, name), frame_dict in _wrapped_fns_to_patch.copy().items():
        if name not in frame_dict and hasattr(builtins, name):
            orig = getattr(builtins, name)
        else:
            orig = frame_dict[name]
        patcher.patch(frame_dict, name, _create_wrapped_func(orig))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Patches the functions of a module that are to be wrapped, once."""
    if not patcher.visit_once(frame_dict):
        return
    found = {name: _create_wrapped_func(value) for name, value in frame_dict.items()
             if id(value) in function_ids and not name.startswith("_") and callable(value)}
    if found:
        patcher.patch_all(frame_dict, found)
