"""lines.py FILE: each line of a file by itself, with what Python prints of it."""
import sys

import torch
from torch import nn

names = {"torch": torch, "nn": nn, "F": nn.functional}
for line in open(sys.argv[1]).read().splitlines():
    print(">>> " + line)
    try:
        try:
            code = compile(line, "line", "eval")
        except SyntaxError:
            exec(line, names)
            continue
        value = eval(code, names)
        if value is not None:
            print(value)
    except Exception as e:
        print(type(e).__name__ + ": " + str(e).split("\n")[0])
