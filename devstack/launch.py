"""Turn into another program that the kernel kills when its parent ends, even by kill -9.

It is run as a script with nothing but the standard library, and keeps its pid.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Read `PARENT_PID PROGRAM ARGUMENT…` from the command line and become that program."""
    parent, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):  # it ended before the signal was set
        sys.exit("the parent has ended")
    os.execvp(command[0], command)  # noqa: S606 - the caller's own command, without a shell


if __name__ == "__main__":
    main()
