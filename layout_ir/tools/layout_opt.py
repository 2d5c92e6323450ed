"""`layout-opt`: read a program, run passes, print it.

This module only starts the tool: the driver imports xDSL, which takes long enough that Ctrl-C may come meanwhile.
"""

from __future__ import annotations

import sys

from layout_ir.tools.interrupts import SilentInterrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool on `args` (default: the command line); returns the exit status."""
    with SilentInterrupts(is_process=args is None):
        from layout_ir.tools.driver import run
        from layout_ir.tools.process import quiet_broken_pipe, standard_streams

    status = 1
    with standard_streams(), quiet_broken_pipe():
        try:
            status = run(args)
        except KeyboardInterrupt:
            status = 130
    return status


if __name__ == "__main__":
    sys.exit(main())
