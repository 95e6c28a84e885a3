"""Does a token see only itself and earlier ones: as the kernel was told, and by effect?

A flag is read and told, but effect decides: with a padding mask a right model passes False and a mask.
Must not know: how numbers are shown.
"""

import numpy as np

from tracer.checks.outcome import Figure, outcome, overflow, say
from tracer.checks.subject import Subject
from tracer.maths.visibility import Bools
from tracer.records import Check, Status
from tracer.texts import Listing, Message


def flag(subject: Subject) -> Check:
    """Return ``causal.flag``: the kernel is told to hide later tokens, or a mask has that effect."""
    told = subject.trace.causal.value
    by_effect = effect(subject).status
    if told is True:
        status, reason = Status.PASS, say("causal_flag_told")
    else:
        status = by_effect
        reason = say(f"causal_flag_{by_effect.value}")
    hops = subject.trace.causal.hops
    return outcome(
        "causal.flag",
        status,
        measured=say("causal_flag_absent") if told is None else say("causal_flag_measured", value=str(told)),
        expected=say("causal_flag_expected"),
        tolerance=say("none"),
        reason=reason,
        site=hops[-1].site if hops else subject.trace.kernel.site,
        figures={"value": told, "by_effect": by_effect.value},
    )


def effect(subject: Subject) -> Check:
    """Return ``causal.effect``: negating one position's hidden state moved no earlier row, not by one bit.

    A row that the eager path's overflow can have reached shows nothing, moved or not: a hidden score that overflows
    one way takes the row with it, and negated it does not. So too with a hidden key that is not finite.
    """
    tried = [entry for entry in subject.trace.effects.changed if entry[0] > 0]
    lost = subject.overflowed_anywhere
    moved = [(token, row) for token, row, _ in tried if row is not None and not lost[row]]
    leaks = [(token, row) for token, row in moved if not subject.reached_anywhere[row]]
    # A row that is not finite because of what came in shows nothing, though other heads of the module may have moved.
    known: Bools = np.asarray(np.isfinite(subject.head.output).all(axis=1)) & ~subject.reached
    told = [token for token, row, own in tried if row is None and own and known[token]]
    figures: dict[str, Figure] = {"tried": len(tried), "leaks": len(leaks)}
    measured = say(
        "causal_effect_measured", tokens=_numbers([subject.position(token) for token, _, _ in tried]), leaks=len(leaks)
    )
    if leaks:
        token, row = (subject.position(place) for place in leaks[0])
        status, reason = Status.FAIL, say("causal_effect_leak", token=token, row=row)
        figures |= {"token": token, "row": row}
    elif tried and lost[: tried[-1][0] + 1].any():
        status, measured = Status.NOT_TESTABLE, say("nothing")
        reason = overflow(int(lost.sum()), subject.dtype)
    elif moved:
        status, measured = Status.NOT_TESTABLE, say("nothing")
        reason = subject.why_reached(int(subject.reached.sum()))
    elif told:
        status, reason = Status.PASS, say("causal_effect_why")
    else:
        status, measured = Status.NOT_TESTABLE, say("nothing")
        reason = _why(subject, bool(known[[token for token, _, _ in tried]].any()))
    return outcome(
        "causal.effect",
        status,
        measured=measured,
        expected=say("causal_effect_expected"),
        tolerance=say("exact"),
        reason=reason,
        site=subject.trace.kernel.site,
        figures=figures,
    )


def _why(subject: Subject, known: bool) -> Message:
    """Return why nothing was shown; ``known``: whether any row of the negated tokens is finite."""
    if subject.head.visibility.tq < 2:
        return say("causal_effect_cached" if subject.trace.cached else "causal_effect_single")
    if known:
        return say("causal_effect_blind")
    reached = int(subject.reached.sum())
    return subject.why_reached(reached) if reached else subject.undefined


def _numbers(tokens: list[int]) -> Listing:
    shown = map(str, tokens) if len(tokens) <= 6 else (str(tokens[0]), str(tokens[1]), "…", str(tokens[-1]))
    return Listing(shown)
