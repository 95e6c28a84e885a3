"""What the file of a saved trace calls things, the same for writing and reading.

A saved trace, format 1, is a safetensors file. Its tensors are the captured ones under their own names, and three
more: ``kernel.output``, ``kernel.lse`` (absent where the kernel gave none) and ``effects.eager``. Its metadata has
``format``, ``written_by`` and ``trace``: one JSON object with all else of the record. There, places are entries of the
table ``sites``; a sentence has its id, the values that fill it, and its text in every language; loose values that JSON
cannot hold are objects with one entry (``float``, ``tuple``, ``mapping``, ``message``). Must not know: how it is done.
"""

import re

FORMAT_NAME = "trace-file"
FORMAT_VERSION = 1
FORMAT = f"{FORMAT_NAME}/{FORMAT_VERSION}"
ANY_FORMAT = re.compile(rf"{FORMAT_NAME}/([1-9][0-9]{{0,5}})")

# Tensors beside the captures, whose names have no dot.
KERNEL_OUTPUT = "kernel.output"
KERNEL_LSE = "kernel.lse"
EAGER = "effects.eager"

# The entries of the metadata.
FORMAT_KEY, WRITER_KEY, TRACE_KEY = "format", "written_by", "trace"
