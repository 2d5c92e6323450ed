"""Measured prices: what ops and reorders took on one machine, in one runtime, on so many threads; kept in JSON.

    {"format": "layout-ir prices 1",
     "tables": [{"machine": "amd-epyc-1b2c3d4e", "runtime": "oneDNN 3.2.0 (OpenMP)", "threads": 1,
                 "prices": [{"op": "nn.relu", "ins": ["1x64x56x56xf32 nhwc"], "outs": ["1x64x56x56xf32 nhwc"],
                             "ns": [41020, 41350, 42300]}]}]}

`ns` is an interval: the median of the rounds between two that hold the true one in 95 of 100 cases. `price_keys` says
what the texts mean. A file may hold tables of several machines, runtimes and numbers of threads, so files merge; where
two tables have a price for the same, the one that is known better holds, in whatever order they were merged.

The prices of this machine are kept in the user's cache, one file per kind of processor:

    $XDG_CACHE_HOME/layout-ir/prices-<machine>.json             (~/.cache where the variable is not set)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypeIs

from layout_ir.errors import LayoutError
from layout_ir.files import read_bounded
from layout_ir.passes.selection.costs.calibration import calibration_path, machine_name
from layout_ir.passes.selection.costs.cost_model import COST_LIMIT
from layout_ir.passes.selection.costs.json_checks import list_at, located, object_at, unique_keys
from layout_ir.passes.selection.costs.price_keys import MOST_TEXT, PriceKey, TensorKey

FORMAT = "layout-ir prices 1"
"""What a file of prices begins with; the number changes with the meaning of its texts."""

MOST_BYTES = 1 << 26
"""Bytes of a file at most."""

_MOST_TENSORS = 256
_MOST_THREADS = 4096


@dataclass(frozen=True, slots=True, order=True)
class PriceSource:
    """Whose prices they are: the kind of processor (`machine_name`), the runtime with its version, its threads."""

    machine: str
    runtime: str
    threads: int

    def __str__(self) -> str:
        return f"{self.runtime} on {self.machine}, {self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Price:
    """Nanoseconds: the median, and an interval around it. Raises LayoutError where they are none."""

    low: int
    ns: int
    high: int

    def __post_init__(self) -> None:
        for number in (self.low, self.ns, self.high):
            if not _is_count(number):
                raise LayoutError(f"{number!r} is no whole number of nanoseconds in [0, 2^48)")
        if not self.low <= self.ns <= self.high:
            raise LayoutError(
                f"[{self.low}, {self.ns}, {self.high}] does not rise: expected low, median, high"
            )

    @property
    def _doubt(self) -> tuple[float, int, int, int]:
        """Orders prices of the same thing by how well they are known."""
        return (self.high - self.low) / max(self.ns, 1), self.ns, self.low, self.high

    def better(self, other: Price) -> Price:
        """That of the two which is known better: the one with the narrower interval."""
        return self if self._doubt <= other._doubt else other


def _is_count(value: object) -> TypeIs[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < COST_LIMIT


@dataclass(slots=True)
class PriceTable:
    """Prices by source and key."""

    prices: dict[PriceSource, dict[PriceKey, Price]] = field(
        default_factory=dict[PriceSource, dict[PriceKey, Price]]
    )

    def of(self, source: PriceSource) -> Mapping[PriceKey, Price]:
        """The prices of one source; none where it has none."""
        return self.prices.get(source, {})

    def add(self, source: PriceSource, key: PriceKey, price: Price) -> None:
        """Adds a price; of two for the same thing the one that is known better stays."""
        own = self.prices.setdefault(source, {})
        known = own.get(key)
        own[key] = price if known is None else price.better(known)

    def merge(self, other: PriceTable) -> None:
        """Adds all prices of another table."""
        for source, own in other.prices.items():
            for key, price in own.items():
                self.add(source, key, price)

    def to_json(self) -> dict[str, Any]:
        """The content of a file: sources and keys in order, so that equal tables are equal files."""
        tables = [
            {
                "machine": source.machine,
                "runtime": source.runtime,
                "threads": source.threads,
                "prices": [_entry(key, own[key]) for key in sorted(own, key=str)],
            }
            for source, own in sorted(self.prices.items())
        ]
        return {"format": FORMAT, "tables": tables}

    def text(self) -> str:
        """The content of a file, one price a line."""
        data = self.to_json()
        blocks: list[str] = []
        for table in data["tables"]:
            entries = ",\n  ".join(json.dumps(entry) for entry in table.pop("prices"))
            blocks.append(f'{json.dumps(table)[:-1]}, "prices": [\n  {entries}]}}')
        tables = ",\n".join(blocks)
        return f'{{"format": {json.dumps(FORMAT)}, "tables": [\n{tables}]}}\n'

    def __len__(self) -> int:
        return sum(map(len, self.prices.values()))


def _entry(key: PriceKey, price: Price) -> dict[str, Any]:
    entry: dict[str, Any] = {"op": key.op}
    if key.attributes:
        entry["attributes"] = key.attributes
    entry |= {"ins": list(map(str, key.ins)), "outs": list(map(str, key.outs))}
    return {**entry, "ns": [price.low, price.ns, price.high]}


# Reading --------------------------------------------------------------------------------------------------------------


def is_price_table(data: Any) -> bool:
    """Whether what a JSON file holds is meant as a table of prices."""
    return isinstance(data, dict) and "tables" in data


def table_from_json(data: Any) -> PriceTable:
    """The table that a JSON object says. Raises LayoutError, naming the entry that is wrong."""
    whole = object_at(data, "", {"format", "tables"})
    if whole.get("format") != FORMAT:
        raise LayoutError(
            f"format = {whole.get('format')!r} is not {FORMAT!r}: measure again, or merge again"
        )
    found = PriceTable()
    for number, entry in enumerate(list_at(whole, "tables", "")):
        where = f"tables[{number}]"
        table = object_at(entry, where, {"machine", "runtime", "threads", "prices"})
        source = source_at(table, where)
        if source in found.prices:
            raise LayoutError(f"{where}: a second table of {source}: one is expected")
        own = found.prices[source] = {}
        for k, given in enumerate(list_at(table, "prices", where)):
            key, price = _price(given, f"{where}.prices[{k}]")
            if key in own:
                raise LayoutError(f"{where}.prices[{k}]: a second price of {key}")
            own[key] = price
    return found


def read_prices(path: str) -> PriceTable:
    """The table in the file `path`. Raises OSError, and LayoutError for what is no table; neither names the file."""
    data = read_bounded(path, MOST_BYTES)
    try:
        return table_from_json(json.loads(data.decode("utf-8"), object_pairs_hook=unique_keys))
    except LayoutError:
        raise
    except (ValueError, RecursionError) as error:  # whatever is no JSON is a ValueError
        raise LayoutError(f"not a table of prices: {error}") from error


def source_at(table: Mapping[str, Any], where: str) -> PriceSource:
    """The source that an object names by `machine`, `runtime` and `threads`. Raises LayoutError, naming `where`."""
    names = [table.get(key) for key in ("machine", "runtime")]
    for key, name in zip(("machine", "runtime"), names, strict=True):
        if not isinstance(name, str) or not 0 < len(name) <= MOST_TEXT or not name.isprintable():
            raise LayoutError(located(where, f"{key} = {name!r} is no name"))
    threads = table.get("threads")
    if not _is_count(threads) or not 1 <= threads <= _MOST_THREADS:
        raise LayoutError(
            located(where, f"threads = {threads!r} is no whole number from 1 to {_MOST_THREADS}")
        )
    return PriceSource(cast("str", names[0]), cast("str", names[1]), threads)


def _price(data: Any, where: str) -> tuple[PriceKey, Price]:
    entry = object_at(data, where, {"op", "attributes", "ins", "outs", "ns"})
    texts = [entry.get("op"), entry.get("attributes", "")]
    for key, text in zip(("op", "attributes"), texts, strict=True):
        if not isinstance(text, str) or len(text) > MOST_TEXT or (key == "op" and not text):
            raise LayoutError(f"{where}: {key} = {text!r} is no text of at most {MOST_TEXT} characters")
    ins, outs = (tuple(_tensors(entry, key, where)) for key in ("ins", "outs"))
    ns = entry.get("ns")
    numbers = cast("list[Any]", ns) if isinstance(ns, list) else []
    if len(numbers) != 3:
        raise LayoutError(f"{where}: ns = {ns!r} is no [low, median, high]")
    try:
        price = Price(*numbers)
    except LayoutError as error:
        raise LayoutError(f"{where}: ns: {error}") from error
    return PriceKey(cast("str", texts[0]), cast("str", texts[1]), ins, outs), price


def _tensors(entry: Mapping[str, Any], key: str, where: str) -> Iterator[TensorKey]:
    given = list_at(entry, key, where)
    if len(given) > _MOST_TENSORS:
        raise LayoutError(f"{where}: {key} has {len(given)} tensors, more than {_MOST_TENSORS}")
    for k, text in enumerate(given):
        if not isinstance(text, str) or len(text) > 2 * MOST_TEXT:
            raise LayoutError(f"{where}: {key}[{k}] is no text of a tensor")
        try:
            yield TensorKey.parse(text)
        except LayoutError as error:
            raise LayoutError(f"{where}: {key}[{k}]: {error}") from error


# The files ------------------------------------------------------------------------------------------------------------


def prices_path() -> Path:
    """Where the prices of this machine are kept."""
    return calibration_path().parent / f"prices-{machine_name()}.json"


def merged(tables: Iterable[PriceTable]) -> PriceTable:
    """One table with the prices of all."""
    found = PriceTable()
    for table in tables:
        found.merge(table)
    return found


def chosen_source(table: PriceTable, threads: int | None = None) -> PriceSource:
    """Whose prices of a table hold: the only ones there are, or those for this machine and these threads.

    Raises LayoutError where none or several are left.
    """
    sources = sorted(table.prices)
    if not sources:
        raise LayoutError("the table has no prices: 'layout-ir calibrate --ops' measures")
    left = sources
    for holds in (
        [threads is None or source.threads == threads for source in sources],
        [source.machine == machine_name() for source in sources],
        [threads is not None or source.threads == 1 for source in sources],
    ):
        kept = [source for source, is_fit in zip(sources, holds, strict=True) if is_fit and source in left]
        left = kept or left
    if len(left) > 1:
        listed = "; ".join(map(str, left))
        raise LayoutError(f"prices of several sources, of which one is to be chosen: {listed}")
    return left[0]
