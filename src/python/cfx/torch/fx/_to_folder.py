"""A GraphModule as a package: its code, and a file for its tensors and for each module that cannot
be written as code."""
import copy
import os
import warnings

from .. import nn, save

_WRITTEN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ReLU, nn.BatchNorm1d, nn.BatchNorm2d,
            nn.BatchNorm3d)


def to_folder(gm, folder, module_name):
    os.makedirs(folder, exist_ok=True)
    save(gm.state_dict(), os.path.join(folder, "state_dict.pt"))
    lines, blobs = [], []
    for name, module in gm.named_children():
        if type(module) in _WRITTEN:
            text = f"torch.nn.{module!r}"
        else:
            save(copy.deepcopy(module), os.path.join(folder, f"{name}.pt"))
            text = f"torch.load(r'{os.path.join(folder, name)}.pt', weights_only=False)"
            blobs.append(name)
        lines.append(f"self.add_module({name!r}, {text})  # {type(module).__module__}")
    lines += [f"self.register_buffer({name!r}, torch.empty({list(t.shape)}, dtype={t.dtype}))"
              for name, t in gm._buffers.items() if t is not None]
    lines += [f"self.register_parameter({name!r}, torch.nn.Parameter(torch.empty({list(t.shape)}, "
              f"dtype={t.dtype})))"
              for name, t in gm._parameters.items() if t is not None]
    body = "\n        ".join(lines)
    forward = "\n".join("    " + line if line else "" for line in gm.code.strip("\n").split("\n"))
    with open(os.path.join(folder, "module.py"), "w", encoding="utf-8") as f:
        f.write(f"""import torch
import torch.fx
from torch import device, fx, inf, nan  # noqa: F401
from torch.nn import *  # noqa: F401,F403


class {module_name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {body}
        self.load_state_dict(torch.load(r'{os.path.join(folder, "state_dict.pt")}'))

{forward}
""")
    with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8") as f:
        f.write("from .module import *\n")
    if blobs:
        warnings.warn("Was not able to save the following children modules as reprs -saved as "
                      f"pickled files instead: {blobs}")
