"""Layers that are written in Python, in PyTorch too: C's table has the others."""
from .. import functional as F
from . import _layers


class TripletMarginWithDistanceLoss(_layers._bases["_Loss"]):
    """How much nearer the positive is to the anchor than the negative, by a distance that is
    given."""

    __module__ = f"{__name__.rpartition('.')[0]}.loss"

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        _layers.Module.__init__(self)
        if margin <= 0:
            raise ValueError("TripletMarginWithDistanceLoss: expected margin to be greater than 0, "
                             f"got {margin} instead")
        self.reduction, self.margin, self.swap = reduction, margin, swap
        self.distance_function = distance_function
        if distance_function is None:
            self.distance_function = _layers.layer("PairwiseDistance")()

    def extra_repr(self):
        return ""

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction)


LAYERS = {cls.__name__: cls for cls in (TripletMarginWithDistanceLoss,)}
