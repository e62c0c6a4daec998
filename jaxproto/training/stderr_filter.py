"""Filter of standard error for a process of a run by several processes.

If another process is lost, JAX's coordination service logs and then aborts this process
in C++, with pages of text, and no option prevents it. `install` puts a child process
between this process and its standard error; the child prints one line instead.

The child executes this file alone: only the standard library is imported.
"""

import os
import re
import subprocess
import sys

ABORT = rb"client\.h:\d+\] Terminating process"
NOISE = rb"^[WEI]\d+ .*(coordination_service|grpc)|^Additional GRPC error|^:UNKNOWN:"


def install(line: str):
    """Filters standard error from now on; `line` replaces the text of an abort."""
    command = [sys.executable, "-I", "-S", __file__, line]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert child.stdin is not None
    os.dup2(child.stdin.fileno(), 2)
    child.stdin.close()


def main(line: str):
    """Copies standard input to standard error; prints `line` instead of JAX's abort."""
    for text in sys.stdin.buffer:
        if re.search(ABORT, text):
            sys.stderr.write(line + "\n")
            break
        if not re.search(NOISE, text):
            sys.stderr.buffer.write(text)
            sys.stderr.buffer.flush()
    while sys.stdin.buffer.read(1 << 16):
        pass


if __name__ == "__main__":
    main(sys.argv[1])
