"""The errors of torch.export, those that PyTorch has in torch._dynamo.exc."""
import enum


class UserErrorType(enum.Enum):
    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class TorchDynamoException(RuntimeError):
    pass


class Unsupported(TorchDynamoException):
    pass


class UserError(Unsupported):
    """A mistake of the caller's."""

    def __init__(self, error_type, msg, case_name=None):
        if not isinstance(error_type, UserErrorType):
            raise AssertionError(f"expected error_type to be UserErrorType, got {type(error_type)}")
        if case_name is not None:
            msg += " " if msg.endswith(".") else "\n"
            msg += ("For more information about this error, see: https://pytorch.org/docs/main/"
                    "generated/exportdb/index.html#" + case_name.replace("_", "-"))
        super().__init__(msg)
        self.error_type = error_type
        self.message = self.msg = msg


class ConstraintViolationError(UserError):
    """A size of the example is not what was said of it. PyTorch wraps it in a UserError on some
    ways, and does not on others: who waits for either gets it."""
