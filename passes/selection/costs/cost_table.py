"""Costs that a JSON file says, in place of the built-in ones, entry by entry:

    {"unit": "ns",
     "reorder": [{"from": "nchw", "to": "nChw8c", "shape": [1, 64, 56, 56], "cost": 5600}],
     "op": [{"name": "nn.conv", "ins": ["nChw8c", "OIhw8i8o"], "outs": ["nChw8c"], "cost": 90000}],
     "missing": "model"}

Formats are tags or format texts; without `shape` an entry holds for any shape that has none of its own; and
two that say different things of the same are refused. A reorder from a format to itself is what filling its pads
costs. `"missing": "forbid"` makes a reorder that is not listed impossible.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.argument_checks import checked_path
from layout_ir.diagnostics import Diagnostic, Location, PassError, Severity, emit
from layout_ir.errors import LayoutError
from layout_ir.files import read_bounded
from layout_ir.forking import loading
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.calibration import machine_name
from layout_ir.passes.selection.costs.cost_model import (
    CALIBRATED,
    COST_LIMIT,
    SHIPPED,
    CostModel,
    fill_ns,
    reorder_ns,
)
from layout_ir.passes.selection.costs.json_checks import list_at, object_at, unique_keys
from layout_ir.passes.selection.costs.price_table import (
    FORMAT,
    PriceTable,
    chosen_source,
    is_price_table,
    merged,
    prices_path,
    read_prices,
    table_from_json,
)
from layout_ir.selection.solver.selection_problem import FORBIDDEN

MEASURED = "measured"
"""Stands for a file where the prices in the user's cache are meant."""

_MOST_BYTES = 1 << 26
"""Bytes of a cost table at most: half a million entries. Reading one takes ten times as many bytes of memory."""


@dataclass(frozen=True, slots=True)
class _ReorderEntry:
    source: Format
    destination: Format
    shape: tuple[int, ...] | None
    cost: int


@dataclass(frozen=True, slots=True)
class _OpEntry:
    name: str
    ins: tuple[Format, ...]
    outs: tuple[Format, ...]
    cost: int


