"""A GraphModule as a package: its code, and a file for its tensors and for each module that cannot
be written as code."""
import copy
import os
import warnings

from .. import nn, save

_WRITTEN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d,
            nn.BatchNorm3d)

_HEAD = """
import torch
from math import inf
from math import nan
NoneType = type(None)
import torch
from torch import device
import torch.fx._pytree as fx_pytree
import torch.utils._pytree as pytree

from torch.nn import *
"""


def to_folder(gm, folder, module_name):
    os.makedirs(folder, exist_ok=True)
    save(gm.state_dict(), os.path.join(folder, "state_dict.pt"))
    lines, blobs = ["super().__init__()"], []
    for name, module in gm.named_children():
        text = repr(module)
        if type(module) not in _WRITTEN:
            save(copy.deepcopy(module), os.path.join(folder, f"{name}.pt"))
            seen = text.replace("\r", " ").replace("\n", " ")
            text = f"torch.load(r'{os.path.join(folder, name)}.pt', weights_only=False)) # {seen}"
            blobs.append(name)
        else:
            text += ")"
        lines.append(f"setattr(self, {name!r}, {text}")
    lines += [f"self.register_buffer({name!r}, torch.empty({list(t.shape)}, dtype={t.dtype}))"
              for name, t in gm._buffers.items() if t is not None]
    lines += [f"setattr(self, {name!r}, torch.nn.Parameter(torch.empty({list(t.shape)}, "
              f"dtype={t.dtype})))"
              for name, t in gm._parameters.items() if t is not None]
    lines.append(f"self.load_state_dict(torch.load(r'{os.path.join(folder, 'state_dict.pt')}'))")
    body = "".join(f"        {line}\n" for line in lines)
    forward = "\n".join("    " + line if line.strip() else "" for line in gm.code.split("\n"))
    with open(os.path.join(folder, "module.py"), "w", encoding="utf-8") as f:
        f.write(f"{_HEAD}class {module_name}(torch.nn.Module):\n    def __init__(self):\n"
                f"{body}{forward}\n")
    with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8") as f:
        f.write("from .module import *")
    if blobs:
        warnings.warn("Was not able to save the following children modules as reprs -saved as "
                      f"pickled files instead: {blobs}")
