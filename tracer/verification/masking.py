"""Where a mask goes wrong on its way from the model to the attention function.

Must not know: claims, wording, torch.
"""

import numpy as np

from tracer.records import Site
from tracer.verification.case import Case

# Added to a score, less than this leaves nothing of a weight.
_HIDES = -1e3


def mask_place(case: Case) -> Site | None:
    """Return the expression that gives the attention function a wrong mask, or none where the module has one; None
    where the mask is not what is wrong, or cannot be seen."""
    interface, places = case.interface, case.places
    if interface is None:
        return None
    handed = places.site("causal.mask") or places.at(interface.place)
    if interface.mask is None:
        return handed if case.seen.masked else None
    if _right(case) is not False:
        return None
    if not interface.same_mask:
        return handed
    return places.site("causal.made" if case.facts.window is None else "window.mask") or handed


def _right(case: Case) -> bool | None:
    """Return whether the mask hides, from the tokens that count, exactly the keys it should; None where it is not a
    mask of scores."""
    interface = case.interface
    mask = interface.mask if interface is not None else None
    batch, length = case.step.ids.shape
    if mask is None or len(mask.shape) != 4 or mask.shape[2:] != (length, case.keys):
        return None
    seen = mask.bits if mask.dtype == "BOOL" else mask.float64() > _HIDES
    for row in range(batch):
        visible = case.visibility(row).rows(0, length)[case.rows[row]]
        given = seen[min(row, len(seen) - 1)][:, case.rows[row]]
        if not np.array_equal(given, np.broadcast_to(visible, given.shape)):
            return False
    return True
