"""Tables of prices: files that strangers wrote, merging, and whose prices hold."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.diagnostics import PassError, Severity, collect
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.calibration import machine_name
from layout_ir.passes.selection.costs.cost_table import load_costs
from layout_ir.passes.selection.costs.measured_costs import MeasuredCosts
from layout_ir.passes.selection.costs.price_keys import PriceKey, TensorKey
from layout_ir.passes.selection.costs.price_model import fitted_model
from layout_ir.passes.selection.costs.price_table import (
    FORMAT,
    Price,
    PriceSource,
    PriceTable,
    chosen_source,
    merged,
    prices_path,
    table_from_json,
)

HERE = PriceSource(machine_name(), "oneDNN 3.2.0 (OpenMP)", 1)
THERE = PriceSource("an-abacus", "beads 1.0", 1)


def _key(n: int = 1) -> PriceKey:
    tensor = TensorKey((1, n), "f32", "nc")
    return PriceKey("nn.relu", "", (tensor,), (tensor,))


def _table(*sources: PriceSource) -> PriceTable:
    return PriceTable({source: {_key(): Price(90, 100, 130)} for source in sources})


counts = st.integers(0, 1000)
prices = st.tuples(counts, counts, counts).map(lambda given: Price(*sorted(given)))
tables = st.dictionaries(
    st.sampled_from([HERE, THERE, PriceSource("an-abacus", "beads 1.0", 2)]),
    st.dictionaries(st.integers(1, 5).map(_key), prices, max_size=4),
    max_size=3,
).map(PriceTable)


@given(tables)
def test_what_is_written_is_read_back(table: PriceTable) -> None:
    assert table_from_json(json.loads(table.text())).prices == table.prices


@given(tables, tables, tables)
def test_merging_does_not_depend_on_the_order(a: PriceTable, b: PriceTable, c: PriceTable) -> None:
    whole = merged([a, b, c])
    assert merged([c, a, b]).prices == merged([merged([b, c]), a]).prices == whole.prices
    assert merged([whole, a]).text() == whole.text()


def test_of_two_prices_the_one_that_is_known_better_holds() -> None:
    sure, unsure = Price(98, 100, 102), Price(40, 90, 200)
    assert sure.better(unsure) == unsure.better(sure) == sure


def _entry(**changes: Any) -> dict[str, Any]:
    entry = {"op": "nn.relu", "ins": ["1x8xf32 nc"], "outs": ["1x8xf32 nc"], "ns": [1, 2, 3]}
    return {**entry, **changes}


def _file(*entries: Any, **changes: Any) -> str:
    table = {"machine": "an-abacus", "runtime": "beads 1.0", "threads": 1, "prices": list(entries), **changes}
    return json.dumps({"format": FORMAT, "tables": [table]})


BAD = [
    (
        '{"format": "layout-ir prices 7", "tables": []}',
        "format = 'layout-ir prices 7' is not 'layout-ir prices 1'",
    ),
    ('{"tables": []}', "format = None is not"),
    (f'{{"format": "{FORMAT}", "tables": 5}}', "tables is no list but int"),
    (f'{{"format": "{FORMAT}", "tables": [], "more": 1}}', "unknown key 'more'"),
    (f'{{"format": "{FORMAT}", "tables": [], "tables": []}}', "key 'tables' stands twice in one object"),
    (_file(threads=0), r"tables\[0\]: threads = 0 is no whole number from 1"),
    (_file(threads=True), r"tables\[0\]: threads = True is no whole number"),
    (_file(machine=""), r"tables\[0\]: machine = '' is no name"),
    (_file(runtime="a\nb"), r"tables\[0\]: runtime = 'a\\nb' is no name"),
    (_file(_entry(ns=[1, 2])), r"tables\[0\].prices\[0\]: ns = \[1, 2\] is no \[low, median, high\]"),
    (_file(_entry(ns=[-1, 2, 3])), r"tables\[0\].prices\[0\]: ns: -1 is no whole number of nanoseconds"),
    (_file(_entry(ns=[1, 2, 2**70])), r"prices\[0\]: ns: 1180591620717411303424 is no whole number of"),
    (_file(_entry(ns=[1, float("nan"), 3])), r"prices\[0\]: ns: nan is no whole number"),
    (_file(_entry(ns=[1, float("inf"), 3])), r"prices\[0\]: ns: inf is no whole number"),
    (_file(_entry(ns=[1, 2.0, 3])), r"prices\[0\]: ns: 2.0 is no whole number"),
    (_file(_entry(ns=[3, 2, 1])), r"prices\[0\]: ns: \[3, 2, 1\] does not rise"),
    (_file(_entry(op="")), r"prices\[0\]: op = '' is no text"),
    (_file(_entry(op="x" * 5000)), r"prices\[0\]: op = 'x+' is no text of at most 2048"),
    (_file(_entry(ins=["1x8xf32 nchw"])), r"prices\[0\]: ins\[0\]: rank mismatch"),
    (_file(_entry(ins=["1x8xf32"])), r"prices\[0\]: ins\[0\]: '1x8xf32' is no tensor such as"),
    (_file(_entry(outs=[7])), r"prices\[0\]: outs\[0\] is no text of a tensor"),
    (_file(_entry(ins=["1x8xf32 nc"] * 300)), r"prices\[0\]: ins has 300 tensors, more than 256"),
    (_file(_entry(), _entry()), r"prices\[1\]: a second price of nn.relu"),
    (_file(5), r"prices\[0\]: expected an object, found int"),
    ('{"tables": ' + "[" * 100_000, "."),
]


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_negative_a_damaged_file_is_refused_with_its_place(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(PassError, match=reason) as error:
        load_costs(str(path))
    assert error.value.location is not None and error.value.location.file == str(path)


@given(st.data())
def test_negative_a_file_with_a_part_replaced_is_a_table_or_an_error(data: st.DataObject) -> None:
    text = _file(_entry(), _entry(op="nn.add", attributes="a = 1", ins=["2x3xf32 constant", "1xf32 number"]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 12, len(text))))
    middle = data.draw(st.text('0123456789.-eE[]{}",:x nchw', max_size=30))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "prices.json"
        path.write_text(text[:start] + middle + text[end:])
        with suppress(PassError), collect():
            load_costs(str(path))


def test_negative_tensors_beyond_all_sizes_are_refused_before_anything_is_computed_of_them() -> None:
    huge = "999999999999999x" * 40 + "f32 constant"
    with pytest.raises(LayoutError, match=r"ins\[0\]: '9+x.* has 2\^60 elements or more"):
        table_from_json(json.loads(_file(_entry(ins=[huge]))))
    many = [
        _entry(op="nn.relu", ins=[f"{2**49}xf32 x"], outs=[f"{2**40 + k}xf32 x"], ns=[k, k, k])
        for k in range(12)
    ]
    table = table_from_json(json.loads(_file(*many)))
    fitted_model(dict(table.of(THERE)))


# Whose prices hold --------------------------------------------------------------------------------------------------


def test_prices_of_this_machine_go_before_others_and_one_thread_before_two() -> None:
    two = PriceSource(HERE.machine, HERE.runtime, 2)
    table = _table(THERE, HERE, two)
    assert chosen_source(table) == HERE
    assert chosen_source(table, threads=2) == two
    assert chosen_source(_table(THERE)) == THERE


def test_negative_prices_of_which_none_is_meant() -> None:
    with pytest.raises(LayoutError, match=r"^the table has no prices: 'layout-ir calibrate --ops' measures$"):
        chosen_source(PriceTable())
    newer = PriceSource(HERE.machine, "oneDNN 3.9.0 (OpenMP)", 1)
    with pytest.raises(
        LayoutError, match=r"several sources, of which one is to be chosen: oneDNN 3.2.0.*3.9.0"
    ):
        chosen_source(_table(HERE, newer))


def test_files_of_prices_are_merged(tmp_path: Path) -> None:
    first, second = (
        PriceTable({HERE: {_key(1): Price(1, 1, 1)}}),
        PriceTable({HERE: {_key(2): Price(2, 2, 2)}}),
    )
    for name, table in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(table.text())
    costs = load_costs([str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert isinstance(costs, MeasuredCosts) and set(costs.prices) == {_key(1), _key(2)}
    assert costs.of_source == HERE


def test_prices_of_a_foreign_processor_are_used_and_a_remark_says_whose_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(_table(THERE).text())
    with collect() as said:
        costs = load_costs(str(path))
    assert isinstance(costs, MeasuredCosts) and costs.of_source == THERE
    (remark,) = said
    assert remark.severity is Severity.REMARK
    assert remark.message.startswith(f"the prices are of {THERE}, and this is {machine_name()}: ")


def test_negative_a_cost_table_among_prices(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(_table(HERE).text())
    (tmp_path / "b.json").write_text('{"reorder": []}')
    with pytest.raises(
        PassError, match="a cost table stands alone: only files of measured prices are merged"
    ):
        load_costs([str(tmp_path / "a.json"), str(tmp_path / "b.json")])


# The cache ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = prices_path()
    path.parent.mkdir()
    return path


def test_the_prices_of_the_cache_are_those_of_this_machine(cache: Path) -> None:
    assert cache.name == f"prices-{machine_name()}.json"
    cache.write_text(_table(HERE, THERE).text())
    with collect() as said:
        costs = load_costs("measured")
    assert isinstance(costs, MeasuredCosts) and costs.of_source == HERE
    assert said == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "this machine has no measured prices"),
        ("", "not a table of prices: Expecting value"),
        (_table(THERE).text(), "the table has no prices"),
        (_file(_entry(ns=[3, 2, 1])), "tables[0].prices[0]: ns: [3, 2, 1] does not rise"),
    ],
)
def test_negative_a_cache_that_is_of_no_use_is_as_good_as_none(
    text: str | None, reason: str, cache: Path
) -> None:
    if text is not None:
        cache.write_text(text)
    with collect() as said:
        costs = load_costs("measured")
    assert not isinstance(costs, MeasuredCosts)
    (warning,) = said
    assert warning.severity is Severity.WARNING and warning.message.startswith(reason)
    assert warning.message.endswith("the built-in costs are used, 'layout-ir calibrate --ops' measures")
