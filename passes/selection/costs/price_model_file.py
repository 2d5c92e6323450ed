"""Price models as files: the coefficients of a fit, and by how much prices of which extents are off it.

    {"format": "layout-ir price model 3", "machine": ..., "runtime": ..., "threads": 1,
     "groups": [{"op": "nn.conv", "variant": "pointwise", "formats": "channels last", "call": 0, "per_byte": 0.008,
                 "per_operation": 0.0085, "factor": 1.05, "median": 1.01, "count": 77,
                 "ratios": "1,64,3136,1,256,3136,16384,1.07"}]}

Two are shipped, `onednn-avx2` and `onednn-avx512`: the kernels of oneDNN on these instructions, measured on one core by
`benchmarks/shipped_prices.py`. They are the costs of target onednn where nobody names others, so that a program comes
out the same wherever the same kernels are offered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from layout_ir.errors import LayoutError
from layout_ir.files import read_bounded
from layout_ir.passes.selection.costs.cost_model import SHIPPED
from layout_ir.passes.selection.costs.json_checks import list_at, object_at, unique_keys
from layout_ir.passes.selection.costs.price_keys import MOST_TEXT
from layout_ir.passes.selection.costs.price_model import (
    WORST,
    Group,
    GroupModel,
    PriceModel,
    group_text,
    ratios_text,
)
from layout_ir.passes.selection.costs.price_table import PriceSource, source_at

FORMAT = "layout-ir price model 3"
"""What a file of a model begins with."""

_MOST_BYTES = 1 << 20
_DIGITS = 4
"""Significant digits of coefficients: more are noise."""

_RATIO_DIGITS = 3

_NUMBERS = ("call", "per_byte", "per_operation", "factor", "median", "count")


def model_text(model: PriceModel, of: PriceSource) -> str:
    """The content of a file, one group a line, in order."""
    lines: list[str] = []
    for (op, variant, formats), fit in sorted(model.groups.items()):
        entry: dict[str, Any] = {"op": op, "variant": variant, "formats": formats}
        for name in _NUMBERS:
            number = getattr(fit, name)
            entry[name] = number if name == "count" else _rounded(number, _DIGITS)
        entry["ratios"] = ratios_text(
            (map(int, extents), _rounded(ratio, _RATIO_DIGITS)) for *extents, ratio in fit.measured().tolist()
        )
        lines.append(json.dumps(entry))
    head = {"format": FORMAT, "machine": of.machine, "runtime": of.runtime, "threads": of.threads}
    groups = ",\n ".join(lines)
    return f'{json.dumps(head)[:-1]}, "groups": [\n {groups}]}}\n'


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def model_from_json(data: Any) -> tuple[PriceModel, PriceSource]:
    """The model that a JSON object says, and whose prices it was fitted to. Raises LayoutError, naming the entry; for
    ratios only where they are asked for."""
    whole = object_at(data, "", {"format", "machine", "runtime", "threads", "groups"})
    if whole.get("format") != FORMAT:
        raise LayoutError(f"format = {whole.get('format')!r} is not {FORMAT!r}: fit again")
    groups: dict[Group, GroupModel] = {}
    for k, given in enumerate(list_at(whole, "groups", "")):
        where = f"groups[{k}]"
        entry = object_at(given, where, {"op", "variant", "formats", "ratios", *_NUMBERS})
        op, variant, formats = (_text(entry, name, where, MOST_TEXT) for name in ("op", "variant", "formats"))
        group = op, variant, formats
        if group in groups:
            raise LayoutError(f"{where}: a second fit of {group_text(group)}")
        numbers = {name: _number(entry, name, where) for name in _NUMBERS}
        count = int(numbers.pop("count"))
        ratios = _text(entry, "ratios", where, _MOST_BYTES)
        groups[group] = GroupModel(**numbers, count=count, ratios=ratios)
    return PriceModel(groups), source_at(whole, "")


def _text(entry: Mapping[str, Any], name: str, where: str, most: int) -> str:
    text = entry.get(name)
    if not isinstance(text, str) or len(text) > most:
        raise LayoutError(f"{where}: {name} = {text!r} is no text of at most {most} characters")
    return text


def _number(entry: Mapping[str, Any], name: str, where: str) -> float:
    """A coefficient. Factors are from 1 to `WORST`, all others from 0 on."""
    number = entry.get(name)
    least, most = (1.0, WORST) if name in ("factor", "median") else (0.0, 1e15)
    if isinstance(number, int | float) and not isinstance(number, bool) and least <= number <= most:
        return float(number)
    raise LayoutError(f"{where}: {name} = {number!r} is no number from {least:g} to {most:g}")


@lru_cache(maxsize=2)
def shipped_model(name: str) -> tuple[PriceModel, PriceSource]:
    """The shipped model of that name, and what it was measured on. Raises LayoutError for another name."""
    if name not in SHIPPED:
        raise LayoutError(f"no price model '{name}' is shipped: {', '.join(SHIPPED)} are")
    path = Path(__file__).with_name(f"{name}.json")
    data = read_bounded(str(path), _MOST_BYTES).decode("utf-8")
    return model_from_json(json.loads(data, object_pairs_hook=unique_keys))
