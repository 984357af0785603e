"""What PyTorch's optimisers and schedules do: writes optim.txt, which src/nn/optim_test.c reads.

= EXPRESSION        an optimiser of one parameter p; then a line of p for each step
@ EXPRESSION        a schedule of SGD([p], lr=0.1, momentum=0.9); then the rate before each step
~ N BATCH           the order in which a DataLoader that shuffles gives N numbers, after
                    manual_seed(5); then an epoch a line
The gradient at step k is sin(3 p + k); the measure for a plateau is 1 / (1 + min(k, 4))."""
import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, RMSprop  # noqa: F401
from torch.optim.lr_scheduler import *  # noqa: F401,F403

OPTIMISERS = [
    "SGD([p], lr=0.1)", "SGD([p], lr=0.1, momentum=0.9)", "SGD([p], lr=0.1, momentum=0.9, dampening=0.5)",
    "SGD([p], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)", "SGD([p], lr=0.1, weight_decay=0.1, maximize=True)",
    "Adam([p])", "Adam([p], lr=0.1)", "Adam([p], lr=0.05, betas=(0.8, 0.9), eps=0.001, weight_decay=0.1)", "Adam([p], lr=0.1, amsgrad=True)",
    "Adam([p], lr=0.1, maximize=True)", "AdamW([p], lr=0.1)", "AdamW([p], lr=0.1, weight_decay=0.5, amsgrad=True)",
    "RMSprop([p])", "RMSprop([p], lr=0.05, alpha=0.9, weight_decay=0.1)", "RMSprop([p], lr=0.05, centered=True)",
    "RMSprop([p], lr=0.05, momentum=0.5, centered=True)", "RMSprop([p], lr=0.05, momentum=0.9)",
    "Adagrad([p], lr=0.1, lr_decay=0.1, weight_decay=0.1)", "Adagrad([p], initial_accumulator_value=0.5)",
    "Adadelta([p], lr=0.5, weight_decay=0.1)", "Adamax([p], lr=0.1, weight_decay=0.1)",
]
SCHEDULES = [
    "StepLR(o, 3)", "StepLR(o, 2, gamma=0.5)", "MultiStepLR(o, [2, 5, 5, 7], gamma=0.5)", "ExponentialLR(o, 0.9)",
    "CosineAnnealingLR(o, 5)", "CosineAnnealingLR(o, 4, eta_min=0.01)", "LinearLR(o)", "LinearLR(o, start_factor=0.25, end_factor=0.75, total_iters=6)",
    "ConstantLR(o, factor=0.5, total_iters=4)", "PolynomialLR(o, total_iters=6, power=2.0)",
    "OneCycleLR(o, 1.0, 10)", "OneCycleLR(o, 1.0, 10, pct_start=0.4, anneal_strategy='linear', three_phase=True)",
    "LambdaLR(o, lambda epoch: 0.9 ** epoch)", "ReduceLROnPlateau(o, patience=1)", "ReduceLROnPlateau(o, factor=0.5, patience=0, cooldown=1, min_lr=0.02)",
]


def main():
    for text in OPTIMISERS:
        p = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.0]))
        o = eval(text)
        print("=", text)
        for k in range(6):
            p.grad = torch.sin(3 * p.detach() + k)
            o.step()
            print(" ".join("%.9g" % x for x in p.tolist()))
    for text in SCHEDULES:
        p = torch.nn.Parameter(torch.zeros(1))
        o = SGD([p], lr=0.1, momentum=0.9)
        try:
            s = eval(text)
        except NameError:
            print("# not in this PyTorch:", text)
            continue
        print("@", text)
        for k in range(10):
            print("%.12g %.12g" % (o.param_groups[0]["lr"], o.param_groups[0]["momentum"]))
            o.step()
            if isinstance(s, ReduceLROnPlateau):
                s.step(1 / (1 + min(k, 4)))
            elif k < 9:
                s.step()
    for n, batch in (10, 3), (7, 7):
        torch.manual_seed(5)
        print("~", n, batch)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(n)), batch, shuffle=True)
        for _ in range(3):
            print(" ".join(",".join(map(str, b.tolist())) for (b,) in loader))
    p = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    q = torch.nn.Parameter(torch.tensor([1.0]))
    p.grad, q.grad = torch.tensor([3.0, -4.0]), torch.tensor([12.0])
    print("! norm %.9g" % torch.nn.utils.clip_grad_norm_([p, q], 6.5).item(), *("%.9g" % x for x in p.grad.tolist() + q.grad.tolist()))
    torch.nn.utils.clip_grad_value_([p, q], 1.75)
    print("! value", *("%.9g" % x for x in p.grad.tolist() + q.grad.tolist()))


if __name__ == "__main__":
    print("#", torch.__version__.split("+")[0])
    main()
