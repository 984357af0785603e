"""Optimisers, schedules and means of models."""
import torch
from torch import nn, optim
from torch.optim import lr_scheduler as S

def fit(make, steps=6):
    torch.manual_seed(0)
    m = nn.Linear(3, 2)
    x = torch.randn(8, 3)
    y = torch.randn(8, 2)
    o = make(m.parameters())
    for _ in range(steps):

        def closure():
            o.zero_grad()
            l = ((m(x) - y) ** 2).mean()
            l.backward()
            return l
        l = o.step(closure)
    return (f'{l.item():.6f}', [round(v, 2) for v in m.weight.detach().flatten().tolist()],
        m.bias.tolist()[0].__round__(3))
for n, f in {'nadam': lambda p: optim.NAdam(p, lr=0.05, weight_decay=0.01),
    'radam': lambda p: optim.RAdam(p, lr=0.05), 'rprop': lambda p: optim.Rprop(p),
        'asgd': lambda p: optim.ASGD(p, lr=0.1), 'adaf': lambda p: optim.Adafactor(p, lr=0.1),
            'lbfgs': lambda p: optim.LBFGS(p, lr=0.5, max_iter=4),
                'lbfgsw': lambda p: optim.LBFGS(p, max_iter=5, line_search_fn='strong_wolfe'),
                    'nadamd': lambda p: optim.NAdam(p, lr=0.05, weight_decay=0.01,
                        decoupled_weight_decay=True), 'radam2': lambda p: optim.RAdam(p,
                            lr=0.05, betas=(0.9, 0.5))}.items():
    print(n, fit(f))

def rates(mk, n=12, opt=lambda p: optim.SGD(p, lr=0.1, momentum=0.9)):
    p = nn.Parameter(torch.zeros(1))
    o = opt([p])
    s = mk(o)
    out = []
    for _ in range(n):
        out.append(round(o.param_groups[0]['lr'], 6))
        p.grad = torch.ones(1)
        o.step()
        s.step()
    return (out, o.param_groups[0].get('momentum'), s.get_last_lr())
print(rates(lambda o: S.OneCycleLR(o, 1.0, total_steps=14)))
print(rates(lambda o: S.OneCycleLR(o, 1.0, epochs=3, steps_per_epoch=5, three_phase=True,
    anneal_strategy='linear')))
print(rates(lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2)))
print(rates(lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode='triangular2')))
print(rates(lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=2, step_size_down=3,
    mode='exp_range', gamma=0.9)))
print(rates(lambda o: S.MultiplicativeLR(o, lambda e: 0.9)))
print(rates(lambda o: S.PolynomialLR(o, 6, 2.0)))
print(rates(lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2])))
print(rates(lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)])))
print(rates(lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=4),
    S.CosineAnnealingLR(o, 6)], [4])))
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn, get_ema_multi_avg_fn
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
a = AveragedModel(m)
e = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9))
o = optim.SGD(m.parameters(), lr=0.001)
s = SWALR(o, swa_lr=0.0005, anneal_epochs=3)
r = []
for i in range(5):
    m(torch.randn(4, 2)).pow(3).mean().backward()
    o.step()
    a.update_parameters(m)
    e.update_parameters(m)
    s.step()
    r.append(round(o.param_groups[0]['lr'], 6))
print(r, a.n_averaged, a.module[0].weight.detach(), e.module[0].weight.detach())
update_bn([torch.randn(4, 2)], a)
print(a.module[1].running_mean)
o = optim.Adam(m.parameters())
h = o.register_step_pre_hook(lambda opt, a, k: print('pre', type(opt).__name__, a, k))
o.register_step_post_hook(lambda opt, a, k: print('post'))
o.step()
h.remove()
o.step()
print(optim.NAdam(m.parameters()))
