"""What PyTorch does with each layer: writes layers.txt, which src/nn/layers_test.c reads.

= EXPRESSION     a layer, made after manual_seed(0)
| text           a line of its repr
p NAME SIZES SUM FIRST   an entry of its state dict
i EXPRESSION     an input, made after manual_seed(1) and the inputs before it
o SIZES SUM ABS FIRST    a tensor of its result, after manual_seed(2)"""
import torch
from torch.nn import *  # noqa: F401,F403
from torch import nn, ones, rand, randint, randn, tensor, zeros  # noqa: F401

B = "randn(2, 3, 8)", "randn(2, 3, 8, 8)", "randn(2, 3, 5, 6, 7)"
P = "randn(4, 6)", "randn(4, 6)"
CASES = [
    ("Identity()", "randn(2, 3)"),
    ("Linear(3, 2)", "randn(5, 3)"), ("Linear(6, 4, bias=False)", "randn(2, 3, 6)"),
    ("Bilinear(3, 4, 2)", "randn(5, 3)", "randn(5, 4)"), ("Bilinear(3, 4, 2, bias=False)", "randn(5, 3)", "randn(5, 4)"),
    ("Conv1d(3, 4, 3)", B[0]), ("Conv1d(3, 6, 3, stride=2, padding=1, dilation=2, groups=3, bias=False)", B[0]),
    ("Conv1d(3, 4, 3, padding='same', padding_mode='circular')", B[0]),
    ("Conv2d(2, 3, 3)", "randn(2, 2, 6, 6)"), ("Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(1, 2))", B[1]),
    ("Conv2d(3, 4, 3, padding='same')", B[1]), ("Conv2d(3, 4, 3, padding='valid')", B[1]),
    ("Conv2d(3, 4, 3, padding=1, padding_mode='reflect')", B[1]), ("Conv2d(4, 8, 1, groups=4)", "randn(4, 5, 5)"),
    ("Conv3d(3, 4, 3, padding=1)", B[2]),
    ("ConvTranspose1d(3, 4, 3, stride=2, output_padding=1)", B[0]), ("ConvTranspose2d(3, 6, 3, stride=2, padding=1, groups=3)", B[1]),
    ("ConvTranspose2d(3, 4, 3, stride=2)", B[1], "(18, 17)"), ("ConvTranspose3d(3, 4, 2, bias=False, dilation=2)", B[2]),
    ("Unfold(3, padding=1)", B[1]), ("Fold((6, 6), 3)", "randn(2, 27, 16)"),
    ("BatchNorm1d(3)", "randn(5, 3)"), ("BatchNorm1d(3, affine=False)", B[0]), ("BatchNorm2d(3, eps=0.001, momentum=0.2)", B[1]),
    ("BatchNorm2d(3, momentum=None)", B[1]), ("BatchNorm3d(3, track_running_stats=False)", B[2]),
    ("InstanceNorm1d(3)", B[0]), ("InstanceNorm2d(3, affine=True, track_running_stats=True)", B[1]), ("InstanceNorm2d(3)", "randn(3, 4, 4)"),
    ("InstanceNorm3d(3)", B[2]), ("LayerNorm(8)", B[0]), ("LayerNorm((3, 8), elementwise_affine=False)", B[0]),
    ("LayerNorm([3, 8], eps=0.01, bias=False)", B[0]), ("RMSNorm(8)", B[0]), ("RMSNorm((3, 8), eps=1e-06, elementwise_affine=False)", B[0]),
    ("GroupNorm(3, 6)", "randn(2, 6, 4)"), ("GroupNorm(1, 3, affine=False)", B[1]),
    ("LocalResponseNorm(2)", B[1]), ("LocalResponseNorm(3, alpha=0.01, beta=0.5, k=2.0)", B[0]),
    ("Dropout()", B[0]), ("Dropout(0.0)", B[0]), ("Dropout1d(0.3)", B[0]), ("Dropout2d()", B[1]), ("Dropout3d(0.2)", B[2]),
    ("AlphaDropout(0.3)", B[0]), ("FeatureAlphaDropout()", B[1]),
    ("MaxPool1d(2)", B[0]), ("MaxPool2d(2)", B[1]), ("MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True)", B[1]),
    ("MaxPool2d(2, return_indices=True)", B[1]), ("MaxPool3d(2, dilation=2)", B[2]),
    ("MaxUnpool1d(2)", "tensor([[[1.0, 2.0], [3.0, 4.0]]])", "tensor([[[0, 3], [1, 2]]])"),
    ("MaxUnpool2d(2, stride=2)", "tensor([[[[1.0, 2.0], [3.0, 4.0]]]])", "tensor([[[[0, 3], [9, 14]]]])"),
    ("MaxUnpool3d(2)", "ones(1, 1, 1, 1, 2)", "tensor([[[[[1, 6]]]]])"),
    ("AvgPool1d(2)", B[0]), ("AvgPool2d(3, stride=2, padding=1)", B[1]), ("AvgPool2d(3, padding=1, count_include_pad=False)", B[1]),
    ("AvgPool2d(2, divisor_override=3)", B[1]), ("AvgPool3d((2, 3, 2))", B[2]),
    ("LPPool1d(2, 3, stride=2)", B[0]), ("LPPool2d(2.0, (3, 2))", B[1]), ("LPPool3d(3, 2)", "rand(1, 2, 4, 4, 4)"),
    ("AdaptiveAvgPool1d(5)", B[0]), ("AdaptiveAvgPool2d((3, None))", B[1]), ("AdaptiveAvgPool2d(1)", B[1]), ("AdaptiveAvgPool3d(2)", B[2]),
    ("AdaptiveMaxPool1d(3)", B[0]), ("AdaptiveMaxPool2d((3, 2), return_indices=True)", B[1]), ("AdaptiveMaxPool3d((1, 2, None))", B[2]),
    *((f"{k}Pad{n}d({a})", B[n - 1]) for k in ("Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3) for a in ("1", str(tuple(range(1, 2 * n + 1))[::-1][:2 * n]) if n < 3 else "(1, 0, 2, 1, 0, 1)")),
    ("ConstantPad1d(2, 3.5)", B[0]), ("ConstantPad2d((1, 2, 0, 3), 7)", B[1]), ("ConstantPad3d(1, -1.0)", B[2]),
    *((f"{a}()", B[0]) for a in "ReLU ReLU6 RReLU Hardtanh Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU GELU Hardshrink Softshrink LeakyReLU LogSigmoid Softplus PReLU Softsign Tanhshrink".split()),
    ("ReLU(inplace=True)", B[0]), ("ELU(0.5, inplace=True)", B[0]), ("CELU(alpha=2.0)", B[0]), ("LeakyReLU(0.2)", B[0]), ("Hardtanh(-2.0, 0.5)", B[0]),
    ("ReLU6(inplace=True)", B[0]), ("Hardswish(inplace=True)", B[0]), ("RReLU(0.1, 0.3)", B[0]),
    ("GELU(approximate='tanh')", B[0]), ("GLU()", B[0]), ("GLU(dim=2)", B[0]), ("PReLU(3, init=0.1)", B[0]), ("Softplus(beta=2.0, threshold=5.0)", B[0]),
    ("Threshold(0.1, 20)", B[0]), ("Hardshrink(0.3)", B[0]), ("Softmin(dim=1)", B[0]), ("Softmax(dim=-1)", B[0]), ("LogSoftmax(dim=0)", B[0]), ("Softmax2d()", B[1]),
    ("Flatten()", B[1]), ("Flatten(0, 1)", B[1]), ("Unflatten(1, (3, 1))", B[0]),
    ("Upsample(scale_factor=2)", B[0]), ("Upsample(size=(5, 6), mode='bilinear')", B[1]), ("Upsample(scale_factor=(2.0, 1.5), mode='bilinear', align_corners=True)", B[1]),
    ("Upsample(scale_factor=0.5, mode='trilinear')", B[2]), ("Upsample(size=4, mode='linear')", B[0]), ("Upsample(scale_factor=2.0, mode='bicubic')", B[1]),
    ("UpsamplingNearest2d(scale_factor=2)", B[1]), ("UpsamplingBilinear2d(size=(3, 5))", B[1]),
    ("PixelShuffle(2)", "randn(2, 8, 3, 3)"), ("PixelUnshuffle(2)", B[1]), ("ChannelShuffle(2)", "randn(2, 4, 3, 3)"),
    ("Embedding(4, 5)", "randint(0, 4, (2, 3))"), ("Embedding(7, 3, padding_idx=0)", "randint(0, 7, (6,))"),
    ("Embedding(7, 3, padding_idx=-1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)", "randint(0, 7, (6,))"),
    ("EmbeddingBag(7, 3)", "randint(0, 7, (2, 4))"), ("EmbeddingBag(7, 3, mode='sum', padding_idx=2)", "randint(0, 7, (6,))", "tensor([0, 2, 5])"),
    ("EmbeddingBag(7, 3, mode='max', include_last_offset=True)", "randint(0, 7, (6,))", "tensor([0, 2, 6])"),
    ("RNN(4, 5)", "randn(3, 2, 4)"), ("RNN(4, 5, num_layers=2, nonlinearity='relu', bias=False, bidirectional=True)", "randn(3, 2, 4)", "randn(4, 2, 5)"),
    ("LSTM(2, 3)", "randn(4, 2, 2)"), ("LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True, dropout=0.0)", "randn(3, 6, 4)"),
    ("LSTM(4, 5, proj_size=3)", "randn(3, 2, 4)", "(randn(1, 2, 3), randn(1, 2, 5))"), ("LSTM(4, 5)", "randn(3, 4)"),
    ("GRU(4, 5, num_layers=2)", "randn(3, 2, 4)"), ("GRU(4, 5, batch_first=True, bias=False)", "randn(3, 4)", "randn(1, 5)"),
    ("RNNCell(3, 4)", "randn(2, 3)"), ("RNNCell(3, 4, bias=False, nonlinearity='relu')", "randn(2, 3)", "randn(2, 4)"),
    ("LSTMCell(3, 4)", "randn(2, 3)"), ("LSTMCell(3, 4)", "randn(3)", "(randn(4), randn(4))"), ("GRUCell(3, 4)", "randn(2, 3)", "randn(2, 4)"),
    ("MultiheadAttention(8, 2)", "randn(5, 3, 8)", "randn(4, 3, 8)", "randn(4, 3, 8)"),
    ("MultiheadAttention(8, 2, batch_first=True, bias=False)", "randn(3, 5, 8)", "randn(3, 4, 8)", "randn(3, 4, 8)", "None", "False"),
    ("MultiheadAttention(8, 4, add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=7)", "randn(5, 3, 8)", "randn(4, 3, 6)", "randn(4, 3, 7)", "zeros(3, 4)", "True", "rand(5, 4)", "False"),
    ("MultiheadAttention(8, 2)", "randn(5, 8)", "randn(4, 8)", "randn(4, 8)"),
    ("TransformerEncoderLayer(8, 2, 16, dropout=0.0)", "randn(5, 3, 8)"),
    ("TransformerEncoderLayer(8, 2, 16, 0.0, activation='gelu', batch_first=True, norm_first=True)", "randn(3, 5, 8)", "rand(5, 5)"),
    ("TransformerDecoderLayer(8, 2, 16, dropout=0.0)", "randn(5, 3, 8)", "randn(4, 3, 8)"),
    ("TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True, bias=False)", "randn(5, 3, 8)", "randn(4, 3, 8)"),
    ("TransformerEncoder(TransformerEncoderLayer(8, 2, 16, 0.0), 2)", "randn(5, 3, 8)"),
    ("TransformerDecoder(TransformerDecoderLayer(8, 2, 16, 0.0), 2, LayerNorm(8))", "randn(5, 3, 8)", "randn(4, 3, 8)"),
    ("L1Loss()", *P), ("MSELoss(reduction='sum')", *P), ("SmoothL1Loss(beta=0.5)", *P), ("HuberLoss(delta=0.5)", *P), ("L1Loss(reduction='none')", *P),
    ("CrossEntropyLoss()", P[0], "randint(0, 6, (4,))"), ("CrossEntropyLoss(label_smoothing=0.1)", "randn(2, 3, 4)", "randint(0, 3, (2, 4))"),
    ("CrossEntropyLoss(weight=tensor([1.0, 2.0, 0.5]), ignore_index=1)", "randn(5, 3)", "randint(0, 3, (5,))"),
    ("NLLLoss()", P[0], "randint(0, 6, (4,))"), ("PoissonNLLLoss()", *P), ("PoissonNLLLoss(log_input=False, full=True)", "rand(4, 6)", "rand(4, 6)"),
    ("GaussianNLLLoss()", *P, "rand(4, 6)"), ("GaussianNLLLoss(full=True, reduction='sum')", *P, "rand(4, 1)"),
    ("KLDivLoss(reduction='batchmean')", P[0], "rand(4, 6)"), ("KLDivLoss(log_target=True)", *P), ("BCELoss()", "rand(4, 6)", "rand(4, 6)"),
    ("BCEWithLogitsLoss()", P[0], "rand(4, 6)"), ("BCEWithLogitsLoss(pos_weight=tensor([1.0, 2.0, 0.5, 1.0, 1.0, 3.0]))", P[0], "rand(4, 6)"),
    ("MarginRankingLoss(margin=0.5)", "randn(4)", "randn(4)", "tensor([1.0, -1.0, 1.0, -1.0])"),
    ("HingeEmbeddingLoss()", "randn(4)", "tensor([1.0, -1.0, 1.0, -1.0])"), ("CosineEmbeddingLoss()", *P, "tensor([1, -1, 1, -1])"),
    ("SoftMarginLoss()", "randn(4)", "tensor([1.0, -1.0, 1.0, -1.0])"), ("MultiMarginLoss(p=2)", P[0], "randint(0, 6, (4,))"),
    ("MultiLabelMarginLoss()", "randn(1, 4)", "tensor([[3, 0, -1, 1]])"), ("MultiLabelSoftMarginLoss()", P[0], "randint(0, 2, (4, 6))"),
    ("TripletMarginLoss()", *P, "randn(4, 6)"), ("TripletMarginLoss(margin=2.0, p=1.0, swap=True)", *P, "randn(4, 6)"),
    ("CosineSimilarity()", *P), ("CosineSimilarity(dim=0, eps=1e-06)", *P), ("PairwiseDistance()", *P), ("PairwiseDistance(p=1.0, keepdim=True)", *P),
    ("Sequential(Linear(3, 4), ReLU(), Linear(4, 2))", "randn(5, 3)"),
]


def numbers(t):
    d = t.detach().double().flatten()
    d = d[torch.isfinite(d)]
    first = "%.9g" % d[0].item() if d.numel() else "-"
    return "[%s] %.9g %.9g %s" % (", ".join(map(str, t.shape)), d.sum().item(), d.abs().sum().item(), first)


def tensors(v):
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, (tuple, list)):
        for item in v:
            yield from tensors(item)


def main():
    for layer, *inputs in CASES:
        torch.manual_seed(0)
        try:
            m = eval(layer)
        except (NameError, TypeError):
            print("# not in this PyTorch:", layer)
            continue
        print("=", layer)
        for line in repr(m).split("\n"):
            print("|", line)
        for name, t in m.state_dict().items():
            print("p", name, numbers(t))
        torch.manual_seed(1)
        for x in inputs:
            print("i", x)
        args = [eval(x) for x in inputs]
        torch.manual_seed(2)
        for t in tensors(m(*args)):
            print("o", numbers(t))


if __name__ == "__main__":
    print("#", torch.__version__.split("+")[0])
    main()
