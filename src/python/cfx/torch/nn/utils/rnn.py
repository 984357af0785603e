"""Sequences of different lengths in one tensor."""
import typing

import cfx
from cfx._functions import function


class PackedSequence(typing.NamedTuple):
    """The steps of sequences, those of one time behind each other, and how many each time has."""

    data: typing.Any
    batch_sizes: typing.Any
    sorted_indices: typing.Any = None
    unsorted_indices: typing.Any = None


def _call(name, *args):
    return function(f"torch.nn.utils.rnn.{name}", __name__)(*args)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    return PackedSequence(*_call("pack_padded_sequence", input, lengths, batch_first,
                                 enforce_sorted))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    return _call("pad_packed_sequence", tuple(sequence), batch_first, padding_value, total_length)


def pack_sequence(sequences, enforce_sorted=True):
    return PackedSequence(*_call("pack_sequence", list(sequences), enforce_sorted))


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    return list(_call("unpad_sequence", padded_sequences, lengths, batch_first))


def unpack_sequence(packed_sequences):
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True),
                          batch_first=True)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """A tensor of all sequences, filled up to the longest."""
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        fill = s.new_full((longest - s.size(0), *s.shape[1:]), padding_value)
        rows.append(cfx.cat([s, fill] if padding_side == "right" else [fill, s]))
    return cfx.stack(rows, 0 if batch_first else 1)