@dataclass(eq=False)
class TableCosts(CostModel):
    """Costs from a table; what it does not list comes from the built-in model or is forbidden."""

    reorders: tuple[_ReorderEntry, ...] = ()
    ops: tuple[_OpEntry, ...] = ()
    forbid: bool = False
    unit: str = "ns"
    _found: dict[object, int] = field(default_factory=dict[object, int], repr=False)

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """The cost of the first entry of these Formats, or of the built-in model, or FORBIDDEN; 0 for the same
        store."""
        if source.same_store(destination):
            return 0
        key = (source, destination, dtype)
        if key not in self._found:
            self._found[key] = self._lookup(source, destination, dtype)
        return self._found[key]

    def fill(self, layout: Layout, dtype: str) -> int:
        """The cost of the first entry from the Format of `layout` to itself, or of the built-in model."""
        for entry in self.reorders:
            if (
                entry.shape in (None, layout.shape)
                and _is(entry.source, layout)
                and _is(entry.destination, layout)
            ):
                return entry.cost
        return fill_ns(layout, dtype)

    def _lookup(self, source: Layout, destination: Layout, dtype: str) -> int:
        for entry in self.reorders:
            if entry.shape not in (None, source.shape):
                continue
            if _is(entry.source, source) and _is(entry.destination, destination):
                return entry.cost
        return FORBIDDEN if self.forbid else reorder_ns(source, destination, dtype)

    def op(self, name: str, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """The cost of the first entry of that name whose Formats are the option's at these shapes, or the option's
        own."""
        given = [fmt for fmt in (*option.ins, *option.outs) if fmt is not None]
        if len(given) != len(shapes):
            return option.cost
        layouts = [fmt.bind(shape) for fmt, shape in zip(given, shapes, strict=True)]
        for entry in self.ops:
            wanted = (*entry.ins, *entry.outs)
            # A table may leave out the small operands at the end (a bias): it is about the formats that matter.
            used = [*layouts[: len(entry.ins)], *layouts[len(layouts) - len(entry.outs) :]]
            if entry.name != name or len(used) != len(wanted):
                continue
            if all(_is(fmt, layout) for fmt, layout in zip(wanted, used, strict=True)):
                return entry.cost
        return option.cost

    def formats(self, shape: tuple[int, ...]) -> Sequence[Format]:
        """The Formats that reorders of the table have for tensors of this shape."""
        entries = [e for e in self.reorders if e.shape in (None, shape) and e.source.rank == len(shape)]
        return list(dict.fromkeys(fmt for e in entries for fmt in (e.source, e.destination)))


def _is(fmt: Format, layout: Layout) -> bool:
    """Whether `fmt` stores a tensor of the layout's shape as the layout does."""
    if fmt.rank != layout.rank:
        return False
    try:
        return fmt.bind(layout.shape).same_store(layout)
    except LayoutError:
        return False


# Reading ------------------------------------------------------------------------------------------------------------


def costs_given(costs: object, *, threads: int | None = None) -> CostModel | None:
    """The argument `costs` of a call: a CostModel as it is, of a path, or a name that `load_costs` knows, what the file
    says; None for None.

    Raises LayoutError for anything else, and for what `load_costs` does not read, beginning with the place in the file.
    """
    if costs is None or isinstance(costs, CostModel):
        return costs
    if not isinstance(costs, str | os.PathLike):
        raise LayoutError(
            f"costs = {costs!r} is neither a CostModel nor the path of a cost table or of measured prices"
        )
    path = checked_path(costs, "costs")  # pyright: ignore[reportUnknownArgumentType]
    try:
        return load_costs(path, threads=threads)
    except PassError as error:
        raise LayoutError(f"{error.location or path}: {error}") from error


def load_costs(path: str | Sequence[str], *, threads: int | None = None) -> CostModel:
    """The costs that a file says, a cost table or measured prices; several files are of prices, which are merged.

    "calibrated" stands for the measured curve of this machine, "measured" for the prices in the user's cache, and the
    names in `SHIPPED` for the price models that come with the package. `threads` says which prices hold, where a file
    has those of several. Raises PassError, located in the file, that names the entry which is wrong.
    """
    paths = [path] if isinstance(path, str) else list(path)
    if paths == [CALIBRATED]:
        with loading:
            from layout_ir.passes.selection.costs.calibration import calibrated_costs

        measured = calibrated_costs()
        measured.source = CALIBRATED
        return measured
    if paths == [MEASURED]:
        return _kept(threads)
    if len(paths) == 1 and paths[0] in SHIPPED:
        return shipped_costs(paths[0])
    loaded = [_loaded(path) for path in paths]
    tables = [found for found in loaded if not isinstance(found, TableCosts)]
    if len(tables) == len(loaded) > 0:
        return _priced(tables, paths, threads)
    for name, found in zip(paths, loaded, strict=True):
        if isinstance(found, TableCosts) and len(loaded) > 1:
            raise _located("a cost table stands alone: only files of measured prices are merged", name)
    (table,) = loaded
    assert isinstance(table, TableCosts)
    return table


def shipped_costs(name: str) -> CostModel:
    """The costs by a price model that comes with the package. Raises LayoutError for another name."""
    with loading:
        from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
        from layout_ir.passes.selection.costs.price_model_file import shipped_model  # brings NumPy

    model, source = shipped_model(name)
    found = MeasuredCosts({}, source, model)
    found.source = name
    return found


def _loaded(path: str) -> TableCosts | PriceTable:
    try:
        data = json.loads(read_bounded(path, _MOST_BYTES).decode("utf-8"), object_pairs_hook=unique_keys)
        if is_price_table(data):
            return table_from_json(data)
        table = _table(data)
        table.source = path
        return table
    except OSError as error:
        raise _located(f"cannot be read: {error.strerror or error}", path) from error
    except UnicodeDecodeError as error:
        raise _located(f"not UTF-8 text: {error.reason}", path) from error
    except json.JSONDecodeError as error:
        raise _located(f"not JSON: {error.msg}", path, error.lineno, error.colno) from error
    except LayoutError as error:
        raise _located(str(error), path) from error
    except (ValueError, RecursionError) as error:  # numbers or nesting beyond what Python reads
        raise _located(f"not a cost table: {error}", path) from error


def _priced(tables: Sequence[PriceTable], paths: Sequence[str], threads: int | None) -> CostModel:
    """The prices of one source. A remark says so where that is another machine."""
    with loading:
        from layout_ir.passes.selection.costs.measured_costs import costs_of

    table = merged(tables)
    try:
        source = chosen_source(table, threads)
    except LayoutError as error:
        raise _located(str(error), paths[0]) from error
    if source.machine != machine_name():
        message = (
            f"the prices are of {source}, and this is {machine_name()}: layouts are chosen for the former"
        )
        emit(Diagnostic(Severity.REMARK, message, Location(paths[0])))
    return costs_of(dict(table.of(source)), source, ", ".join(paths))


def _kept(threads: int | None) -> CostModel:
    """The prices of the user's cache, or the built-in costs with a warning."""
    path = str(prices_path())
    try:
        table = read_prices(path)
        own = PriceTable(
            {source: p for source, p in table.prices.items() if source.machine == machine_name()}
        )
        return _priced([own], [path], threads)
    except FileNotFoundError:
        reason = "this machine has no measured prices"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    except LayoutError as error:
        reason = str(error)
    message = f"{reason}; the built-in costs are used, 'layout-ir calibrate --ops' measures"
    emit(Diagnostic(Severity.WARNING, message, Location(path)))
    return CostModel()


def parse_costs(data: Any, where: str) -> TableCosts:
    """The cost table that a JSON object says. Raises LayoutError; `where` names the table in the message."""
    try:
        return _table(data)
    except LayoutError as error:
        raise LayoutError(f"{where}: {error}") from error


def _located(message: str, path: str, line: int = 0, col: int = 0) -> PassError:
    error = PassError(message)
    error.location = Location(path, line, col)
    return error


def _table(data: Any) -> TableCosts:
    if isinstance(data, dict) and "format" in data:
        stated = str(cast("dict[str, Any]", data)["format"])[:60]
        raise LayoutError(
            f"a file of format {stated!r}: costs are a cost table (its keys are missing, op, reorder, unit), "
            f"prices in the format {FORMAT!r}, which 'layout-ir calibrate --ops' writes, or one of the names "
            f"{', '.join((CALIBRATED, MEASURED, *SHIPPED))}"
        )
    table = object_at(data, "", {"unit", "reorder", "op", "missing"})
    missing = table.get("missing", "model")
    if missing not in ("model", "forbid"):
        raise LayoutError(f"missing = {missing!r} is neither model nor forbid")
    unit = table.get("unit", "ns")
    if not isinstance(unit, str):
        raise LayoutError(f"unit = {unit!r} is no name")
    reorders = [
        _reorder_entry(entry, f"reorder[{k}]") for k, entry in enumerate(list_at(table, "reorder", ""))
    ]
    ops = [_op_entry(entry, f"op[{k}]") for k, entry in enumerate(list_at(table, "op", ""))]
    _check_contradictions("reorder", [((e.source, e.destination, e.shape), e.cost) for e in reorders])
    _check_contradictions("op", [((e.name, e.ins, e.outs), e.cost) for e in ops])
    # What is known of one shape goes before what is said of all, in whatever order they stand.
    reorders.sort(key=lambda entry: entry.shape is None)
    return TableCosts(tuple(reorders), tuple(ops), missing == "forbid", unit)


def _check_contradictions(kind: str, entries: Sequence[tuple[object, int]]) -> None:
    first: dict[object, tuple[int, int]] = {}
    for k, (key, cost) in enumerate(entries):
        before, known = first.setdefault(key, (k, cost))
        if known != cost:
            raise LayoutError(f"{kind}[{k}] contradicts {kind}[{before}]: cost {cost} != {known}")


def _cost(entry: Mapping[str, Any], where: str) -> int:
    if "cost" not in entry:
        raise LayoutError(f"{where}: 'cost' is missing")
    cost = entry["cost"]
    if not isinstance(cost, int) or isinstance(cost, bool):
        raise LayoutError(f"{where}: cost = {cost!r} is no whole number: costs are integers in one unit")
    if not 0 <= cost < COST_LIMIT:
        raise LayoutError(f"{where}: cost = {cost} is not in [0, 2^48)")
    return cost


def _format(value: Any, where: str) -> Format:
    if not isinstance(value, str):
        raise LayoutError(f"{where}: {value!r} is no format: expected a tag or a format text")
    try:
        return Format.of(value)
    except LayoutError as error:
        raise LayoutError(f"{where}: {error}") from error


def _reorder_entry(data: Any, where: str) -> _ReorderEntry:
    entry = object_at(data, where, {"from", "to", "shape", "cost"})
    for key in ("from", "to"):
        if key not in entry:
            raise LayoutError(f"{where}: '{key}' is missing")
    source, destination = (_format(entry[key], f"{where}: {key}") for key in ("from", "to"))
    if source.rank != destination.rank:
        raise LayoutError(f"{where}: rank mismatch between from and to: {source.rank} != {destination.rank}")
    shape = None if entry.get("shape") is None else _shape(entry["shape"], where)
    for key, fmt in (("from", source), ("to", destination)):
        try:
            if shape is not None:
                fmt.bind(shape)
        except LayoutError as error:
            raise LayoutError(f"{where}: {key}: {error}") from error
    return _ReorderEntry(source, destination, shape, _cost(entry, where))


def _shape(value: Any, where: str) -> tuple[int, ...]:
    extents = cast("list[Any]", value) if isinstance(value, list) else None
    if extents is None or not all(isinstance(e, int) and not isinstance(e, bool) and e >= 0 for e in extents):
        raise LayoutError(f"{where}: shape = {value!r} is no list of extents")
    return tuple(extents)


def _op_entry(data: Any, where: str) -> _OpEntry:
    entry = object_at(data, where, {"name", "ins", "outs", "cost"})
    name = entry.get("name")
    if not isinstance(name, str):
        raise LayoutError(f"{where}: name = {name!r} is no name of an op")
    ins, outs = (
        tuple(_format(fmt, f"{where}: {key}[{k}]") for k, fmt in enumerate(list_at(entry, key, where)))
        for key in ("ins", "outs")
    )
    if not ins and not outs:
        raise LayoutError(f"{where}: neither ins nor outs: an entry is about the formats of {name}")
    return _OpEntry(name, ins, outs, _cost(entry, where))
