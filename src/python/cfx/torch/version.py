"""torch.version: that of PyTorch which is played."""
__version__ = "2.11.0+cfx"
debug, git_version = False, None
cuda = hip = xpu = None
