"""Schedules that go up and down, and schedules of schedules."""
import bisect
import math

from .lr_scheduler import LRScheduler


class MultiplicativeLR(LRScheduler):
    """The rate before, times lr_lambda(epoch)."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates())]


class PolynomialLR(LRScheduler):
    """Down to 0 in total_iters epochs, as a power of what is left."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates()
        factor = ((1.0 - self.last_epoch / self.total_iters)
                  / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [lr * factor for lr in self._rates()]

    def _get_closed_form_lr(self):
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left ** self.power for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines down to eta_min, each T_mult times as long as the one before."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [self.eta_min + (base - self.eta_min)
                * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 for base in self.base_lrs]

    def step(self, epoch=None):
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        elif epoch >= self.T_0 and self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        elif epoch >= self.T_0:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult ** n
        else:
            self.T_i, self.T_cur = self.T_0, epoch
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr
        self._last_lr = self._rates()


def _per_group(optimizer, value, name):
    if not isinstance(value, (list, tuple)):
        return [value] * len(optimizer.param_groups)
    if len(value) != len(optimizer.param_groups):
        raise ValueError(f"expected {len(optimizer.param_groups)} values for {name}, got "
                         f"{len(value)}")
    return list(value)


class OneCycleLR(LRScheduler):
    """Up to max_lr and down below the first rate, once in a training; momentum the other way."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None,
                 pct_start=0.3, anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85,
                 max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
                 last_epoch=-1):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND "
                                 "steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("anneal_strategy must be one of 'cos' or 'linear', instead got "
                             f"{anneal_strategy}")
        self.total_steps, self._anneal_func_type = total_steps, anneal_strategy
        up = float(pct_start * total_steps) - 1
        if three_phase:
            ends = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                    (2 * up, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                    (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            ends = [(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                    (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        self._schedule_phases = ends
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, _per_group(optimizer, max_lr, "max_lr")):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._by_betas = "betas" in optimizer.defaults
            if not self._by_betas and "momentum" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` "
                                 "option enabled")
            most = _per_group(optimizer, max_momentum, "max_momentum")
            least = _per_group(optimizer, base_momentum, "base_momentum")
            for group, high, low in zip(optimizer.param_groups, most, least):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        first = [g["initial_lr"] for g in optimizer.param_groups] if last_epoch == -1 else None
        if first:
            for group, lr in zip(optimizer.param_groups, first):
                group["lr"] = lr
        super().__init__(optimizer, last_epoch)

    def _set_momentum(self, group, value):
        if self._by_betas:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _between(self, start, end, share):
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is "
                             f"{self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            begin = 0.0
            for i, (end, a, b, ma, mb) in enumerate(self._schedule_phases):
                if step <= end or i == len(self._schedule_phases) - 1:
                    share = (step - begin) / (end - begin)
                    rates.append(self._between(group[a], group[b], share))
                    if self.cycle_momentum:
                        self._set_momentum(group, self._between(group[ma], group[mb], share))
                    break
                begin = end
        return rates


class CyclicLR(LRScheduler):
    """Between base_lr and max_lr, up and down again and again."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None,
                 mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle",
                 cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1):
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.max_lrs = _per_group(optimizer, max_lr, "max_lr")
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        scales = {"triangular": lambda x: 1.0, "triangular2": lambda x: 1 / 2.0 ** (x - 1),
                  "exp_range": lambda x: gamma ** x}
        self._scale = scale_fn or scales[mode]
        self.scale_mode = scale_mode if scale_fn else \
            "iterations" if mode == "exp_range" else "cycle"
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, _per_group(optimizer, base_lr, "base_lr")):
                group["lr"] = lr
        if cycle_momentum:
            self._by_betas = "betas" in optimizer.defaults
            if not self._by_betas and "momentum" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` "
                                 "option enabled")
            self.base_momentums = _per_group(optimizer, base_momentum, "base_momentum")
            self.max_momentums = _per_group(optimizer, max_momentum, "max_momentum")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums,
                                        self.max_momentums):
                value = high - (high - low) * share * scale
                if self._by_betas:
                    group["betas"] = (value, *group["betas"][1:])
                else:
                    group["momentum"] = value
        return [base + (most - base) * share * scale
                for base, most in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        return {k: v for k, v in super().state_dict().items() if k != "_scale"}


class SequentialLR(LRScheduler):
    """Schedules one after the other, changed at milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be "
                             "one more than the number of milestone points, but got number of "
                             f"schedulers {len(schedulers)} and the number of milestones to be "
                             f"equal to {len(milestones)}")
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("SequentialLR expects all schedulers to belong to the same optimizer")
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for s in schedulers:  # as if none had been made
            s.last_epoch -= 1
            if hasattr(s, "T_cur"):
                s.T_cur -= 1
        self._schedulers[0]._step_count = 0
        self._schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self):
        self.last_epoch += 1
        i = bisect.bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            now.step(0)
        else:
            now.step()
        self._last_lr = now.get_last_lr()

    def state_dict(self):
        return {**{k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")},
                "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for s, own in zip(self._schedulers, state.pop("_schedulers")):
            s.load_state_dict(own)
        self.__dict__.update(state)


class ChainedScheduler(LRScheduler):
    """Schedules that all step at each step."""

    def __init__(self, schedulers, optimizer=None):
        schedulers = list(schedulers)
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but "
                             "got no scheduler.")
        self._schedulers = schedulers
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ValueError("ChainedScheduler expects all schedulers to belong to the same "
                             "optimizer")
        self._last_lr = self._rates()

    def step(self):
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()

    state_dict, load_state_dict = SequentialLR.state_dict, SequentialLR.load_state_dict
