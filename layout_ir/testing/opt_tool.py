"""An `opt` tool of one's own: `layout-opt` with further dialects and passes.

    main = OptTool("my-opt", Universe(all_dialects={"my": get_my_dialect}, all_passes={"my-pass": get_my_pass}))

`main(args)` is the entry point of a console script, and what a text test names. The tool reads and prints programs with
the dialects of xDSL, of installed packages, of layout-ir and its own, has all their passes, and reports as `layout-opt`
does: places and carets, remarks, `--split-input-file`, `--verify-diagnostics`, `--validate=execute`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe

from layout_ir.api.program_text import context
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.tools.driver import LayoutOptMain, run
from layout_ir.tools.process import exit_status, standard_streams


class OptTool:
    """The tool called `name`, with the dialects, passes and targets of `universe` added to those of `layout-opt`.

    A call takes the arguments of the command line (default: those of the process) and returns the exit status.
    Raises LayoutError where a dialect or pass has a name that is one of layout-ir's.
    """

    def __init__(self, name: str, universe: Universe):
        from layout_ir import registry

        for what, own, known in (
            ("dialect", universe.all_dialects, registry.DIALECTS),
            ("pass", universe.all_passes, registry.PASSES),
        ):
            for clash in own.keys() & known.keys():
                raise LayoutError(
                    f"{name}: {what} '{clash}' is one of layout-ir as well: give it another name"
                )
        self.name = name
        self.universe = universe

    def context(self) -> Context:
        """A context with every dialect that the tool knows, each imported at its first use."""
        ctx = context()
        self._register(ctx)
        return ctx

    def parse(self, text: str, name: str = "<text>") -> ModuleOp:
        """The module of a text, verified, whose ops know their places in `name`.

        Raises xDSL's ParseError and VerifyException where it is no program.
        """
        module = LocatedParser(self.context(), text, name).parse_program(True)
        module.verify()
        return module

    def _register(self, ctx: Context) -> None:
        for dialect, factory in self.universe.all_dialects.items():
            # One that is installed is known already, by the entry point `xdsl.universe`.
            if dialect not in ctx.registered_dialect_names:
                ctx.register_dialect(dialect, factory)

    def __call__(self, args: Sequence[str] | None = None) -> int:
        with standard_streams():
            return exit_status(lambda: run(sys.argv[1:] if args is None else args, self._driver()))

    def _driver(self) -> type[LayoutOptMain]:
        tool, name, universe = self, self.name, self.universe

        class Main(LayoutOptMain):
            program = name

            @classmethod
            def version(cls) -> str:
                return f"{name} ({LayoutOptMain.version()})"

            def register_all_dialects(self) -> None:
                super().register_all_dialects()
                tool._register(self.ctx)

            def register_all_passes(self) -> None:
                super().register_all_passes()
                self.available_passes.update(universe.all_passes)

            def register_all_targets(self) -> None:
                super().register_all_targets()
                self.available_targets.update(universe.all_targets)

            def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
                super().register_all_arguments(arg_parser)
                passes = "\n".join(f"  {one}" for one in universe.all_passes)
                arg_parser.description = f"Read a program, run passes over it, print the result: {name}."
                if passes:
                    arg_parser.epilog = f"passes of {name}:\n{passes}\n\n{arg_parser.epilog or ''}"

        return Main
