"""Put a model through the scenarios and judge every watched attention call.

Must not know: command lines, checkpoints, how results are shown.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tracer import memory
from tracer.capture.turn import turn
from tracer.engines.arrays import to_array
from tracer.engines.transformers import probes
from tracer.engines.transformers.calls import EVERYTHING, Call
from tracer.engines.transformers.live import Inputs, Live
from tracer.engines.transformers.observed import AttentionSeen
from tracer.engines.transformers.roles import roles
from tracer.engines.transformers.seeing import seen
from tracer.errors import Unsupported
from tracer.maths.threads import one_thread_a_product
from tracer.source.files import SourceFile
from tracer.texts import Message
from tracer.verification import catalogue, gaps, raised, scenarios
from tracer.verification.behind import Behind
from tracer.verification.case import Case
from tracer.verification.claims import caches, finite, runs, sight
from tracer.verification.gaps import Gap
from tracer.verification.places import Places
from tracer.verification.probing import Plan, Probed, changes, probe
from tracer.verification.records import Finding, Window
from tracer.verification.scenarios import Scenario, Step
from tracer.verification.verdict import say, unsteady

Progress = Callable[[int, int], None]
# Outside the plain scenario this many heads of a layer are set against the reference, other ones in each layer; who
# sees whom is read for all.
_FEWEST_HEADS, _HEADS = 2, 4


@dataclass(frozen=True)
class Examination:
    """What to look at: layers, heads, token ids, the id used as padding; ``only`` names scenarios (None: all)."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    ids: tuple[int, ...]
    pad: int
    only: tuple[str, ...] | None = None
    thorough: bool = False
    progress: Progress | None = None


@dataclass(frozen=True)
class Examined:
    """All findings, the scenarios that were run, the window each layer showed, and seconds: of everything, and of one
    plain forward pass."""

    findings: tuple[Finding, ...]
    scenarios: tuple[str, ...]
    windows: tuple[Window, ...]
    seconds: float
    plain_seconds: float


def examine(live: Live, kind: str, wanted: Examination, overlay: Mapping[str, SourceFile] | None = None) -> Examined:
    """Return every finding about ``live``; ``kind`` names the kernel it runs on; ``overlay`` has sources that stand in
    for files, by their paths.

    Raises InputError, before anything runs, where that would take more memory than there is; Unsupported where another
    thread traces or verifies, and where no attention ran at all. What the model's own code raises in the plain scenario
    comes through, with a note.
    """
    needed = memory.verification_needed(
        live.facts(min(wanted.layers)),
        tokens=len(wanted.ids),
        layers=len(wanted.layers),
        dtype=live.dtype,
        kernel=kind,
        thorough=wanted.thorough,
    )
    memory.check(needed, memory.limit(), len(wanted.ids), "verify.memory")
    names = scenarios.DEFAULT if wanted.only is None else wanted.only
    made = [one for name in names if (one := scenarios.make(name, wanted.ids, wanted.pad)) is not None]
    started = time.perf_counter()
    # The judges' products are small, and come between those of the model, whose own calls and their repetitions all run
    # inside, so that they run alike.
    with turn(), one_thread_a_product(), Behind() as behind:
        work = _Work(live, kind, wanted, overlay or {}, behind, total=_total(made, wanted))
        for scenario in made:
            work.run(scenario)
    if not work.came:
        raise Unsupported("verify.no_attention_ran", layer=min(wanted.layers))
    return Examined(
        findings=(*work.findings, *gaps.findings(work.gaps, work.findings, lambda i: live.facts(i).window is not None)),
        scenarios=tuple(dict.fromkeys(name for scenario in made for name in scenario.names)),
        windows=tuple(work.windows),
        seconds=time.perf_counter() - started,
        plain_seconds=work.plain_seconds,
    )


def _total(made: Sequence[Scenario], wanted: Examination) -> int:
    passes = sum(len(scenario.steps) + (scenario.id == "plain") for scenario in made)
    changed = sum(len(changes(step, wanted.thorough)) for scenario in made for step in scenario.steps if step.judged)
    return (passes + changed) * len(wanted.layers)


