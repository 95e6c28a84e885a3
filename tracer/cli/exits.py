"""The exit codes, which a script can act on.

    0    no check failed, and at least one passed
    1    a check failed
    2    bad usage or bad input
    3    not supported here, or nothing could be tested; also a fault of this tool itself, which has tested nothing then
    130  interrupted

A trace and an error each know their own code. Must not know: what leads to them.
"""

PASSED = 0
FAILED = 1
UNTESTED = 3
INTERRUPTED = 130
ALL = (0, 1, 2, 3, 130)
