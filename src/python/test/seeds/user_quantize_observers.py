# Observers and modules that round.
import torch
from torch import nn
from torch.ao.quantization import QConfig, QConfigMapping, QuantStub, DeQuantStub, prepare, convert, default_qconfig, get_default_qconfig, get_default_qat_qconfig, get_default_qconfig_mapping, default_per_channel_qconfig, qconfig_equals, get_observer_state_dict
from torch.ao.quantization import observer, fake_quantize
from torch.ao.quantization.observer import *
from torch.ao.quantization.fake_quantize import *

torch.manual_seed(0)
data = [torch.randn(3, 4) * s for s in (1.0, 3.0, 0.5)]
for make in (lambda: MinMaxObserver(), lambda: MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric), lambda: MinMaxObserver(reduce_range=True), lambda: MovingAverageMinMaxObserver(averaging_constant=0.5), lambda: PerChannelMinMaxObserver(ch_axis=1), lambda: MovingAveragePerChannelMinMaxObserver(ch_axis=0, dtype=torch.qint8, qscheme=torch.per_channel_symmetric), lambda: HistogramObserver(bins=64), lambda: HistogramObserver(), lambda: FixedQParamsObserver(0.25, 3), lambda: MinMaxObserver(quant_min=0, quant_max=15), lambda: MinMaxObserver(dtype=torch.qint32, quant_min=-2 ** 31, quant_max=2 ** 31 - 1)):
    o = make()
    for d in data:
        o(d)
    print(o)
    print(*o.calculate_qparams())
    print(o.dtype, o.qscheme, o.quant_min, o.quant_max, sorted(o.state_dict()))
print(MinMaxObserver())
print(NoopObserver(), PlaceholderObserver(dtype=torch.float16))
r = RecordingObserver()
r(data[0])
print(len(r.get_tensor_value()))
for make in (lambda: FakeQuantize(), lambda: FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, reduce_range=False), default_fake_quant, default_weight_fake_quant, default_per_channel_weight_fake_quant, default_fused_act_fake_quant, default_fused_per_channel_wt_fake_quant, default_fixed_qparams_range_0to1_fake_quant, default_histogram_fake_quant):
    f = make()
    x = data[0].clone().requires_grad_()
    y = f(x)
    y.sum().backward()
    print(f)
    print(y.detach()[0], x.grad[0])
    print(*f.calculate_qparams())
    disable_observer(f)
    disable_fake_quant(f)
    print(f.observer_enabled, f.fake_quant_enabled, torch.equal(f(x), x))
print(default_qconfig)
print(get_default_qconfig("x86"))
print(QConfig(activation=MinMaxObserver.with_args(dtype=torch.qint8), weight=default_weight_observer))
print(qconfig_equals(default_qconfig, default_qconfig))
m = QConfigMapping().set_global(default_qconfig).set_object_type(nn.Linear, None).set_module_name("a.b", default_per_channel_qconfig).set_module_name_regex("c.*", None)
print(m)
print(sorted(k for k in m.to_dict()))


class Own(MinMaxObserver):
    def forward(self, x):
        print("seen", tuple(x.shape))
        return super().forward(x)


o = Own()
o(data[0])
print(o.calculate_qparams())


class Fixed(ObserverBase):
    def __init__(self, dtype=torch.quint8):
        super().__init__(dtype)

    def forward(self, x):
        return x

    def calculate_qparams(self):
        return torch.tensor([0.1]), torch.tensor([7])


s = nn.Sequential(QuantStub(), nn.Linear(4, 2), DeQuantStub()).eval()
s.qconfig = QConfig(activation=Fixed, weight=default_weight_observer)
p = prepare(s)
p(data[0])
q = convert(p)
print(q)
print(q(data[0]))
t = torch.quantize_per_tensor(data[0], 0.1, 10, torch.quint8)
print(t, t.int_repr(), t.q_scale(), t.q_zero_point(), t.dequantize()[0])
c = torch.quantize_per_channel(data[0], torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2]), 0, torch.qint8)
print(c, c.q_per_channel_scales(), c.q_per_channel_axis(), c.qscheme())
print(torch.fake_quantize_per_tensor_affine(data[0], 0.1, 0, -128, 127)[0])
print(get_observer_state_dict(p).keys())
