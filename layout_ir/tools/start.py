"""How a tool starts and ends: imported before anything else, so it imports next to nothing itself."""

from __future__ import annotations

from layout_ir.tools.interrupts import SilentInterrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[Sequence[str] | None], int]


def start(tool: Callable[[], Run], args: Sequence[str] | None) -> int:
    """Runs what `tool` imports on `args` (None: the command line); returns the exit status, 130 after Ctrl-C and 1
    where standard output takes no more."""
    with SilentInterrupts(is_process=args is None):
        run = tool()
        from layout_ir.tools.process import exit_status, standard_streams

    with standard_streams():
        return exit_status(lambda: run(args))
