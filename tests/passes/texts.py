"""Programs as text, with all of xDSL's dialects and ours."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from layout_ir.registry import DIALECTS


def parse(text: str) -> ModuleOp:
    """The module that `text` says, verified."""
    context = Context()
    for name, load in {**get_all_dialects(), **DIALECTS}.items():
        context.register_dialect(name, load)
    module = Parser(context, text).parse_module()
    module.verify()
    return module
