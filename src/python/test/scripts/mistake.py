"""A script with a mistake: the traceback is the one that Python gives."""
import torch

print("before")
torch.ones(2, 3) @ torch.ones(2, 3)
