"""Layouts chosen by prices that are measured while they are chosen: of the library that will run the network.

    li.optimize(module, "onednn", measure="deciding", measure_seconds=10)

What is measured is kept in the user's cache (`price_table.prices_path`), so that the next network finds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from layout_ir.api.measure_settings import MEASURE_SECONDS, Measure, check_measure
from layout_ir.argument_checks import check_program
from layout_ir.diagnostics import Diagnostic, Location, Severity, emit
from layout_ir.errors import LayoutError, public
from layout_ir.files import write_result
from layout_ir.forking import loading
from layout_ir.passes import optimize_pipeline
from layout_ir.passes.layout_pass import errors_of_pass
from layout_ir.passes.optimize_pipeline import LayoutOptimizePass
from layout_ir.passes.propagate import check_arguments
from layout_ir.passes.selection.costs.cost_table import MEASURED, costs_given
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts, costs_of
from layout_ir.passes.selection.costs.price_table import (
    MOST_BYTES,
    PriceSource,
    PriceTable,
    prices_path,
    read_prices,
)
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.translation.deciding_prices import Answers, Progress, Settled, settle
from layout_ir.passes.selection.translation.from_ir import build, is_open
from layout_ir.passes.selection.translation.priced_selection import PricedSelection

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.passes.selection.costs.cost_model import CostModel
    from layout_ir.passes.selection.costs.price_keys import PriceKey
    from layout_ir.passes.selection.costs.price_table import Price
    from layout_ir.passes.selection.options.conv_kernels import Target
    from layout_ir.passes.selection.translation.priced_selection import Question
    from layout_ir.selection.solver.selection_problem import Solution

_REFITS = 4
"""How often the model is fitted again at most: a fit that says new things of what was not measured may let other prices
decide, two or three times."""


@public
def optimize(
    module: ModuleOp,
    target: str | Target = "host",
    solver: str = "exact",
    costs: CostModel | str | os.PathLike[str] | None = None,
    *,
    time_limit: float | None = None,
    report: str | None = None,
    attach: bool = False,
    measure: Measure = "off",
    measure_seconds: float = MEASURE_SECONDS,
    threads: int | None = None,
) -> Solution | None:
    """Chooses the layouts of `module` in place and folds its reorders; returns the selection, or None where nothing was
    open.

    `target` is a Target or the name of one. `costs` replace those that it brings along: a CostModel, or the path of a
    cost table or of measured prices, or a name that `layout-ir optimize --costs` takes, such as "calibrated".
    `time_limit` (seconds) ends the search, before which formats spread from op to op for half of it at most; `report`
    names a file for the certificate, and with `attach` the module carries it. With `measure`, prices are measured
    first, by oneDNN on `threads` threads (None: 1) and for `measure_seconds` at most: those that decide, or all. Of
    measured prices in a file, `threads` says which are meant.

    Raises LayoutError for arguments that are wrong for any program, as an unknown target or solver, or a file of costs
    that cannot be read, PassError where an op cannot be given a layout, and LayoutError where prices are to be measured
    and oneDNN is not installed.
    """
    check_program(module)
    check_arguments(solver, time_limit, report, attach)
    check_measure(measure, measure_seconds, 1 if threads is None else threads)
    if threads is not None and measure == "off" and not isinstance(costs, str | os.PathLike):
        raise LayoutError(
            f"threads = {threads} says on how many threads prices are measured, and none are: give measure='deciding' "
            "or 'all', or costs='measured' or the path of measured prices"
        )
    target, costs = find_target(target), costs_given(costs, threads=threads)
    if measure != "off":
        costs = measured_costs(
            module, target, costs, measure, seconds=measure_seconds, threads=threads or 1
        ).costs
    return optimize_pipeline.optimize(
        module, target, solver, costs, time_limit=time_limit, report=report, attach=attach
    )


@dataclass(frozen=True, eq=False)
class Measurement:
    """Costs that were measured for a program, and what was measured. `settled` is None where nothing was open."""

    costs: MeasuredCosts
    settled: Settled | None


def measured_costs(
    module: ModuleOp,
    target: str | Target,
    costs: CostModel | None = None,
    measure: Measure = "deciding",
    *,
    seconds: float = MEASURE_SECONDS,
    threads: int = 1,
    clock: Callable[[], float] = monotonic,
    progress: Progress = lambda done, of: None,
    answers: Answers | None = None,
    keep: bool = True,
) -> Measurement:
    """The costs of `module`, which stays as it is, after its prices were measured here; `keep`: in the cache as well.

    `costs` are prices of the same source to begin with, or None for those of the cache. `answers` measures, in place of
    the installed oneDNN. Raises LayoutError where `costs` are others, or oneDNN is not installed.
    """
    with loading:
        from layout_ir.backends.onednn.library import library
        from layout_ir.backends.onednn.op_timing import measured, price_source
        from layout_ir.passes.selection.costs.price_model import fitted_model  # brings NumPy

    found = library()
    source = price_source(found, threads)
    own = _own_costs(costs, source)

    def ask(questions: Sequence[tuple[PriceKey, Question]]) -> Iterator[tuple[PriceKey, Price | None]]:
        return measured(questions, found, threads)

    settled: Settled | None = None
    if is_open(module):
        with errors_of_pass(LayoutOptimizePass.name, module):
            priced = PricedSelection(build(module, find_target(target), own), own)
            end = clock() + seconds
            settled = Settled(0, 0, 0, False)
            # The model is fitted to the prices that came out, so that a file of these says all of the costs.
            for _ in range(_REFITS):
                more = settle(
                    priced,
                    answers or ask,
                    max(end - clock(), 0.0),
                    everything=measure == "all",
                    clock=clock,
                    progress=progress,
                )
                settled = settled.then(more)
                own.model = fitted_model(own.prices)
                if not more.measured or clock() >= end:
                    break
    if keep and settled is not None and settled.measured:
        keep_prices(PriceTable({source: own.prices}))
    return Measurement(own, settled)


def _own_costs(costs: CostModel | None, source: PriceSource) -> MeasuredCosts:
    if isinstance(costs, MeasuredCosts):
        if costs.of_source != source:
            raise LayoutError(
                f"the costs are prices of {costs.of_source}, and measured here are those of {source}: leave one out"
            )
        return costs
    if costs is not None:
        raise LayoutError(
            "what is measured are prices in nanoseconds, which do not go with a cost model of another kind: "
            "leave the costs out"
        )
    prices = dict(kept_prices().of(source))
    return costs_of(prices, source, MEASURED)


# The cache ------------------------------------------------------------------------------------------------------------


def kept_prices() -> PriceTable:
    """The prices in the user's cache; none, with a warning that says why, where they cannot be used."""
    path = prices_path()
    try:
        return read_prices(str(path))
    except FileNotFoundError:
        return PriceTable()
    except (OSError, LayoutError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        message = f"{reason}; the prices are measured again"
        emit(Diagnostic(Severity.WARNING, message, Location(str(path))))
        return PriceTable()


def keep_prices(table: PriceTable) -> None:
    """Adds a table to the user's cache, as far as that can be written; a warning says where it cannot."""
    path = prices_path()
    whole = kept_prices()
    whole.merge(table)
    text = whole.text()
    if len(text) > MOST_BYTES:  # of releases that are gone
        text = table.text()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_result(text, str(path))
    except OSError as error:
        message = f"the prices are not kept: {error.strerror or error}"
        emit(Diagnostic(Severity.WARNING, message, Location(str(path))))
