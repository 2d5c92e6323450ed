"""`layout-opt`: read a program, run passes, print it.

This module only starts the tool: the driver imports xDSL, which takes long enough that Ctrl-C may come meanwhile.
"""

from __future__ import annotations

import sys

from layout_ir.tools.start import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from layout_ir.tools.start import Run


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool on `args` (default: the command line); returns the exit status."""
    return start(_tool, args)


def _tool() -> Run:
    from layout_ir.tools.driver import run

    return run


if __name__ == "__main__":
    sys.exit(main())
