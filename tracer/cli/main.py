"""The process around the command: language, streams, errors to exit codes.

Must not know: commands and options.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tracer.cli import collector, interrupt, language, streams, together
from tracer.cli.exits import INTERRUPTED, PASSED, UNTESTED
from tracer.errors import TracerError
from tracer.texts import MissingText, message

DEBUG_VARIABLE = "TRACER_DEBUG"


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    collector.hold()
    # torch's threads are to sleep where they wait for work: spinning, they would hold the cores that NumPy's need
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    interrupt.listen()
    code = run(sys.argv[1:])
    interrupt.ended()  # from here on a Ctrl-C just ends the process, without a traceback out of its last moments
    if code == INTERRUPTED:
        streams.leave(code)  # what was interrupted in the middle (an import, a kernel) is not asked to end in order
    collector.leave()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run ``trace`` with ``arguments``, tell on standard error whatever goes wrong, and return the exit code."""
    streams.prepare()
    spoken = language.choose(arguments, os.environ, streams.encoding())
    interrupt.leave_imports_by(lambda: streams.leave(_interrupted(spoken)))
    try:
        return _told(arguments, spoken)
    except Exception as fault:  # noqa: BLE001 - the last line: a reader gets a sentence, a developer the traceback
        if interrupt.asked():  # an import that was cut short raises whatever it likes
            return _interrupted(spoken)
        _confess(fault, spoken)
        return UNTESTED
    finally:
        interrupt.leave_imports_by(None)


def _told(arguments: Sequence[str], spoken: str) -> int:
    """What can go wrong without a fault of this tool, told to the reader."""
    try:
        return _alone_or_first(arguments, spoken)
    except TracerError as error:
        if interrupt.asked():  # what was cut short in the middle found half of what it looked for
            return _interrupted(spoken)
        streams.complain(error.message, spoken)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted(spoken)
    except BrokenPipeError:
        streams.silence(sys.stdout)
        return PASSED


def _interrupted(spoken: str) -> int:
    streams.restore_terminal()
    streams.say(message("cli.interrupted").text(spoken))
    return INTERRUPTED


def _alone_or_first(arguments: Sequence[str], spoken: str) -> int:
    """The command; under torchrun an error of it comes out of the first process, and later out of the others."""
    try:
        return _command(arguments, spoken)
    except TracerError:
        if not interrupt.asked():
            together.leave_it_to_the_first(os.environ)
        raise


def _command(arguments: Sequence[str], spoken: str) -> int:
    # Imported here so that a Ctrl-C, or a fault, while the commands load is told like any other.
    import click
    from click.shell_completion import shell_complete

    from tracer.cli.app import COMPLETE_VARIABLE, NAME, ROOT

    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        return shell_complete(ROOT, {"obj": spoken}, NAME, COMPLETE_VARIABLE, instruction)
    if not language.can_carry(streams.encoding(), spoken):
        streams.say(message("cli.encoding", encoding=streams.encoding()).text())
    try:
        with ROOT.make_context(NAME, list(arguments), obj=spoken) as ctx:
            return int(ROOT.invoke(ctx))
    except click.exceptions.Exit as ended:  # --help and --version
        return ended.exit_code


def _confess(fault: Exception, spoken: str) -> None:
    if os.environ.get(DEBUG_VARIABLE):
        import traceback  # only a fault needs it

        streams.say("".join(traceback.format_exception(fault)).rstrip())
    detail = f"{type(fault).__name__}: {fault}"
    try:
        streams.complain(message("cli.fault", detail=detail, variable=DEBUG_VARIABLE), spoken)
    except MissingText as missing:  # a broken installation: no text to say it with
        streams.say(f"tracer: {detail}; {missing}")
