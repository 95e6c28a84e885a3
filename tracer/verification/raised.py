"""What a model's own code raises in one scenario, as a failure of that scenario.

Must not know: how models run.
"""

from tracer.checks.outcome import outcome
from tracer.engines.transformers.frames import is_own, raised_at
from tracer.errors import TracerError
from tracer.records import Status
from tracer.verification.places import Places
from tracer.verification.records import Finding
from tracer.verification.verdict import claim, say

_LONGEST = 200
_NO_MEMORY = "OutOfMemoryError"  # torch's, by whatever path it is reached


def is_finding(error: Exception) -> bool:
    """Return whether ``error`` says something of the model: not what this tool refuses or gets wrong itself, nor that
    memory ran out."""
    if isinstance(error, TracerError | MemoryError) or type(error).__name__ == _NO_MEMORY:
        return False
    return not is_own(error)


def finding(error: Exception, scenario: str, layer: int, places: Places) -> Finding:
    """Return the failure of ``runs`` in ``scenario``, at the innermost expression outside torch that raised."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    check = outcome(
        "runs",
        Status.FAIL,
        claim=claim("runs"),
        measured=say("runs_measured", error=f"{type(error).__name__}: {text}".rstrip(": ")),
        expected=say("runs_expected"),
        tolerance=say("exact"),
        reason=say("runs_why"),
        site=places.at(raised_at(error)),
        figures={"error": type(error).__name__},
    )
    return Finding(scenario, layer, None, check)
