"""What failed, told as a reviewer would: what is wrong, where, what was measured and expected, what to change.

Must not know: how a verification is made.
"""

from collections.abc import Collection, Sequence

from tracer.names import spans
from tracer.records import Check, Site, Status
from tracer.texts import DEFAULT_LANGUAGE, message
from tracer.verification.catalogue import CONSEQUENCES
from tracer.verification.records import Outcome, Verification
from tracer.verification.verdict import advice, denial

_MOST = 6
_LONGEST = 160


def review(found: Verification, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the text of a failed verification, the likeliest cause first; "" where nothing failed."""
    told_in_full = causes(found)
    if not told_in_full:
        return ""

    def say(name: str, **values: object) -> str:
        return message(f"verify.{name}", **values).text(language)

    checks = {outcome.check.id for outcome in found.outcomes}
    failed = {outcome.check.id for outcome in found.failures}
    parts = [say("review_title", subject=found.subject, failed=len(failed), checks=len(checks))]
    if len(told_in_full) > 1:
        parts.append(say("review_order"))
    for number, (outcome, also) in enumerate(told_in_full[:_MOST], 1):
        parts.append(_one(number, outcome, also, found, language))
    rest = left_over(found, told_in_full[:_MOST])
    if rest:
        parts.append(say("review_more", ids=", ".join(rest)))
    parts += [f"! {warning.text(language)}" for warning in found.warnings]
    return "\n\n".join(parts) + "\n"


def left_over(found: Verification, told: Sequence[tuple[Outcome, list[str]]]) -> list[str]:
    """Return the checks that failed beside those ``told`` (see causes): most likely because of them."""
    ids = {outcome.check.id for outcome, _ in told} | {id for _, also in told for id in also}
    return [id for id in dict.fromkeys(outcome.check.id for outcome in found.failures) if id not in ids]


_SEEN = ("call", "interface", "weights", "projection", "norm", "rope", "reference", "layout", "cache")
_NOT_FINITE = ("tokens", "given", "cache")
# Reasons that lie in the model's own code or numbers, not in this input or this kernel.
_OWN = frozenset(
    (
        "verify.norm_foreign",
        *(f"verify.{name}_hidden" for name in _SEEN),
        *(f"verify.not_finite_{name}" for name in _NOT_FINITE),
    )
)


def unseen(found: Verification, language: str = DEFAULT_LANGUAGE) -> str:
    """Return which checks could not be made because of the model's own code or numbers, and why; "" where all could."""
    told = untested(found, language, _OWN)
    if not told:
        return ""
    count = len({id for ids, _, _ in told for id in ids})
    rows = [_say(language, "unseen_row", ids=ids_told(ids, where), reason=reason) for ids, where, reason in told]
    return "\n".join([_say(language, "unseen_title", subject=found.subject, count=count), *rows]) + "\n"


def untested(
    found: Verification, language: str, reasons: Collection[str] | None = None
) -> list[tuple[list[str], str, str]]:
    """Return what could not be tested: checks, with their layers where other ones were tested; the scenarios, "" where
    that is so in all that have these checks; and why. ``reasons`` by id: for these only."""
    every: dict[tuple[str, str | None], list[str]] = {}
    seen: dict[tuple[str, tuple[str, str | None], str], list[str]] = {}
    for outcome in found.outcomes:
        check = (outcome.check.id, outcome.part)
        every.setdefault(check, []).append(outcome.scenario)
        name = outcome.check.id if outcome.part is None else f"{outcome.check.id} ({outcome.part})"
        whole = outcome.check.status is Status.NOT_TESTABLE and len(outcome.reasons) == 1
        for reason, layers in outcome.reasons:
            if reasons is None or reason.id in reasons:
                part = _say(language, "untested_part", check=name, layers=layers_told(layers, language))
                seen.setdefault((reason.text(language), check, name if whole else part), []).append(outcome.scenario)
    rows: dict[tuple[str, str], list[str]] = {}
    for (why, check, name), scenarios in seen.items():
        names = [_say(language, f"scenario_{id}") for id in scenarios] if set(scenarios) != set(every[check]) else []
        rows.setdefault((why, "; ".join(names)), []).append(name)
    return [(ids, where, why) for (why, where), ids in rows.items()]


def ids_told(ids: Sequence[str], where: str) -> str:
    """Return checks and, where only some scenarios are meant, those."""
    return ", ".join(ids) + (f" · {where}" if where else "")


def _say(language: str, name: str, **values: object) -> str:
    return message(f"verify.{name}", **values).text(language)


# Who sees whom is seen twice: in the weights, and by changing a token. Where the weights are right, yet a change goes
# where it must not, it went there on another way: one of those that mix tokens or heads outside the weights.
_EFFECTS = {f"{kind}.effect": f"{kind}.weights" for kind in ("causal", "padding", "packing")}
_OTHER_WAYS = frozenset({"heads.layout", "heads.values", "output.returned", "projections", "norm.present"})


def causes(found: Verification) -> list[tuple[Outcome, list[str]]]:
    """Return the failures that are told in full, each with the ids of those that point at the same place too.

    What usually follows from other failures is told in full only where nothing else failed, and what surely follows
    from another one never is.
    """
    first: dict[tuple[str, str | None], Outcome] = {}
    for outcome in found.failures:
        first.setdefault((outcome.check.id, outcome.part), outcome)
    surely = _following(found)
    left = [outcome for (id, _), outcome in first.items() if id not in surely]
    roots = [outcome for outcome in left if outcome.check.id not in CONSEQUENCES] or left
    told: dict[object, tuple[Outcome, list[str]]] = {}
    for outcome in roots:
        site = outcome.check.site
        key = (site.path, site.span) if site is not None else outcome.check.id
        if key in told:
            cause, also = told[key]
            if outcome.check.id not in (cause.check.id, *also):
                also.append(outcome.check.id)
        else:
            told[key] = (outcome, [])
    return list(told.values())


# What goes wrong with scores of the usual size goes wrong with large ones, too, whether they overflow or not.
_LARGE = frozenset({"softmax.large", "causal.large"})
_WITHOUT_LARGE = frozenset({"softmax.rows", "softmax.precision", "heads.keys", "heads.values", "kernel.output"})
_ON_A_CACHE = frozenset({"chunk", "decode"})


def _following(found: Verification) -> set[str]:
    """Return the checks that fail because of what another one says."""
    return _blind_effects(found) | _of_large_scores(found) | _of_an_unused_cache(found) | _of_dropout(found)


def _of_dropout(found: Verification) -> set[str]:
    """What is dropped has no weight: those checks of who sees whom that fail by missing weights alone."""
    failed = found.failures
    if not any(outcome.check.id == "dropout.off" for outcome in failed):
        return set()
    kinds: dict[str, set[object]] = {}
    for outcome in failed:
        if "kind" in outcome.check.figures:
            kinds.setdefault(outcome.check.id, set()).add(outcome.check.figures["kind"])
    return {id for id, seen in kinds.items() if seen <= {"missing", "short"}}


def _of_large_scores(found: Verification) -> set[str]:
    plain = {outcome.check.id for outcome in found.failures if outcome.scenario == "plain"}
    return set(_LARGE) if plain & _WITHOUT_LARGE else set()


def _of_an_unused_cache(found: Verification) -> set[str]:
    """A cache that does not grow tells the model that no token came before: positions start anew."""
    seen = {outcome.scenario for outcome in found.failures if outcome.check.id == "rope.positions"}
    rows = [outcome.check.figures for outcome in found.failures if outcome.check.id == "cache.rows"]
    return {"rope.positions"} if seen <= _ON_A_CACHE and any(f.get("held") == 0 for f in rows) else set()


def _blind_effects(found: Verification) -> set[str]:
    """Return the checks by effect that fail because of something else than who sees whom."""
    failed = {outcome.check.id for outcome in found.failures}
    passed = {outcome.check.id for outcome in found.outcomes if outcome.check.status is Status.PASS} - failed
    if not failed & _OTHER_WAYS:
        return set()
    return {effect for effect, weights in _EFFECTS.items() if effect in failed and weights in passed}


def where(outcome: Outcome, found: Verification, language: str) -> str:
    """Return in which scenario, layers and heads an outcome was seen."""
    layers = sorted({layer for layer, _ in outcome.failed} or {outcome.layer})
    heads = sorted({head for _, head in outcome.failed if head is not None})
    every = len(layers) == len(found.layers) and len(layers) > 1
    scenario = message(f"verify.scenario_{outcome.scenario}")
    told = _say(
        language, "where_all" if every else "where_layers", scenario=scenario, layers=layers_told(layers, language)
    )
    if heads and len(heads) < len(found.heads):
        told += _say(language, "where_heads", heads=heads_told(heads, language))
    return told


def layers_told(numbers: Sequence[int], language: str) -> str:
    """Return layers by number: layer 2; layers 0–3, 7."""
    return _say(language, "layers_one" if len(numbers) == 1 else "layers_many", numbers=spans(list(numbers)))


def heads_told(numbers: Sequence[int], language: str) -> str:
    """Return query heads by number: head 2; heads 0–3, 7."""
    return _say(language, "heads_one_of" if len(numbers) == 1 else "heads_many", numbers=spans(list(numbers)))


def _one(number: int, outcome: Outcome, also: list[str], found: Verification, language: str) -> str:
    def say(name: str, **values: object) -> str:
        return message(f"verify.{name}", **values).text(language)

    check = outcome.check
    lines = [f"{number}. {denial(check).text(language)}  [{check.id}]"]
    if check.site is not None:
        lines += [f"   {check.site.place} · {check.site.scope}", f"       {_code(check.site)}"]
    lines += [f"   {say(f'row_{name}')} {text}" for name, text in _rows(check, language)]
    lines.append(f"   {say('row_seen')} {where(outcome, found, language)}")
    lines.append(f"   {say('row_change')} {advice(check).text(language)}")
    if also:
        lines.append(f"   {say('row_also')} {', '.join(also)}")
    return "\n".join(lines)


def _rows(check: Check, language: str) -> list[tuple[str, str]]:
    expected = check.expected.text(language)
    if check.tolerance not in (message("verify.exact"), message("verify.none"), message("checks.exact")):
        expected += f" ({check.tolerance.text(language)})"
    return [
        ("measured", check.measured.text(language)),
        ("expected", expected),
        ("because", check.reason.text(language)),
    ]


def _code(site: Site) -> str:
    """Return the code of a place on one line, cut where it is long."""
    code = " ".join(site.code.split())
    return code if len(code) <= _LONGEST else f"{code[:_LONGEST]} …"
