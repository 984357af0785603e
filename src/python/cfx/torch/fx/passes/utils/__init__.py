"""Helpers of passes: lifting sub-graphs, comparing graphs."""
from .common import HolderModule, compare_graphs, lift_subgraph_as_module  # noqa: F401
