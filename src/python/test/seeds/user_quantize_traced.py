# FX mode with functions, configs, backends.
import copy
import re

import torch
from torch import nn
import torch.nn.functional as F
from torch.ao.quantization import get_default_qconfig_mapping, QConfigMapping, default_dynamic_qconfig, float16_dynamic_qconfig, default_qconfig, get_default_qconfig
from torch.ao.quantization.quantize_fx import prepare_fx, convert_fx, fuse_fx, convert_to_reference_fx
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig, ConvertCustomConfig, FuseCustomConfig
from torch.ao.quantization.backend_config import get_native_backend_config, BackendConfig, BackendPatternConfig, DTypeConfig, ObservationType


def show(what):
    """Prints it with floats of five digits: the last ones depend on the order of additions."""
    print(re.sub(r"\d+\.\d{6,}", lambda m: f"{float(m[0]):.5f}", str(what)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.bn = nn.BatchNorm2d(4)
        self.fc1 = nn.Linear(4 * 9, 8)
        self.fc2 = nn.Linear(8, 3)
        self.note = "kept"

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = torch.flatten(x, 1)
        y = F.hardswish(self.fc1(x))
        y = torch.cat([y, y + 1], 1)[:, :8] * 2
        return F.softmax(self.fc2(y), dim=1)


torch.manual_seed(0)
net = Net().eval()
x = torch.randn(5, 3, 8, 8)
want = net(x)
print(fuse_fx(net).code)
p = prepare_fx(copy.deepcopy(net), get_default_qconfig_mapping("x86"), (x,), prepare_custom_config=PrepareCustomConfig().set_preserved_attributes(["note"]))
print(p)
for _ in range(3):
    p(x)
print(p.note)
q = convert_fx(copy.deepcopy(p), convert_custom_config=ConvertCustomConfig().set_preserved_attributes(["note"]))
print(q.note)
show(q)
print(q(x))
print((q(x) - want).abs().max() < 0.05)
r = convert_to_reference_fx(copy.deepcopy(p))
print(r.code)
d = convert_fx(prepare_fx(copy.deepcopy(net), QConfigMapping().set_object_type(nn.Linear, default_dynamic_qconfig), (x,)))
print(d.code)
print(d(x)[0])
part = prepare_fx(copy.deepcopy(net), QConfigMapping().set_global(get_default_qconfig("qnnpack")).set_module_name("fc1", None), (x,), backend_config=get_native_backend_config())
part(x)
print(convert_fx(part).code)
print(ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT.name, DTypeConfig(input_dtype=torch.quint8).input_dtype)
