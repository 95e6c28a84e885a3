"""What the file of a saved trace calls things, the same for writing and reading.

Must not know: how either is done.
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
