"""Layers that are more than one call: recurrent ones, attention, transformers, bags."""
import torch
from torch.nn.utils import rnn


def show(what, y):
    print(what, tuple(y.shape), f"{y.abs().sum().item():.3f}")


torch.manual_seed(0)
x = torch.randn(3, 2, 4)
lstm = torch.nn.LSTM(4, 5)
show("lstm", lstm(x)[0])
packed = rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
out, (h, c) = lstm(packed)
y, n = rnn.pad_packed_sequence(out)
show("padded", y)
show("hidden", h)
print(n, rnn.unpad_sequence(y, n)[1].shape, rnn.pack_sequence([torch.ones(3), torch.ones(2)])[1])
gru = torch.nn.GRU(4, 5, batch_first=True, bidirectional=True)
show("gru", gru(torch.randn(2, 3, 4))[0])
attention = torch.nn.MultiheadAttention(4, 2)
for what, y in zip(("attention", "weights"), attention(x, x, x)):
    show(what, y)
layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
encoder = torch.nn.TransformerEncoder(layer, 2)
show("encoder", encoder(torch.randn(2, 3, 4)))
print(len(list(encoder.parameters())), encoder.layers[0] is not layer)
show("transformer", torch.nn.Transformer(4, 2, 1, 1, 8, 0.0)(x, x))
show("bag", torch.nn.EmbeddingBag(5, 3)(torch.tensor([[1, 2], [3, 4]])))
show("bilinear", torch.nn.Bilinear(2, 3, 4)(torch.randn(1, 2), torch.randn(1, 3)))
show("conv", torch.nn.ConvTranspose2d(2, 3, 3, stride=2)(torch.randn(1, 2, 4, 4)))
norm = torch.nn.BatchNorm2d(2)
show("norm", norm(torch.randn(2, 2, 3, 3)))
show("running", norm.running_mean)
print(encoder.layers[1])
