"""The process that renders one chat template: reads it as JSON from standard input, writes the text as JSON.

The environment is the one that transformers gives chat templates (filters, globals, whitespace). Must not know: this
project; it imports nothing of it, so that it starts fast.
"""

import contextlib
import json
import sys
from datetime import datetime
from typing import Any, NoReturn

MEMORY = 1 << 29  # bytes of address space
LONGEST_TEXT = 1 << 24  # characters


def main() -> None:
    """Render what standard input holds; an error of the template becomes ``{"fault": …}``."""
    _limit_memory()
    order = json.load(sys.stdin)
    try:
        answer = {"text": render(order["template"], order["variables"])}
    except MemoryError:
        answer = {"fault": "MemoryError"}
    except Exception as fault:  # noqa: BLE001  a template can raise anything; all of it is the template's fault
        answer = {"fault": f"{type(fault).__name__}: {fault}"[:500]}
    json.dump(answer, sys.stdout)


def render(template: str, variables: dict[str, Any]) -> str:
    """Return ``template`` rendered with ``variables``; raises whatever the template raises."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(text: str) -> NoReturn:
        raise jinja2.TemplateError(text)

    def tojson(value: object, ensure_ascii: bool = False, indent: int | None = None, **others: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **others)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    text = environment.from_string(template).render(**variables)
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{len(text)} characters; at most {LONGEST_TEXT} are taken")
    return text


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limit on Windows, or one already lower
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main()
