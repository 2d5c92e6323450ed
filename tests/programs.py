"""Programs from text, with all of xDSL's dialects and ours, and the targets that they are optimized for."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from layout_ir.registry import DIALECTS

TARGETS = ("blocked8", "blocked16", "channels-last", "onednn", "htp", "avx2", "avx512")
"""Targets whose choices are the same on every machine, unlike those of `host`."""


def parse(text: str, *, verify: bool = True) -> ModuleOp:
    """The module of an MLIR text, read by xDSL's own parser, and verified unless told otherwise."""
    context = Context()
    for name, load in {**get_all_dialects(), **DIALECTS}.items():
        context.register_dialect(name, load)
    module = Parser(context, text).parse_module()
    if verify:
        module.verify()
    return module
