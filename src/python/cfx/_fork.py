"""A process that forks while another thread imports a module of this package: in the child nobody
would end that import, and the next one would wait for it for ever. A fork waits for such imports.
"""
import importlib._bootstrap as _imports
import os
import sys


def _is_ours(name, alias):
    head = name.partition(".")[0]
    return head == "cfx" or (head == "torch" and alias)


def _finish_imports():
    alias = getattr(sys.modules.get("torch"), "__name__", "").startswith("cfx.")
    for name in list(_imports._module_locks):
        if _is_ours(name, alias):
            _imports._lock_unlock_module(name)  # those of this thread are not waited for


def arrange():
    if hasattr(os, "register_at_fork") and hasattr(_imports, "_module_locks"):
        os.register_at_fork(before=_finish_imports)
