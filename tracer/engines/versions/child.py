"""What the process of another version does: read what is asked for, trace, save each layer.

Must not know: which version it is, who asked.
"""

import json
import sys
from pathlib import Path

from tracer.errors import TracerError


def main() -> None:
    """Trace what standard input (JSON) asks for; a sentence on standard error and the error's exit code where not."""
    from tracer import pipeline
    from tracer.result import look_at
    from tracer.saved.write import save

    asked = json.load(sys.stdin)
    folder, checkpoint = Path(asked.pop("folder")), asked.pop("checkpoint")
    try:
        for trace in pipeline.trace_layers(checkpoint, **asked):
            save(look_at(trace, asked["head"]), folder / f"{trace.request.layer}.safetensors")
    except TracerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
