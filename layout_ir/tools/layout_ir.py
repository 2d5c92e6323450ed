"""`layout-ir`: commands about layouts and models. This module only starts the tool; `command_line` does the work."""

from __future__ import annotations

import sys

from layout_ir.tools.interrupts import SilentInterrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool on `args` (default: the command line); returns the exit status."""
    with SilentInterrupts(is_process=args is None):
        from layout_ir.tools.command_line import run
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
