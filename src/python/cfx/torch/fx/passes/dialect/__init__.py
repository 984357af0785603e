"""Passes of torch.fx."""
