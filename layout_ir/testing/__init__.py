"""Text tests and programs to test with, for compilers that use this package.

    InProcessShTest         a lit format that calls tools instead of starting them
    OptTool                 a `my-opt` with your dialects and passes, and all that `layout-opt` checks
    check_diagnostics       `expected-error` comments, for a tool of any other make
    assert_same_program     two programs compute the same, NaN in every pad
    formats, layouts, shapes, programs      hypothesis strategies

Names are loaded on first use: lit (the lit format) and hypothesis (the strategies) come with the extra `testing` and
are imported by those alone.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from layout_ir.testing.in_process import InProcessShTest, stand_ins
    from layout_ir.testing.opt_tool import OptTool
    from layout_ir.testing.same_program import assert_same_program
    from layout_ir.testing.strategies import formats, layouts, programs, shapes
    from layout_ir.tools.expectations import check_diagnostics

_WHERE = {
    "InProcessShTest": "layout_ir.testing.in_process",
    "OptTool": "layout_ir.testing.opt_tool",
    "assert_same_program": "layout_ir.testing.same_program",
    "check_diagnostics": "layout_ir.tools.expectations",
    "formats": "layout_ir.testing.strategies",
    "layouts": "layout_ir.testing.strategies",
    "programs": "layout_ir.testing.strategies",
    "shapes": "layout_ir.testing.strategies",
    "stand_ins": "layout_ir.testing.in_process",
}

_NEEDED = {"hypothesis", "lit"}

__all__ = [
    "InProcessShTest",
    "OptTool",
    "assert_same_program",
    "check_diagnostics",
    "formats",
    "layouts",
    "programs",
    "shapes",
    "stand_ins",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'layout_ir.testing' has no attribute '{name}'")
    try:
        value = getattr(import_module(_WHERE[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        message = f"layout_ir.testing.{name} needs {error.name}: pip install 'layout-ir[testing]'"
        raise ImportError(message) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
