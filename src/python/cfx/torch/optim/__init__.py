"""torch.optim: the optimisers of the C library under PyTorch's names. What is in `param_groups` is
what counts: it is handed over before each step."""

from cfx._tensor import Tensor

from . import lr_scheduler, swa_utils
from ._rules import ASGD, LBFGS, Adafactor, NAdam, RAdam, Rprop
from .optimizer import Optimizer


def _optimizer(name, defaults, then, doc):
    """The class for an optimiser of C's; `defaults` are the options of its constructor in order,
    `then` the keys of a group in the order in which they stand there."""
    names = list(defaults)
    values = {"foreach": None, "differentiable": False, "fused": None, "capturable": False,
              "decoupled_weight_decay": name == "AdamW", **defaults}
    defaults = {key: values[key] for key in then.split()}

    def __init__(self, params, *args, **kwargs):
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names) + 1} positional arguments "
                            f"({len(args) + 1} given)")
        options = dict(defaults, **dict(zip(names, args)))
        for key, value in kwargs.items():
            if key in options:
                options[key] = value
            else:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{key}'")
        options = {k: v.item() if isinstance(v, Tensor) else v for k, v in options.items()}
        if not 0.0 <= options["lr"]:
            raise ValueError(f"Invalid learning rate: {options['lr']}")
        Optimizer.__init__(self, params, options)

    return type(name, (Optimizer,), {"__init__": __init__, "__doc__": doc, "_type": name,
                                     "__module__": f"{__name__}.{name.lower()}"})


SGD = _optimizer("SGD", {"lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0,
                         "nesterov": False, "maximize": False},
                 "lr momentum dampening weight_decay nesterov maximize foreach differentiable "
                 "fused",
                 "Steps against the gradient, with momentum where asked for.")
_ADAM = ("lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
         "decoupled_weight_decay")
Adam = _optimizer("Adam", {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0,
                           "amsgrad": False, "maximize": False}, _ADAM,
                  "Steps scaled by running means of the gradient and of its square.")
AdamW = _optimizer("AdamW", {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2,
                             "amsgrad": False, "maximize": False}, _ADAM,
                   "Adam with decay of the weights themselves.")
RMSprop = _optimizer("RMSprop", {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0,
                                 "momentum": 0, "centered": False, "maximize": False},
                     "lr momentum alpha eps centered weight_decay capturable foreach maximize "
                     "differentiable",
                     "Steps scaled by a running mean of the squared gradient.")
Adagrad = _optimizer("Adagrad", {"lr": 1e-2, "lr_decay": 0, "weight_decay": 0,
                                 "initial_accumulator_value": 0, "eps": 1e-10, "maximize": False},
                     "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
                     "differentiable fused",
                     "Steps scaled by the sum of squared gradients.")
Adadelta = _optimizer("Adadelta", {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0,
                                   "maximize": False},
                      "lr rho eps weight_decay maximize capturable foreach differentiable",
                      "Steps scaled by running means of squared gradients and steps.")
Adamax = _optimizer("Adamax", {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0,
                               "maximize": False},
                    "lr betas eps weight_decay foreach maximize differentiable capturable",
                    "Adam by the largest gradient.")

__all__ = ["Optimizer", "ASGD", "Adafactor", "LBFGS", "NAdam", "RAdam", "Rprop", "swa_utils",
           "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "lr_scheduler"]
