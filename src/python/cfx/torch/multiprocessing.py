"""torch.multiprocessing: Python's own; tensors go from one process to another as copies."""
from multiprocessing import *  # noqa: F401,F403
from multiprocessing import Process, Queue, get_context, set_start_method  # noqa: F401
