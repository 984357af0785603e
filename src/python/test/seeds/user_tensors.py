# Tensors as users print and index them.
import pickle

import torch

torch.manual_seed(0)
x = torch.randn(3, 4)
print(x, x.shape, x.dtype, x.device, x.stride(), x.is_contiguous(), x.t().is_contiguous())
print(x[0], x[:, 1], x[..., -1], x[x > 0], x[[0, 2]], x[torch.tensor([1]), :2], x[None].shape, x[0, 0].item())
y = x.clone()
y[1:, ::2] = 0
y[y < 0] = -1
print(y)
print(torch.arange(10).view(2, 5).sum(1), x.mean(0), x.std(), x.max(1), x.argmax(), x.topk(2), x.sort(dim=1, descending=True).values)
print(torch.cat([x, x], 1).shape, torch.stack([x, x]).shape, [t.shape for t in x.split(2, 1)], [t.shape for t in x.chunk(3)])
print(torch.einsum("ij,kj->ik", x, x), x @ x.T, torch.outer(x[0], x[1]))
print(torch.where(x > 0, x, 0.0), x.clamp(-0.5, 0.5), x.masked_fill(x > 0, float("inf")))
print(torch.zeros(2, dtype=torch.int8), torch.ones(2, 2, dtype=torch.bool), torch.full((2,), 1 + 2j), torch.tensor(3.0), torch.tensor([]), torch.empty(0, 3))
print(torch.linspace(0, 1, 5), torch.logspace(0, 2, 3), torch.eye(2), torch.tril(torch.ones(3, 3)), torch.arange(0, 1, 0.25))
print(torch.tensor([1e10, 1.0]), torch.tensor([1e-5, 1.0]), torch.tensor([float("nan"), float("inf")]), torch.tensor([100000, 1]), torch.randn(2, dtype=torch.float64), torch.ones(2, dtype=torch.float16), torch.ones(1, dtype=torch.bfloat16))
print(torch.arange(2000))
print(torch.rand(2, requires_grad=True), torch.rand(2, requires_grad=True) * 2)
a = torch.arange(6).reshape(2, 3)
print(a / 2, a // 2, a % 2, a ** 2, -a, a == 3, ~(a > 1), a & 1, a << 1, 2 - a, a.float().sqrt())
print(a.permute(1, 0), a.T, a.unsqueeze(0).shape, a.expand(2, 2, 3).shape, a.repeat(1, 2), a.flatten(), a.flip(0), a.roll(1, 1))
print(a.tolist(), a.numel(), a.dim(), len(a), list(a[0]), bool(a[0, 1]), int(a[1, 1]), float(a[0, 0]), f"{a[0, 1]:>4}", f"{x[0,0].item():.2f}")
print(torch.equal(a, a), torch.allclose(x, x + 1e-9), (a == a).all(), torch.isnan(x).any())
print(torch.gather(a, 1, torch.tensor([[0], [2]])), torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [2]]), 5.0), torch.index_select(a, 1, torch.tensor([0, 2])), a.nonzero(), torch.unique(torch.tensor([3, 1, 3]), return_counts=True))
print(torch.linalg.norm(x), torch.linalg.inv(torch.eye(2) * 2), torch.linalg.svd(torch.eye(2))[1], torch.det(torch.eye(3)), torch.linalg.solve(torch.eye(2), torch.ones(2)))
for bad in (lambda: x @ x, lambda: x + torch.ones(5), lambda: x.view(5), lambda: x[5], lambda: x[0, 0, 0], lambda: torch.cat([x, torch.ones(2, 2)]), lambda: x.item(), lambda: torch.tensor([[1], [2, 3]]), lambda: x.sum(dim=5), lambda: torch.relu("x"), lambda: x.nothing(), lambda: bool(x), lambda: torch.arange(3).softmax(0), lambda: torch.ones(2, dtype=torch.int).mean(), lambda: x.reshape(2, -1, -1), lambda: torch.tensor("a"), lambda: x.to(torch.nothing), lambda: torch.ones(2)[1.5], lambda: torch.stack([]), lambda: x.transpose(0, 4), lambda: torch.conv2d(x, x), lambda: x.expand(2, 2), lambda: torch.randint(5, 2, (2,)), lambda: torch.max(torch.empty(0))):
    try:
        bad()
        print("allowed")
    except Exception as e:
        print(type(e).__name__, e)
print(pickle.loads(pickle.dumps(x)).equal(x), torch.finfo(torch.float16).max, torch.iinfo(torch.int8), torch.finfo(torch.float32))
g = torch.Generator().manual_seed(5)
print(torch.rand(2, generator=g), torch.randint(0, 10, (3,), generator=g), torch.randperm(5, generator=g), torch.bernoulli(torch.full((4,), 0.5), generator=g), torch.multinomial(torch.ones(3), 2, generator=g), torch.normal(0.0, 1.0, (2,), generator=g))
torch.set_printoptions(precision=2, sci_mode=False)
print(x)
print(torch.get_default_dtype(), torch.promote_types(torch.int8, torch.float16), torch.result_type(torch.tensor(1), 2.5), torch.is_tensor(3), torch.numel(x))
print(x.new_zeros(2), torch.zeros_like(a), torch.tensor([[1, 2], [3, 4]]).trace(), torch.cumsum(a, 1), a.prod(), torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij"))
print(x.histc(4), torch.bincount(torch.tensor([0, 1, 1])), torch.quantile(x, 0.5), x.median(), torch.tensor([1, 2]).bool(), torch.bucketize(torch.tensor([0.5]), torch.arange(3.0)))
