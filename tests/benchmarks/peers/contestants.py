"""Who takes part, how each is started, and what each cannot deliver.

Must not know: how anything is measured.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.peers.environments import Environment
from tests.benchmarks.peers.scripts.common import ids

SCRIPTS = Path(__file__).parent / "scripts"
REPOSITORY = Path(__file__).resolve().parents[3]
TOOL = Environment("tracer", ("-e", str(REPOSITORY)))
BY_HAND = Environment("transformers")


@dataclass(frozen=True)
class Job:
    """One piece of work: q, k, v, scale, causal, weights, output of ``head`` of ``layer``, for so many tokens."""

    checkpoint: Path
    tokens: int
    layer: int
    head: int = 2


@dataclass(frozen=True)
class Contestant:
    """One way of doing the work. ``script`` is also what is timed inside a process; ``lacks``: what it cannot give."""

    name: str
    environment: Environment
    script: str
    lacks: str

    def command(self, python: Path, job: Job, repeats: int) -> list[str]:
        """Return the command line that does ``job`` once, and ``repeats`` times more with a clock inside."""
        arguments = [str(job.checkpoint), str(job.tokens), str(job.layer), str(job.head), str(repeats)]
        return [str(python), str(SCRIPTS / f"{self.script}.py"), *arguments]

    def whole(self, python: Path, job: Job) -> list[str]:
        """Return the command line of the whole process: this tool's is its command, with checks and page."""
        if self.script != "tool":
            return self.command(python, job, 0)
        tokens = ",".join(map(str, ids(str(job.checkpoint), job.tokens)))
        where = ["--checkpoint", str(job.checkpoint), "--layer", str(job.layer), "--head", str(job.head)]
        return [str(python), "-m", "tracer", "qwen3", *where, "--tokens", tokens]

    @property
    def lines(self) -> int:
        """How many lines a user writes for it (comments, blank lines and the clock left out)."""
        if self.script == "tool":
            return 1
        text = (SCRIPTS / f"{self.script}.py").read_text(encoding="utf-8")
        if self.script == "hooks_collector":
            return 4 + next(each.lines for each in CONTESTANTS if each.script == "hooks")
        counted, inside = 0, False
        for line in text.splitlines():
            if line.startswith("# --- "):
                inside = line == "# --- user code"
            elif inside and line.strip() and not line.lstrip().startswith("#"):
                counted += 1
        return counted


_NO_PROOF = "no formulas, no proof of scale and causality"
CONTESTANTS = (
    Contestant("trace (this tool)", TOOL, "tool", "–"),
    Contestant(
        "hooks by hand",
        BY_HAND,
        "hooks",
        f"RoPE redone by hand; eager numbers, not those of the kernel in use; causality, places; {_NO_PROOF}",
    ),
    Contestant("hooks by hand, collector held", BY_HAND, "hooks_collector", "the same"),
    Contestant(
        "attention interface by hand",
        BY_HAND,
        "spy",
        f"weights redone by hand; places; {_NO_PROOF}",
    ),
    Contestant(
        "nnsight, `.source` and stop",
        Environment("nnsight", ("nnsight==0.8.1",)),
        "nnsight_stop",
        f"weights redone by hand; lines from the function's start, no columns; {_NO_PROOF}",
    ),
    Contestant(
        "TransformerLens bridge",
        Environment("transformer-lens", ("transformer-lens==4.3.0",)),
        "lens",
        f"its own attention, not the model's code; scale reads −1; causality, places; {_NO_PROOF}",
    ),
    Contestant(
        "torchlens, stop_after",
        Environment("torchlens", ("torchlens==2.36.1",)),
        "torchlens_stop",
        f"weights redone by hand; steps found by the order of operations; where a place ends; {_NO_PROOF}",
    ),
)
