"""Several processes that torchrun started for one command: what all of them have to say is said by the first.

Must not know: what is said.
"""

import time
from collections.abc import Mapping

from tracer.engines.transformers.ranks import ranks_of
from tracer.errors import InputError

# All processes meet a mistake in what was asked for within about this time; torchrun ends the others 0.1 s after one.
SECONDS = 10.0


def leave_it_to_the_first(environ: Mapping[str, str]) -> None:
    """Wait, in every process but rank 0, before an error is told: rank 0 meets the same, tells it, and torchrun ends
    this one meanwhile. Returns where that does not happen: then the error is this process's own, or nobody watches
    over the processes, and it must be told here."""
    try:
        ranks = ranks_of(environ)
    except InputError:  # not started by torchrun: that very sentence may be the one to tell
        return
    if ranks is not None and ranks.rank:
        time.sleep(SECONDS)
