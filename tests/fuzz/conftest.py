"""Hypothesis as it runs here: the same inputs each time, and nothing kept between runs. TRACER_FUZZ_FACTOR multiplies
how many are tried."""

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "tracer",
    derandomize=True,
    database=None,
    deadline=None,  # the machine may be busy; what hangs is stopped after ten seconds
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),  # not to explain: that traces every line
    print_blob=False,
)
settings.load_profile("tracer")


def examples(count: int) -> int:
    """Return how many inputs to try where ``count`` are usual."""
    return max(1, int(count * float(os.environ.get("TRACER_FUZZ_FACTOR", "1"))))
