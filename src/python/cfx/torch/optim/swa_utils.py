"""torch.optim.swa_utils: means of models over a training."""
import copy
import itertools
import math

from cfx._tensor import no_grad

from ..nn import Module
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn", "update_bn"]


def get_ema_avg_fn(decay=0.999):
    """The mean in which what is older counts less."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] "
                         "range.")

    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """The mean of all."""

    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _of_lists(one):
    def update(averaged, current, num_averaged):
        for a, c in zip(averaged, current):
            a.copy_(one(a, c, num_averaged))

    return update


def get_ema_multi_avg_fn(decay=0.999):
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn():
    return _of_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are the mean of what was given to update_parameters."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        from .. import int64, tensor

        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        own, new = self.module, model
        pairs = list(zip(own.parameters(), new.parameters()))
        if self.use_buffers:
            pairs += list(zip(own.buffers(), new.buffers()))
        n = int(self.n_averaged)
        with no_grad():
            if n == 0:
                for a, c in pairs:
                    a.copy_(c.detach())
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn([a for a, _ in pairs], [c.detach() for _, c in pairs],
                                  self.n_averaged)
            else:
                mean = self.avg_fn or get_swa_avg_fn()
                for a, c in pairs:
                    a.copy_(mean(a, c.detach(), n))
            if not self.use_buffers:
                for a, c in zip(own.buffers(), new.buffers()):
                    a.copy_(c.detach())
        self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Statistics of batch norms, computed anew over a loader."""
    norms = [m for m in model.modules() if hasattr(m, "running_mean") and hasattr(m, "momentum")]
    if not norms:
        return
    training, before = model.training, [m.momentum for m in norms]
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for m, momentum in zip(norms, before):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the rate there is to swa_lr in anneal_epochs, and then stays."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        rates = itertools.repeat(swa_lr) if not isinstance(swa_lr, (list, tuple)) else swa_lr
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("anneal_strategy must by one of 'cos' or 'linear', instead got "
                             f"{anneal_strategy}")
        self._linear, self.anneal_epochs = anneal_strategy == "linear", anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t):
        return t if self._linear else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self):
        step = self._step_count - 1
        before = self._share(max(0, min(1, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0, min(1, step / max(1, self.anneal_epochs))))
        rates = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else \
                (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
