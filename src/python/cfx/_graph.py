"""Graphs and nodes, under cfx's own name."""
from ._functions import torch

Graph = torch().fx.Graph
Node = torch().fx.Node
