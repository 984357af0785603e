"""torch.optim.lr_scheduler: schedules of the learning rate."""
import bisect
import math
import warnings


class LRScheduler:
    """Sets the rates of an optimiser's groups, once when it is made and at each step(). A subclass
    that knows them from the epoch alone has _get_closed_form_lr(), for step(epoch)."""

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError("param 'initial_lr' is not specified in param_groups when resuming "
                               "an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial, self._get_lr_called_within_step = True, False
        self.step()
        self._is_initial = False

    def get_lr(self):
        """The rates of this epoch, from those of the one before."""
        raise NotImplementedError

    def get_last_lr(self):
        return self._last_lr

    def step(self, epoch=None):
        """The next epoch."""
        if self._step_count == 1 and not self.optimizer.__dict__.get("_opt_called"):
            warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In "
                          "PyTorch 1.1.0 and later, you should call them in the opposite order: "
                          "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
                          "will result in PyTorch skipping the first value of the learning rate "
                          "schedule. See more details at https://pytorch.org/docs/stable/optim.html"
                          "#how-to-adjust-learning-rate", UserWarning, stacklevel=2)
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        known = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        for group, lr in zip(self.optimizer.param_groups, (known or self.get_lr)()):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _rates(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(epoch)."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        at = self.milestones
        times = bisect.bisect_right(at, self.last_epoch) - bisect.bisect_left(at, self.last_epoch)
        return [lr * self.gamma ** times for lr in self._rates()]

    def _get_closed_form_lr(self):
        times = bisect.bisect_right(self.milestones, self.last_epoch)
        return [base * self.gamma ** times for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates() if self.last_epoch == 0 else [r * self.gamma for r in self._rates()]

    def _get_closed_form_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor until total_iters."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        times = 1.0 / self.factor if self.last_epoch == self.total_iters else 1
        return [lr * times for lr in self._rates()]

    def _get_closed_form_lr(self):
        times = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * times for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From start_factor to end_factor in total_iters epochs."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5,
                 last_epoch=-1):
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        past = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / past) for lr in self._rates()]

    def _get_closed_form_lr(self):
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        times = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * times for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to eta_min in T_max epochs."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        n, low = self.last_epoch, self.eta_min
        if n == 0:
            return self._rates()
        if self._step_count == 1 and n > 0:
            return self._get_closed_form_lr()
        if (n - 1 - self.T_max) % (2 * self.T_max) == 0:
            return [lr + (base - low) * (1 - math.cos(math.pi / self.T_max)) / 2
                    for base, lr in zip(self.base_lrs, self._rates())]
        times = (1 + math.cos(math.pi * n / self.T_max)) \
            / (1 + math.cos(math.pi * (n - 1) / self.T_max))
        return [times * (lr - low) + low for lr in self._rates()]

    def _get_closed_form_lr(self):
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class ReduceLROnPlateau:
    """Times factor where a measure has not become better for `patience` epochs."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        several = isinstance(min_lr, (list, tuple))
        self.min_lrs = list(min_lr) if several else [min_lr] * len(optimizer.param_groups)
        self.eps, self.last_epoch = eps, 0
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def _better(self, a):
        sign = 1 if self.mode == "min" else -1
        step = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1)
        return math.isinf(self.best) or sign * a < sign * self.best - step

    def step(self, metrics, epoch=None):
        now = float(metrics)
        self.last_epoch += 1
        if self._better(now):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self):
        return self._last_lr

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


from ._cycles import (ChainedScheduler, CosineAnnealingWarmRestarts, CyclicLR,  # noqa: E402,F401
                      MultiplicativeLR, OneCycleLR, PolynomialLR, SequentialLR)