@dataclass
class _Work:
    live: Live
    kind: str
    wanted: Examination
    overlay: Mapping[str, SourceFile]
    behind: Behind
    total: int
    places: dict[int, Places] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    plain: runs.PlainRun = field(default_factory=runs.PlainRun)
    unsteady: set[int] = field(default_factory=set)
    made_wrong: set[int] = field(default_factory=set)  # layers whose keys or values are wrong without a cache already
    spread: finite.Spread = field(default_factory=finite.Spread)
    plain_seconds: float = 0.0
    judging: float = 0.0
    came: set[tuple[str, int, int]] = field(default_factory=set)  # scenario, pass and layer of the calls that were seen
    gaps: list[Gap] = field(default_factory=list)
    _done: int = 0

    def run(self, scenario: Scenario) -> None:
        """Run one scenario, with what belongs to it."""
        cache = self.live.new_cache() if scenario.cached else None
        rows = caches.CacheRows()
        self.spread.anew()
        for number, step in enumerate(scenario.steps):

            def judge(call: Call, number: int = number, step: Step = step) -> None:
                held = 0 if cache is None else self.live.held(cache, call.layer)
                name = scenario.name_of(step)
                self.came.add((name, number, call.layer))
                self._judge(call, replace(scenario, id=name), number, step, rows, held)

            try:
                self._forward(step, judge, cache)
                self._missed(scenario, number, say("call_hidden"))
                if scenario.id == "plain":
                    self._changed(scenario)
            except Exception as error:
                if not self._is_failure(error, scenario, number):
                    raise
                return

    def _is_failure(self, error: Exception, scenario: Scenario, number: int) -> bool:
        """Keep what the model's own code raised as a failure of that scenario, where the plain one went well; else
        return False, with a note in it on where that was."""
        name = scenario.name_of(scenario.steps[number])
        if error is self.behind.fault or not raised.is_finding(error):
            return False
        if scenario.id == "plain" or not any(came == "plain" for came, _, _ in self.came):
            error.add_note(say("raised_in", scenario=name, which=say(f"scenario_{name}")).text())
            return False
        self.behind.finish()
        first = min(self.wanted.layers)
        for n, step in enumerate(scenario.steps[number:], number):
            if step.judged:
                name = scenario.name_of(step)
                self._keep([raised.finding(error, name, first, self._places_of(first))])
                self._missed(scenario, n, say("raised_before", error=type(error).__name__))
        return True

    def _missed(self, scenario: Scenario, number: int, reason: Message) -> None:
        """Note which layers' calls did not come in one pass."""
        step = scenario.steps[number]
        if step.judged:
            name = scenario.name_of(step)
            missing = [layer for layer in self.wanted.layers if (name, number, layer) not in self.came]
            self.gaps += [Gap(name, layer, reason) for layer in missing]

    def _forward(
        self,
        step: Step,
        consumer: Callable[[Call], None],
        cache: object = None,
        keep: frozenset[str] = EVERYTHING,
    ) -> None:
        inputs = Inputs(
            ids=step.ids,
            mask=step.real.astype(np.int64) if step.mask else None,
            positions=step.positions if step.give_positions else None,
            starts=step.starts,
        )
        with self.live.watched(set(self.wanted.layers), consumer, keep):
            self.live.forward(inputs, cache)
            self.behind.finish()

    def _judge(
        self, call: Call, scenario: Scenario, number: int, step: Step, rows: caches.CacheRows, held: int
    ) -> None:
        plain = scenario.id == "plain"
        record = seen(call)
        spoiled = self.spread.reaching(record, step)
        if spoiled is not None:
            self._spoiled(scenario, step, record, spoiled)
            return
        heads = self.wanted.heads if plain or self.wanted.thorough else self._some(call.layer)
        case = self._case(scenario, step, record, self._probed(call, record, step, heads, plain), heads)
        case.hold()  # the model goes on while it is judged
        if plain:
            self.plain.keep(case)

        def told() -> list[Finding]:
            cached = rows.check(case, call.layer in self.made_wrong, held) if scenario.cached else []
            return [*cached, *self._told(case, number)]

        self.behind.begin(told, lambda found: self._take(case, found))  # the model goes on meanwhile

    def _probed(self, call: Call, record: AttentionSeen, step: Step, heads: tuple[int, ...], plain: bool) -> Probed:
        """Return what probing one call gave: nothing for a pass that only fills a cache."""
        if not step.judged:
            return Probed(True)
        plan = Plan(heads, self.wanted.thorough, self._advance)
        # what is random on a cache alone shows in no other pass
        steady = not step.past and call.layer in self.plain.cases and call.layer not in self.unsteady
        steady = steady and not _drops(record)
        probed = probe(call, record, step, self.live.facts(call.layer), plan, plain, steady)
        if not probed.repeats:
            self.unsteady.add(call.layer)
        return probed

    def _told(self, case: Case, number: int) -> list[Finding]:
        """Return what the claims say of one call, in pass ``number`` of its scenario. They look at nothing but its
        record, the places, and what the plain scenario left."""
        plain = case.scenario.id == "plain"
        found: list[Finding] = []
        if case.step.judged:
            for claims in (*catalogue.EVERYWHERE, *(catalogue.ONCE if plain else ())):
                found += claims(case)
        same = None if plain else runs.same_as_plain(case, self.plain, number)
        return found if same is None else [*found, same]

    def _take(self, case: Case, found: list[Finding]) -> None:
        """Keep what was said of one call, and of the plain scenario what others are to know of it."""
        facts = case.facts
        if case.scenario.id == "plain":
            self.windows.append(Window(case.layer, facts.layer_type, facts.window, sight.window_of(case)))
            if any(caches.spoils(one) for one in found):
                self.made_wrong.add(case.layer)
            if case.layer == min(self.wanted.layers):
                found += runs.kernel_shapes(case, self._direct(case))
        self._keep(found)
        self._advance()

    def _some(self, layer: int) -> tuple[int, ...]:
        """Return the heads of a layer that are looked at outside the plain scenario."""
        kind = self.live.facts(layer).layer_type
        alike = [other for other in self.wanted.layers if self.live.facts(other).layer_type == kind]
        return some_heads(self.wanted.heads, alike, alike.index(layer))

    def _spoiled(self, scenario: Scenario, step: Step, record: AttentionSeen, spoiled: finite.Spoiled) -> None:
        """Say that a layer's numbers are not finite, and nothing else of it."""
        self.behind.finish()
        if step.judged:
            case = self._case(scenario, step, record, Probed(True), self.wanted.heads)
            self._keep(finite.claims(case, spoiled))
            self.gaps.append(Gap(scenario.id, record.layer, finite.reason(spoiled)))
            self._advance(len(changes(step, self.wanted.thorough)))
        self._advance()

    def _case(
        self, scenario: Scenario, step: Step, record: AttentionSeen, probed: Probed, heads: tuple[int, ...]
    ) -> Case:
        return Case(
            scenario=scenario,
            step=step,
            facts=self.live.facts(record.layer),
            dtype=self.live.dtype,
            kind=self.kind,
            heads=heads,
            every_head=self.wanted.heads,
            seen=record,
            probed=probed,
            places=self._places_of(record.layer),
            thorough=self.wanted.thorough,
        )

    def _places_of(self, layer: int) -> Places:
        """Return the places in the code that a layer runs; layers of the same functions share them."""
        if layer not in self.places:
            found = roles(self.live, layer)
            shared = (places for places in self.places.values() if places.roles == found)
            self.places[layer] = next(shared, None) or Places(found, self.overlay)
        return self.places[layer]

    def _keep(self, found: Sequence[Finding]) -> None:
        """Keep findings; where a layer's call does not repeat, nothing that rests on repetition can have failed."""
        self.findings += [unsteady(one, self.unsteady) for one in found]

    def _changed(self, scenario: Scenario) -> None:
        """Run the plain prompt with its last token changed, and look at every layer's earlier rows."""
        (step,) = scenario.steps
        ids = step.ids.copy()
        if ids.shape[1] < 2:
            return
        last = ids.shape[1] - 1
        ids[0, last] = next(int(id) for id in (*ids[0], ids[0, last] + 1, 0) if id != ids[0, last])
        other = Step(ids, step.positions, step.real)

        def judge(call: Call) -> None:
            started = time.perf_counter()
            if call.layer in self.plain.cases:
                self._keep([runs.model_causal(self.plain.cases[call.layer], to_array(call.output), last)])
            self._advance()
            self.judging += time.perf_counter() - started

        started, judging = time.perf_counter(), self.judging
        self._forward(other, judge, keep=frozenset())
        self.plain_seconds = time.perf_counter() - started - (self.judging - judging)

    def _direct(self, case: Case) -> runs.Direct | None:
        kernel, interface = self.live.kernel, case.interface
        if kernel is None or kernel.varlen is None or interface is None:
            return None
        varlen = kernel.varlen
        return lambda tq, tk: probes.direct(varlen, interface.query[0], interface.key[0], tq, tk, self.live.device)

    def _advance(self, passes: int = 1) -> None:
        self._done += passes
        if self.wanted.progress is not None:
            self.wanted.progress(self._done, self.total)


def _drops(record: AttentionSeen) -> bool:
    """Return whether dropout took part in the call itself."""
    kernel, interface = record.kernel, record.interface
    return (kernel is not None and kernel.dropout > 0) or (interface is not None and interface.dropped > 0)


def some_heads(heads: Sequence[int], layers: Sequence[int], place: int) -> tuple[int, ...]:
    """Return a few of ``heads`` for the layer at ``place`` of ``layers``, which are alike: what padding, packing and a
    cache do is the same for all heads.

    The more layers there are, the fewer heads of each, but all come up about twice; those of one layer lie apart.
    """
    count = max(_FEWEST_HEADS, min(_HEADS, -(-2 * len(heads) // len(layers))))
    if len(heads) <= count:
        return tuple(heads)
    step = next(n for n in range(round(len(heads) * 0.618), 0, -1) if math.gcd(n, len(heads)) == 1)
    return tuple(sorted(heads[(place * count + n) * step % len(heads)] for n in range(count)))
