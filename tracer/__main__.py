"""The command ``trace``, also as ``python -m tracer``. Nothing is imported before a Ctrl-C is looked after: the command
itself takes a moment to load, and a reader who stops it then wants no traceback either.

Must not know: anything else.
"""

import os

INTERRUPTED = 130  # the shell's own code for what Ctrl-C has ended


def main() -> None:
    """Run the command line of this process and exit with its code; does not return."""
    try:
        import signal

        before = signal.getsignal(signal.SIGINT)
        if before is signal.default_int_handler:  # a job in the background may have been told to ignore it
            # While the command loads there is nothing to tidy up. A KeyboardInterrupt could get lost there: what is
            # raised inside a callback of Python's import system is printed and forgotten.
            signal.signal(signal.SIGINT, _leave)
        from tracer.cli.main import main as run

        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:  # in the first line, or a second one while the first was told of
        os._exit(INTERRUPTED)


def _leave(_signal: int, _frame: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
