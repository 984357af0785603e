"""torch.ao.quantization on cfx: observers, mappings, and modules before and after each step."""
import copy
import unittest

import cfx.torch as torch
from cfx.torch import nn
from cfx.torch.ao import quantization as aq
from cfx.torch.ao.quantization import quantize_fx


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.relu(self.bn(self.conv(x))).mean([2, 3]))


def net(training=False):
    torch.manual_seed(0)
    m = Net().train(training)
    m.bn.running_mean.fill_(0.5)
    return m


X = torch.linspace(-1, 1, 2 * 3 * 6 * 6).reshape(2, 3, 6, 6)


def converted(mapping, steps=1):
    prepared = quantize_fx.prepare_fx(net(), mapping, (X,))
    for _ in range(steps):
        prepared(X)
    return prepared, quantize_fx.convert_fx(prepared)


class Observers(unittest.TestCase):
    def test_they_choose_scales_as_pytorch_does(self):
        o = aq.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
        x = torch.tensor([1.0, -2.0, 3.0])
        self.assertIs(o(x), x)
        scale, zero = o.calculate_qparams()
        self.assertAlmostEqual(scale.item(), 3 / 127.5, 6)
        self.assertEqual((zero.item(), o.qscheme, o.quant_min, o.quant_max),
                         (0, torch.per_tensor_symmetric, -128, 127))
        self.assertEqual(str(o), "MinMaxObserver(min_val=-2.0, max_val=3.0)")
        o.reset_min_max_vals()
        self.assertEqual(str(o), "MinMaxObserver(min_val=inf, max_val=-inf)")

    def test_they_are_copied_and_loaded_with_what_they_saw(self):
        o = aq.PerChannelMinMaxObserver(ch_axis=0)
        o(torch.tensor([[1.0, 2.0], [3.0, -4.0]]))
        other = aq.PerChannelMinMaxObserver(ch_axis=0)
        other.load_state_dict(o.state_dict())
        for p in (other, copy.deepcopy(o)):
            self.assertEqual(p.min_val.tolist(), [1, -4])
            self.assertEqual(p.calculate_qparams()[1].tolist(), [0, 146])

    def test_wrong_options_are_refused(self):
        for options in ({"dtype": 3}, {"qscheme": 1}, {"quant_min": 2 ** 40}, {"nothing": 1},
                        {"quant_min": "x"}):
            with self.assertRaises((TypeError, ValueError), msg=options):
                aq.MinMaxObserver(**options)
        with self.assertRaises(TypeError):
            aq.MinMaxObserver().min_val = None

        class Own(aq.MinMaxObserver):
            def forward(self, x):
                return super().forward(x)

        with self.assertRaisesRegex(NotImplementedError, "traced models are observed by C's"):
            quantize_fx.prepare_fx(net(), {"": aq.QConfig(Own, aq.default_weight_observer)}, (X,))


class Steps(unittest.TestCase):
    maxDiff = None

    def test_static(self):
        prepared, q = converted(aq.get_default_qconfig_mapping("x86"))
        self.assertIsInstance(prepared.activation_post_process_0, aq.HistogramObserver)
        self.assertEqual(q.code.strip(), """def forward(self, x):
    conv_input_scale_0 = self.conv_input_scale_0
    conv_input_zero_point_0 = self.conv_input_zero_point_0
    quantize_per_tensor = torch.quantize_per_tensor(x, conv_input_scale_0, \
conv_input_zero_point_0, torch.quint8);  x = conv_input_scale_0 = conv_input_zero_point_0 = None
    conv = self.conv(quantize_per_tensor);  quantize_per_tensor = None
    mean = conv.mean([2, 3]);  conv = None
    fc = self.fc(mean);  mean = None
    dequantize_3 = fc.dequantize();  fc = None
    return dequantize_3""")
        self.assertEqual((str(q.conv).split("(")[0], type(q.fc).__module__),
                         ("QuantizedConvReLU2d", "torch.ao.nn.quantized.modules.linear"))
        self.assertLess((q(X) - net()(X)).abs().max().item(), 0.1)
        reference = quantize_fx.convert_to_reference_fx(prepared)
        self.assertLess((reference(X) - q(X)).abs().max().item(), 0.02)

    def test_what_the_copy_of_a_prepared_module_saw_is_converted(self):
        prepared, q = converted(aq.get_default_qconfig_mapping("x86"))
        self.assertEqual(quantize_fx.convert_fx(copy.deepcopy(prepared))(X).tolist(),
                         q(X).tolist())

    def test_quantized_weights_are_saved_and_loaded(self):
        _, q = converted(aq.get_default_qconfig_mapping("x86"))
        other = quantize_fx.prepare_fx(net(), aq.get_default_qconfig_mapping("x86"), (X,))
        other(X * 3)
        other = quantize_fx.convert_fx(other)
        self.assertNotEqual(other(X).tolist(), q(X).tolist())
        other.load_state_dict(q.state_dict())
        self.assertEqual(other(X).tolist(), q(X).tolist())
        self.assertEqual(q.fc.weight().dtype, torch.qint8)
        state = q.state_dict()
        state["conv.weight"] = torch.zeros(1)
        with self.assertRaisesRegex(RuntimeError, "While loading conv"):
            other.load_state_dict(state)

    def test_rules_say_what_is_quantized(self):
        mapping = aq.QConfigMapping().set_object_type(nn.Linear, aq.default_dynamic_qconfig)
        _, q = converted(mapping)
        self.assertEqual((type(q.fc).__name__, str(q.fc).split("(")[0], type(q.conv).__name__),
                         ("Linear", "DynamicQuantizedLinear", "ConvReLU2d"))
        mapping = aq.get_default_qconfig_mapping().set_module_name("fc", None)
        self.assertIs(type(converted(mapping)[1].fc), nn.Linear)

    def test_training(self):
        mapping = aq.get_default_qat_qconfig_mapping("x86")
        prepared = quantize_fx.prepare_qat_fx(net(True), mapping, (X,))
        self.assertEqual(type(prepared.conv).__name__, "ConvBnReLU2d")
        opt = torch.optim.SGD(prepared.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            opt.zero_grad()
            loss = (prepared(X) - 1).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])
        self.assertTrue(prepared.conv.bn.weight.grad.abs().sum().item() > 0)
        self.assertEqual(prepared.conv.bn.num_batches_tracked.item(), 5)
        prepared.apply(aq.disable_observer)
        prepared.eval()
        q = quantize_fx.convert_fx(prepared)
        self.assertLess((q(X) - prepared(X)).abs().max().item(), 0.1)

    def test_others_are_refused(self):
        with self.assertRaisesRegex(ValueError, "must be a GraphModule"):
            quantize_fx.convert_fx(net())
        with self.assertRaisesRegex(AssertionError, "backend: nope not supported"):
            aq.get_default_qconfig_mapping("nope")
        with self.assertRaisesRegex(TypeError, "expected a QConfig or None"):
            quantize_fx.prepare_fx(net(), {"": 3}, (X,))


class Stubbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.fc, self.relu = nn.Linear(3, 4), nn.ReLU()
        self.sum = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        y = self.relu(self.fc(self.quant(x)))
        return self.dequant(self.sum.add(y, y))


class Eager(unittest.TestCase):
    """What the scripts in seeds do not print."""

    x = torch.linspace(-1, 1, 12).reshape(4, 3)

    def model(self):
        torch.manual_seed(0)
        m = aq.fuse_modules(Stubbed().eval(), ["fc", "relu"])
        m.qconfig = aq.get_default_qconfig("x86")
        return m

    def test_hooks_and_copies_stay(self):
        m, seen = self.model(), []
        m.fc.register_forward_hook(lambda m, a, y: seen.append(type(m).__name__))
        p = copy.deepcopy(aq.prepare(m))
        self.assertEqual(list(p.fc._modules), ["0", "1", "activation_post_process"])
        p(self.x)
        q = aq.convert(p)
        self.assertLess((q(self.x) - m(self.x)).abs().max().item(), 0.05)
        self.assertEqual(seen, ["LinearReLU"] * 1 + ["LinearReLU", "LinearReLU"])
        self.assertIsInstance(q.fc, torch.ao.nn.intrinsic.quantized.LinearReLU)
        self.assertIsInstance(m.fc, nn.Sequential)
        self.assertIs(m.fc[0].weight, m.fc._c.children()[0][1].parameters()["weight"])

    def test_numbers_added_and_multiplied(self):
        x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 0.1, 20, torch.quint8)
        f = torch.ao.nn.quantized.QFunctional()
        for y, want, scale in ((f.add_scalar(x, 0.5), [-0.5, 0.5, 2.5], 0.1),
                               (f.mul_scalar(x, -2.0), [2.0, 0.0, -4.0], 0.2),
                               (f.mul_scalar(x, 0.0), [0.0, 0.0, 0.0], 1.0)):
            self.assertTrue(torch.allclose(y.dequantize(), torch.tensor(want)), y)
            self.assertAlmostEqual(y.q_scale(), scale)

    def test_wrong_things_are_refused(self):
        nnq = torch.ao.nn.quantized
        with self.assertRaisesRegex(TypeError, "is made of a float module"):
            nnq.Linear(2, 3)
        with self.assertRaisesRegex(AttributeError, "has no attribute 'Nothing'"):
            nnq.Nothing
        with self.assertRaisesRegex(AssertionError, "must have qconfig"):
            nnq.Linear.from_float(nn.Linear(2, 2))
        with self.assertRaisesRegex(TypeError, "ConvReLU2d is not made of Linear"):
            torch.ao.nn.intrinsic.ConvReLU2d(nn.Linear(1, 1))
        with self.assertRaisesRegex(TypeError, "must be a QConfig or None, not int"):
            m = self.model()
            m.fc.qconfig = 3
            aq.prepare(m)
        with self.assertRaisesRegex(TypeError, "qconfig_spec must be"):
            aq.quantize_dynamic(self.model(), [nn.Linear])
        with self.assertRaisesRegex(NotImplementedError, "patterns of one's own"):
            from cfx.torch.ao.quantization import backend_config as b

            own = b.BackendConfig("own").set_backend_pattern_config(b.BackendPatternConfig())
            quantize_fx.prepare_fx(net(), {"": None}, (X,), backend_config=own)
        with self.assertWarnsRegex(UserWarning, "None of the submodule got qconfig"):
            aq.prepare(nn.Sequential(nn.Linear(1, 1)))
