"""A notebook's cells over a model that PyTorch exported. In Jupyter a program shows itself as its
page and a graph as its drawing; here it is run as a script:

    PYTHONPATH=build/release/python python3 examples/python/notebook.py
"""
# %% A file that torch.export wrote, opened without PyTorch.
import os

import cfx

here = os.path.dirname(os.path.abspath(__file__))
p = cfx.open(os.path.join(here, "..", "data", "distilbert", "model.pt2"))
print(repr(p))
sizes = {n.name: tuple(n.meta["val"].shape) for n in p.graph.find_nodes(op="placeholder")}
names = [name for kind, name, *_ in p.inputs if kind == 0]
print({name: sizes[name] for name in names})
cfx.manual_seed(0)
x = {"input_ids": cfx.randint(0, 50, sizes["input_ids"]),
     "attention_mask": cfx.ones(sizes["attention_mask"], dtype=cfx.int64)}

# %% What it costs.
cost = p.cost()
print(f"{cost['flops'] / 1e6:.2f} MFLOP, {len(cost['nodes'])} nodes")
print("the busiest:", max(cost["nodes"], key=lambda n: cost["nodes"][n]["flops"]))

# %% What flows through it: every GELU, seen in one run.
result, taken = p.run(**x, tap="op:gelu")
for name, value in taken.items():
    share = (value <= 0).to(cfx.float32).mean().item()
    print(f"{name} {tuple(value.shape)}: {100 * share:.0f} % are not above zero")

# %% Changed on the way: a hook replaces what a node gives.


def answer(program):
    """Its first result."""
    y = program(**x)
    return y[0] if isinstance(y, (tuple, list)) else next(iter(y.values())) \
        if isinstance(y, dict) else y


right = answer(p)
handle = p.hook("op:gelu", lambda name, node, value: value * 0)
print("without GELUs it differs:", bool((answer(p) != right).any()))
handle.remove()
print("and with them it does not:", bool((answer(p) == right).all()))

# %% The same in Core ATen, optimised, and with weights of 8 bits.
for what, q in (("core", p.decompose()), ("optimised", p.decompose().optimize()),
                ("8 bits", p.quantize(scheme="weight"))):
    far = (answer(q) - right).abs().max().item()
    print(f"{what}: {len(q.graph.nodes)} nodes,", "the same" if far < 1e-4 else
          "near" if far < 0.2 else "another")
