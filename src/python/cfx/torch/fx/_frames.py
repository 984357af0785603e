"""What the code that asks for something is about to do with it."""
import bisect
import dis


def instruction(frame):
    """(instructions, the number of the one that a frame is at)"""
    instructions = list(dis.get_instructions(frame.f_code))
    return instructions, bisect.bisect_left(instructions, frame.f_lasti, key=lambda i: i.offset)


def is_assert(frame):
    """Whether the truth that a frame asks for is that of an assert statement."""
    instructions, at = instruction(frame)
    if at < len(instructions) and instructions[at].opname in ("TO_BOOL", "UNARY_NOT"):
        at += 1
    if at + 1 >= len(instructions) or "IF_TRUE" not in instructions[at].opname:
        return False
    rest = [i for i in instructions[at + 1:at + 3] if i.opname not in ("CACHE", "NOT_TAKEN")]
    return bool(rest) and (rest[0].opname == "LOAD_ASSERTION_ERROR"
                           or rest[0].argval == "AssertionError")
