"""A verification as JSON, format verify/1 (``tracer/schemas/trace-1.schema.json`` says what each entry means).

Must not know: files, terminals. Nothing is computed here.
"""

from typing import Any

from tracer.records import Check, ModelFacts
from tracer.render import json_text, jsonable
from tracer.texts import DEFAULT_LANGUAGE
from tracer.verification.records import Outcome, Verification
from tracer.verification.verdict import advice

FORMAT = "verify/1"


def dumps(found: Verification, language: str = DEFAULT_LANGUAGE) -> str:
    """Return ``to_json`` as text, with a line end."""
    return json_text.dumps(to_json(found, language))


def to_json(found: Verification, language: str = DEFAULT_LANGUAGE) -> dict[str, Any]:
    """Return a verification as JSON values; sentences are in ``language``."""
    facts = found.checkpoint
    return {
        "format": FORMAT,
        "subject": found.subject,
        "request": {
            "layers": list(found.layers),
            "heads": list(found.heads),
            "token_ids": list(found.tokens),
            "scenarios": list(found.scenarios),
            "thorough": found.thorough,
            **{
                name: jsonable.choice(getattr(found, name), language)
                for name in ("engine", "kernel", "device", "dtype")
            },
        },
        "versions": dict(found.versions),
        "checkpoint": None
        if facts is None
        else {
            "name": facts.name,
            "revision": facts.revision,
            "dtype": facts.dtype,
            "config_sha256": facts.config_sha256,
            "headers_sha256": facts.headers_sha256,
            "tied": facts.tied,
        },
        "model": _model(found.model),
        "windows": [
            {
                "layer": window.layer,
                "layer_type": window.layer_type,
                "configured": window.configured,
                "effective": window.effective,
            }
            for window in found.windows
        ],
        "cost": {"seconds": round(found.seconds, 3), "plain_seconds": round(found.plain_seconds, 3)},
        "exit_code": found.exit_code,
        "checks": [_outcome(outcome, language) for outcome in found.outcomes],
        "warnings": [jsonable.sentence(warning, language) for warning in found.warnings],
    }


def _model(model: ModelFacts) -> dict[str, Any]:
    return {
        "layers": model.layers,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "hidden_size": model.hidden_size,
        "max_positions": model.max_positions,
        "norm_eps": jsonable.number(model.norm_eps),
        "rope": jsonable.loose(model.rope),
    }


def _outcome(outcome: Outcome, language: str) -> dict[str, Any]:
    failed = outcome.failed
    return {
        **_check(outcome.check, language),
        "scenario": outcome.scenario,
        "layer": outcome.layer,
        "head": outcome.head,
        "part": outcome.part,
        "tested": outcome.tested,
        "untested_layers": list(outcome.untested),
        "untested_reason": None if outcome.why is None else jsonable.sentence(outcome.why, language),
        "failed": [{"layer": layer, "head": head} for layer, head in failed],
        "change": jsonable.sentence(advice(outcome.check), language) if failed else None,
    }


def _check(check: Check, language: str) -> dict[str, Any]:
    sentences = {name: getattr(check, name) for name in ("claim", "measured", "expected", "tolerance", "reason")}
    told = {name: jsonable.sentence(text, language) for name, text in sentences.items()}
    return {
        "id": check.id,
        "claim": told.pop("claim"),
        "status": check.status.value,
        **told,
        "site": None if check.site is None else jsonable.site(check.site),
        "figures": {name: jsonable.loose(value) for name, value in check.figures.items()},
    }
