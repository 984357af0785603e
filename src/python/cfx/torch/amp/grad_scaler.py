"""torch.amp.GradScaler: losses scaled for halves. On the CPU, where it is off unless asked for."""
import collections

from cfx._tensor import no_grad

__all__ = ["GradScaler"]


class GradScaler:
    """Scales a loss, takes the scale off the gradients before a step, and leaves a step out whose
    gradients are not finite."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        self._enabled = enabled and device == "cpu"
        self._scale, self._growth, self._backoff = float(init_scale), growth_factor, backoff_factor
        self._interval, self._good = growth_interval, 0
        self._seen = collections.defaultdict(dict)  # id of an optimiser to what was found

    def scale(self, outputs):
        if not self._enabled:
            return outputs
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(o) for o in outputs)
        return outputs * self._scale

    def unscale_(self, optimizer):
        if not self._enabled:
            return
        seen = self._seen[id(optimizer)]
        if "finite" in seen:
            raise RuntimeError("unscale_() has already been called on this optimizer since the "
                               "last update().")
        seen["finite"] = True
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.grad.mul_(1.0 / self._scale)
                        seen["finite"] &= bool(p.grad.isfinite().all())

    def step(self, optimizer, *args, **kwargs):
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "finite" not in self._seen[id(optimizer)]:
            self.unscale_(optimizer)
        if self._seen[id(optimizer)]["finite"]:
            return optimizer.step(*args, **kwargs)
        return None

    def update(self, new_scale=None):
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not all(s.get("finite", True) for s in self._seen.values()):
            self._scale, self._good = self._scale * self._backoff, 0
        else:
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        self._seen.clear()

    def get_scale(self):
        return self._scale if self._enabled else 1.0

    def is_enabled(self):
        return self._enabled

    def get_growth_factor(self):
        return self._growth

    def get_backoff_factor(self):
        return self._backoff

    def get_growth_interval(self):
        return self._interval

    def state_dict(self):
        return {"scale": self._scale, "growth_factor": self._growth,
                "backoff_factor": self._backoff, "growth_interval": self._interval,
                "_growth_tracker": self._good} if self._enabled else {}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from "
                               "a disabled instance of GradScaler.")
        self._scale, self._growth = state_dict["scale"], state_dict["growth_factor"]
        self._backoff, self._interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._good = state_dict["_growth_tracker"]
