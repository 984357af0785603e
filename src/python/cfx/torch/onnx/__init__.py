"""torch.onnx: models as ONNX files, written by the C library."""
from ..export import ExportedProgram
from ..export import export as _export

__all__ = ["ONNXProgram", "export", "is_in_onnx_export"]


class ONNXProgram:
    """What export gives: the program, to be saved."""

    def __init__(self, program):
        self.exported_program = program

    def save(self, destination, **kwargs):
        self.exported_program._program.save(str(destination))

    def __call__(self, *args, **kwargs):
        return self.exported_program.module()(*args, **kwargs)


def is_in_onnx_export():
    return False


def export(model, args=(), f=None, *, kwargs=None, dynamic_shapes=None, **options):
    """Exports a model, and writes it to a file where one is named. Names of inputs and outputs are
    those of the program: input_names, output_names and dynamic_axes are refused."""
    for name in ("input_names", "output_names", "dynamic_axes"):
        if options.get(name):
            raise NotImplementedError(f"cfx writes a model with the names of its program: "
                                      f"torch.onnx.export has no {name}; sizes that vary are told "
                                      "by dynamic_shapes")
    args = args if isinstance(args, tuple) else (args,)
    ep = model if isinstance(model, ExportedProgram) else \
        _export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    made = ONNXProgram(ep)
    if f is not None:
        made.save(f)
    return made
