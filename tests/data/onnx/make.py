"""Writes tests/data/onnx: small models in the form of ONNX's test cases, with the results that ONNX
Runtime gives for them. Needs torch, onnx and onnxruntime.

    python3 tests/data/onnx/make.py tests/data/onnx
"""
import io
import os
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def const(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, tensors=(), functions=(), opsets=(("", 18),)):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(tensors))
    sets = [helper.make_opsetid(d, v) for d, v in opsets]
    m = helper.make_model(graph, opset_imports=sets, functions=list(functions), ir_version=9)
    onnx.checker.check_model(m)
    return m


def exported(module, args, **options):
    file = io.BytesIO()
    torch.onnx.export(module.eval(), args, file, opset_version=18, dynamo=False, **options)
    m = onnx.load_from_string(file.getvalue())
    for n in m.graph.node:
        n.doc_string = ""
    return m


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.deep = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = torch.nn.functional.hardswish(self.norm(self.conv(x)))
        x = torch.nn.functional.max_pool2d(torch.relu(self.deep(x)) + x, 2)
        return self.fc(x.mean((2, 3)))


class Dynamic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.qkv = torch.nn.Linear(8, 24)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + torch.nn.functional.gelu(y.transpose(1, 2).flatten(2))
        return x.reshape(x.shape[0], -1), x[:, -1]


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        self.gru = torch.nn.GRU(8, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


def control():
    """If on data, a Loop with a scanned result, a Scan; sub-graphs use what is around them."""
    yes = helper.make_graph([node("Mul", ["x", "two"], ["a"])], "yes", [], [value("a")])
    no = helper.make_graph([node("Sub", ["x", "two"], ["b"])], "no", [], [value("b")])
    body = helper.make_graph(
        [node("Add", ["before", "x"], ["after"]), node("Identity", ["go"], ["on"]),
         node("ReduceSum", ["after"], ["row"], keepdims=0)],
        "body", [value("i", INT64, []), value("go", BOOL, []), value("before")],
        [value("on", BOOL, []), value("after"), value("row")])
    step = helper.make_graph(
        [node("Add", ["sum", "item"], ["next"]), node("Identity", ["next"], ["out"])],
        "step", [value("sum"), value("item")], [value("next"), value("out")])
    return model(
        [node("ReduceSum", ["x"], ["total"], keepdims=0),
         node("Greater", ["total", "zero"], ["up"]),
         node("If", ["up"], ["y"], then_branch=yes, else_branch=no),
         node("Loop", ["three", "", "y"], ["last", "rows"], body=body),
         node("Scan", ["start", "x"], ["end", "sums"], body=step, num_scan_inputs=1)],
        [value("x", FLOAT, [2, 3])],
        [value("last", FLOAT, [2, 3]), value("rows", FLOAT, [3]), value("end", FLOAT, [3]),
         value("sums", FLOAT, [2, 3])],
        [const("two", np.float32(2)), const("zero", np.float32(0)), const("three", np.int64(3)),
         const("start", np.zeros(3, np.float32))])


def function():
    """A function with an attribute, which calls another."""
    square = helper.make_function("here", "Square", ["v"], ["w"], [node("Mul", ["v", "v"], ["w"])],
                                  [helper.make_opsetid("", 18)])
    leaky = node("LeakyRelu", ["s"], ["out"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope",
                                               type=onnx.AttributeProto.FLOAT))
    shaped = helper.make_function(
        "here", "Shaped", ["v"], ["out"],
        [node("Square", ["v"], ["q"], domain="here"), node("Sub", ["v", "q"], ["s"]), leaky],
        [helper.make_opsetid("", 18), helper.make_opsetid("here", 1)], ["slope"])
    return model([node("Shaped", ["x"], ["y"], domain="here", slope=0.25)],
                 [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])],
                 functions=[square, shaped], opsets=(("", 18), ("here", 1)))


def quantized():
    """A convolution between QuantizeLinear and DequantizeLinear, then integer operators."""
    rng = np.random.default_rng(1)
    weight = rng.integers(-90, 90, (4, 2, 3, 3), dtype=np.int8)
    return model(
        [node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
         node("DequantizeLinear", ["q", "sx", "zx"], ["d"]),
         node("DequantizeLinear", ["w", "sw", "zw"], ["f"], axis=0),
         node("Conv", ["d", "f", "b"], ["c"], pads=[1, 1, 1, 1]),
         node("DynamicQuantizeLinear", ["c"], ["u", "su", "zu"]),
         node("Reshape", ["u", "flat"], ["m"]),
         node("MatMulInteger", ["m", "k", "zu"], ["y"])],
        [value("x", FLOAT, [1, 2, 4, 4])], [value("c", FLOAT, [1, 4, 4, 4]), value("y", 6, [4, 2])],
        [const("sx", np.float32(0.02)), const("zx", np.uint8(128)), const("w", weight),
         const("sw", np.array([0.01, 0.02, 0.03, 0.04], np.float32)),
         const("zw", np.zeros(4, np.int8)), const("b", np.arange(4, dtype=np.float32)),
         const("flat", np.array([4, 16])),
         const("k", rng.integers(0, 255, (16, 2), dtype=np.uint8))])


def sequence():
    """Sequences inside of a model: split, looked at and joined again."""
    return model(
        [node("SplitToSequence", ["x", "parts"], ["s"], axis=0),
         node("SequenceAt", ["s", "last"], ["t"]),
         node("SequenceInsert", ["s", "t", "zero"], ["u"]),
         node("SequenceLength", ["u"], ["n"]), node("ConcatFromSequence", ["u"], ["y"], axis=0)],
        [value("x", FLOAT, [4, 2])], [value("y", FLOAT, [5, 2]), value("n", INT64, [])],
        [const("parts", np.array([1, 2, 1])), const("last", np.int64(-1)),
         const("zero", np.int64(0))])


def cases():
    torch.manual_seed(1)
    x = torch.randn(2, 3, 12, 12)
    yield "conv", exported(Conv(), (x,)), [x]
    ids = torch.randint(11, (2, 5))
    yield "dynamic", exported(Dynamic(), (ids,), input_names=["ids"], output_names=["flat", "last"],
                              dynamic_axes={"ids": {0: "batch", 1: "length"}}), [ids[:1, :4]]
    x = torch.randn(6, 2, 3)
    yield "rnn", exported(Recurrent(), (x,)), [x]
    yield "control", control(), [torch.tensor([[1.0, 2, 3], [4, 5, -6]])]
    yield "function", function(), [torch.linspace(-2, 2, 12).reshape(3, 4)]
    yield "qdq", quantized(), [torch.linspace(-2, 2, 32).reshape(1, 2, 4, 4)]
    yield "sequence", sequence(), [torch.arange(8.0).reshape(4, 2)]


def write(path, message):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(message.SerializeToString())


def main(folder):
    for name, m, inputs in cases():
        m.producer_name = m.producer_version = ""
        session = onnxruntime.InferenceSession(m.SerializeToString())
        feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
        results = session.run(None, feed)
        write(f"{folder}/{name}/model.onnx", m)
        for kind, arrays in ("input", feed.values()), ("output", results):
            for i, array in enumerate(arrays):
                write(f"{folder}/{name}/test_data_set_0/{kind}_{i}.pb",
                      numpy_helper.from_array(np.require(array, requirements="C")))


main(sys.argv[1])
