"""Sequences of different lengths in one tensor."""
import collections

import cfx

PackedSequence = collections.namedtuple(
    "PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """A tensor of all sequences, filled up to the longest."""
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        fill = s.new_full((longest - s.size(0), *s.shape[1:]), padding_value)
        rows.append(cfx.cat([s, fill] if padding_side == "right" else [fill, s]))
    return cfx.stack(rows, 0 if batch_first else 1)
