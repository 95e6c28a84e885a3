"""Python's garbage collector, held back while large libraries are imported.

Importing torch and transformers makes millions of objects that live until the end; looking through them again and again
is the largest single cost of the import. Only the command's own ``main`` may hold the collector back: a library that
did so on import would change its user's program. Must not know: what is imported.
"""

import gc


def hold() -> None:
    """Stop collecting until ``release``."""
    gc.disable()


def leave() -> None:
    """Spare the interpreter, which is about to end, a last look through everything that ends with it anyway."""
    gc.freeze()


def release() -> None:
    """Collect again from now on, leaving out all that exists by now. Does nothing where the collector was not held."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
