"""Optimisers whose rule is written in operators: each says how one parameter changes."""

from cfx._tensor import no_grad

from .optimizer import Optimizer


class Rule(Optimizer):
    """A subclass has `_begin(p, group)`, the state of a parameter at first, and
    `_update(p, g, state, group)`, one step of it."""

    def step(self, closure=None):
        loss = self._loss(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if not self.state[p]:
                        self.state[p].update(self._begin(p, group))
                    g = -p.grad if group.get("maximize") else p.grad
                    self._update(p, g, self.state[p], group)
        return loss


def _zeros(p):
    from .. import preserve_format, zeros_like

    return zeros_like(p, memory_format=preserve_format)


def _count(value=0.0):
    from .. import tensor

    return tensor(float(value))


def _check_adam(lr, betas, eps, weight_decay):
    for value, name in ((lr, "learning rate"), (eps, "epsilon value"),
                        (weight_decay, "weight_decay value")):
        if value < 0.0:
            raise ValueError(f"Invalid {name}: {value}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


class _Adaptive(Rule):
    """Running means of the gradient and of its square."""

    def _begin(self, p, group):
        return {"step": _count(), "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)}

    def _means(self, p, g, state, group):
        """The gradient with decay, after both means have seen it."""
        beta1, beta2 = group["betas"]
        state["step"] += 1
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
            else:
                g = g.add(p, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(g, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
        return g, state["step"].item()


class NAdam(_Adaptive):
    """Adam with Nesterov's momentum."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 momentum_decay=4e-3, decoupled_weight_decay=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False):
        _check_adam(lr, betas, eps, weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay,
                                  "maximize": maximize, "foreach": foreach,
                                  "capturable": capturable, "differentiable": differentiable})

    def _begin(self, p, group):
        state = super()._begin(p, group)
        return {"step": state["step"], "mu_product": _count(1), "exp_avg": state["exp_avg"],
                "exp_avg_sq": state["exp_avg_sq"]}

    def _update(self, p, g, state, group):
        g, step = self._means(p, g, state, group)
        beta1, beta2 = group["betas"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product, lr = state["mu_product"].item(), group["lr"]
        denom = state["exp_avg_sq"].div(1 - beta2 ** step).sqrt()
        p.addcdiv_(g, denom.add_(group["eps"]), value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(state["exp_avg"], denom, value=-lr * mu_next / (1.0 - product * mu_next))


class RAdam(_Adaptive):
    """Adam whose first steps, when its scale is a guess, are not scaled."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        _check_adam(lr, betas, eps, weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "maximize": maximize,
                                  "foreach": foreach, "capturable": capturable,
                                  "decoupled_weight_decay": decoupled_weight_decay,
                                  "differentiable": differentiable})

    def _update(self, p, g, state, group):
        g, step = self._means(p, g, state, group)
        beta1, beta2 = group["betas"]
        corrected = state["exp_avg"] / (1 - beta1 ** step)
        correction2 = 1 - beta2 ** step
        most = 2 / (1 - beta2) - 1
        rho = most - 2 * step * beta2 ** step / correction2
        update = corrected * group["lr"]
        if rho > 5.0:
            rect = ((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)) ** 0.5
            update = update * (correction2 ** 0.5 / state["exp_avg_sq"].sqrt().add_(group["eps"]))
            update = update * rect
        p.add_(update, alpha=-1.0)


class Rprop(Rule):
    """Steps that grow while the sign of the gradient stays and shrink where it changes."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes,
                                  "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable, "capturable": capturable})

    def _begin(self, p, group):
        from .. import full_like

        return {"step": _count(), "prev": _zeros(p), "step_size": full_like(p, group["lr"])}

    def _update(self, p, g, state, group):
        from .. import ones_like, where

        less, more = group["etas"]
        state["step"] += 1
        sign = g.mul(state["prev"]).sign()
        one = ones_like(sign)
        factor = where(sign > 0, one * more, where(sign < 0, one * less, one))
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        g = where(sign < 0, g * 0, g)
        p.addcmul_(g.sign(), state["step_size"], value=-1)
        state["prev"].copy_(g)


class ASGD(Rule):
    """Steps against the gradient, with the mean of what the parameters were."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0,
                 foreach=None, maximize=False, differentiable=False, capturable=False):
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0,
                                  "weight_decay": weight_decay, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _begin(self, p, group):
        return {"step": _count(), "eta": _count(group["lr"]), "mu": _count(1), "ax": _zeros(p)}

    def _update(self, p, g, state, group):
        state["step"] += 1
        step, eta, mu = state["step"].item(), state["eta"].item(), state["mu"].item()
        if group["weight_decay"] != 0:
            g = g.add(p, alpha=group["weight_decay"])
        p.mul_(1 - group["lambd"] * eta)
        p.add_(g, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_(p.sub(state["ax"]).mul_(mu))
        state["eta"] = _count(group["lr"] / (1 + group["lambd"] * group["lr"] * step)
                              ** group["alpha"])
        state["mu"] = _count(1 / max(1, step - group["t0"]))


class Adafactor(Rule):
    """Adam whose squares are kept by rows and columns."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0,
                 weight_decay=0.0, *, foreach=None, maximize=False):
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "foreach": foreach,
                                  "maximize": maximize})

    def _begin(self, p, group):
        if p.dim() < 2:
            return {"step": _count(), "variance": _zeros(p)}
        rows, columns = list(p.shape), list(p.shape)
        rows[-1] = columns[-2] = 1
        return {"step": _count(), "row_var": p.new_zeros(rows), "col_var": p.new_zeros(columns)}

    def _update(self, p, g, state, group):
        from .. import finfo

        eps1, eps2 = group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        state["step"] += 1
        step = state["step"].item()
        keep = step ** group["beta2_decay"]
        rho = min(group["lr"], 1 / step ** 0.5)
        alpha = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * rho
        if group["weight_decay"] != 0:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        if p.dim() > 1:
            row = g.norm(dim=-1, keepdim=True).square_().div_(g.size(-1))
            state["row_var"].lerp_(row, keep)
            column = g.norm(dim=-2, keepdim=True).square_().div_(g.size(-2))
            state["col_var"].lerp_(column, keep)
            variance = state["row_var"] @ state["col_var"]
            variance.div_(state["row_var"].mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            state["variance"].lerp_(g.square(), keep)
            variance = state["variance"].clone()
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(g)
        scale = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-alpha / scale)


class LBFGS(Optimizer):
    """Steps by the curvature that the last gradients tell; the closure is called several times."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7,
                 tolerance_change=1e-9, history_size=100, line_search_fn=None):
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        super().__init__(params, {"lr": lr, "max_iter": max_iter,
                                  "max_eval": max_eval or max_iter * 5 // 4,
                                  "tolerance_grad": tolerance_grad,
                                  "tolerance_change": tolerance_change,
                                  "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        from .. import cat

        return cat([(p.new_zeros(p.numel()) if p.grad is None else p.grad).reshape(-1)
                    for p in self._params])

    def _move(self, t, d):
        at = 0
        for p in self._params:
            p.add_(d[at:at + p.numel()].view_as(p), alpha=t)
            at += p.numel()

    def _at(self, closure, x, t, d):
        """(loss, gradient) at x + t d; the parameters are x again after it."""
        from .. import enable_grad

        self._move(t, d)
        with enable_grad():
            loss = float(closure())
        gradient = self._gradient()
        for p, before in zip(self._params, x):
            p.copy_(before)
        return loss, gradient

    def step(self, closure):
        from .. import enable_grad, preserve_format

        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        lr, change = group["lr"], group["tolerance_change"]
        with enable_grad():
            first = closure()
        with no_grad():
            loss, evals = float(first), 1
            state["func_evals"] += 1
            g = self._gradient()
            if g.abs().max() <= group["tolerance_grad"]:
                return first
            for n in range(1, group["max_iter"] + 1):
                state["n_iter"] += 1
                d = self._direction(g, state, group["history_size"])
                state["prev_g"] = g.clone(memory_format=preserve_format)
                before = loss
                t = min(1.0, 1.0 / g.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
                slope = g.dot(d).item()
                if slope > -change:
                    break
                if group["line_search_fn"]:
                    from ._line_search import strong_wolfe

                    x = [p.clone() for p in self._params]
                    loss, g, t, used = strong_wolfe(
                        lambda s: self._at(closure, x, s, d), t, d, loss, g, slope)
                    self._move(t, d)
                else:
                    self._move(t, d)
                    used = 0
                    if n != group["max_iter"]:
                        with enable_grad():
                            loss = float(closure())
                        g, used = self._gradient(), 1
                state["t"] = t
                evals += used
                state["func_evals"] += used
                if evals >= group["max_eval"] or g.abs().max() <= group["tolerance_grad"] or \
                        d.mul(t).abs().max() <= change or abs(loss - before) < change:
                    break
        return first

    def _direction(self, g, state, most):
        """The next direction, from the steps and changes of gradients that are known."""
        if "d" not in state:
            state.update({"d": g.neg(), "old": [], "H": 1.0})
            return state["d"]
        y, s = g.sub(state["prev_g"]), state["d"].mul(state["t"])
        ys = y.dot(s).item()
        if ys > 1e-10:
            if len(state["old"]) == most:
                state["old"].pop(0)
            state["old"].append((y, s, 1.0 / ys))
            state["H"] = ys / y.dot(y).item()
        q, parts = g.neg(), []
        for y, s, ro in reversed(state["old"]):
            a = s.dot(q).item() * ro
            parts.append(a)
            q.add_(y, alpha=-a)
        d = q.mul(state["H"])
        for (y, s, ro), a in zip(state["old"], reversed(parts)):
            d.add_(s, alpha=a - y.dot(d).item() * ro)
        state["d"] = d
        return d
