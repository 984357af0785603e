# Training: optimizers, schedulers, DataLoader, state dicts, checkpoints.
import copy
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split, Subset, ConcatDataset, WeightedRandomSampler, BatchSampler, SequentialSampler


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i), 1.0]), "y": i * i, "name": f"n{i}"}


torch.manual_seed(0)
for batch in DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=0):
    print(batch["x"].tolist(), batch["y"], batch["name"])
print([b["y"].tolist() for b in DataLoader(Squares(), batch_size=4, drop_last=True, collate_fn=lambda rows: {"y": torch.tensor([r["y"] for r in rows])})])
a, b = random_split(Squares(), [7, 3], generator=torch.Generator().manual_seed(1))
print(a.indices, len(b), b[0]["name"])
print(list(BatchSampler(SequentialSampler(range(5)), 2, False)), list(WeightedRandomSampler([0.1, 0.9], 5)))
print(len(ConcatDataset([Squares(), Subset(Squares(), [1, 2])])))
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.linspace(-1, 1, 32).view(16, 2)
y = x.prod(1, keepdim=True)
for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True), lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.RMSprop(p, lr=0.01), lambda p: torch.optim.NAdam(p), lambda p: torch.optim.RAdam(p), lambda p: torch.optim.Adagrad(p)):
    n = copy.deepcopy(net)
    opt = make(n.parameters())

    def closure():
        opt.zero_grad()
        loss = nn.functional.mse_loss(n(x), y)
        loss.backward()
        return loss

    losses = [round(opt.step(closure).item(), 5) for _ in range(5)]
    print(type(opt).__name__, losses)
print(opt)
opt = torch.optim.SGD([{"params": net[0].parameters(), "lr": 0.5}, {"params": net[2].parameters()}], lr=0.1)
print(opt)
for sched in (torch.optim.lr_scheduler.StepLR(opt, 2, 0.5), torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5), torch.optim.lr_scheduler.OneCycleLR(opt, 1.0, total_steps=6), torch.optim.lr_scheduler.LambdaLR(opt, [lambda e: 0.9 ** e, lambda e: 1.0]), torch.optim.lr_scheduler.ExponentialLR(opt, 0.5), torch.optim.lr_scheduler.LinearLR(opt, total_iters=3)):
    lrs = []
    for _ in range(5):
        opt.step()
        sched.step()
        lrs.append([round(v, 6) for v in sched.get_last_lr()])
    print(type(sched).__name__, lrs)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
seq = torch.optim.lr_scheduler.SequentialLR(opt, [torch.optim.lr_scheduler.ConstantLR(opt, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)], milestones=[2])
lrs = []
for _ in range(5):
    opt.step()
    seq.step()
    lrs.append(round(opt.param_groups[0]["lr"], 6))
print(lrs)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.1)
for l in (1.0, 1.0, 1.0, 1.0):
    plateau.step(l)
print(opt.param_groups[0]["lr"])
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    print(round(nn.utils.clip_grad_norm_(net.parameters(), 0.1).item(), 5))
    opt.step()
f = io.BytesIO()
torch.save({"model": net.state_dict(), "opt": opt.state_dict(), "epoch": 3}, f)
f.seek(0)
ck = torch.load(f)
other = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
print(other.load_state_dict(ck["model"]))
o2 = torch.optim.Adam(other.parameters())
o2.load_state_dict(ck["opt"])
print(o2.param_groups[0]["lr"], o2.state_dict()["state"][0]["step"], sorted(o2.state_dict()["state"][0]))
for m, o in ((net, opt), (other, o2)):
    o.zero_grad()
    nn.functional.mse_loss(m(x), y).backward()
    o.step()
print(all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters())))
swa = torch.optim.swa_utils.AveragedModel(net)
swa.update_parameters(net)
print(swa.n_averaged)
try:
    torch.optim.SGD(net.parameters(), lr=-1.0)
except ValueError as e:
    print(e)
try:
    torch.optim.Adam([])
except ValueError as e:
    print(e)
