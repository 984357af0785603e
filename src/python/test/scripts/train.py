"""A small model trained."""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(32, 3)
y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
loss_fn = torch.nn.MSELoss()
for epoch in range(10):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = loss_fn(model(a), b)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    schedule.step()
    if epoch % 3 == 0:
        print(epoch, f"{loss.item():.4f}", f"{schedule.get_last_lr()[0]:.6f}")
with torch.no_grad():
    print(model(x).shape, f"{loss_fn(model(x), y).item():.3f}")
w = torch.ones(3, requires_grad=True)
(g,) = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
(h,) = torch.autograd.grad(g.sum(), w)
print(g, h)
