"""What a price would be that nobody measured: a model fitted to the prices that somebody did.

An op that reads and writes B bytes and does F operations takes about

    call + B / bandwidth + F / rate                 (nanoseconds)

the three terms of a roofline, added: what limits an op is seldom one of them alone. Call, bandwidth and rate depend on
the kind of the op and on how its tensors lie, so there is one fit per group (`group_of`): the op, depthwise and grouped
apart from dense, and the class of the formats: row-major, channels last, blocks of so many, mixed. Coefficients are not
negative, and errors are relative: an op of a microsecond counts as much as one of a millisecond.

Kernels have steps that no roofline has: tails of channels that fill no register, tensors that just fit a cache, few
positions per image. What they are differs by kernel, but ops of like extents stand on the same side of them. So a fit
is corrected by its neighbours: by the mean ratio of prices to their fits, each weighed by the inverse of its distance
(Shepard's interpolation), where distance is that of the logarithms of the extents; far from all of them the fit stays.

How wrong the model is, is found by leaving out: each tenth of the extents is predicted by a model of the others. The
interval of a fitted price is what nine in ten of these errors lie within. A group of fewer than `FEWEST` prices, or
whose errors exceed a factor of `WORST`, has no model. The like of it speaks for it, twice as wide: the same op in the
same class of formats, with another kind of second operand; or in another class, the dearest. Otherwise a choice between
formats would be one between prices and guesses. Variants of convolutions and reorders are not alike.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_model import COST_LIMIT
from layout_ir.passes.selection.costs.price_keys import CONSTANT, NUMBER, REORDER, PriceKey, TensorKey
from layout_ir.passes.selection.costs.price_table import Price

FEWEST = 8
"""Prices that a group has at least, of three coefficients each."""

WORST = 4.0
"""The factor by which nine in ten prices may be missed at most; beyond it built-in costs are as good."""

_LIKE = 2.0
"""The factor by which the fit of another group is taken to be less exact."""

_UNLIKE = ("nn.conv",)
"""Ops whose groups have little in common."""

_FOLDS = 10

_NEAR = 0.3
"""The distance from which on neighbours lose their say: extents that differ by a third."""

_FAR = 0.01
"""The weight of the fit beside that of its neighbours, 1 for one of the same extents: beyond a distance of about 1, a
factor of three in one extent, one neighbour alone has less."""

_MODE = re.compile(r'\bmode = "?(\w+)')
"""How a resize says its interpolation; to the nearest where it says none."""

Group = tuple[str, str, str]
"""Op, variant of it, class of formats."""

_GROUPED = "grouped"
"""The variant of a convolution in groups, and how the names of others begin: a model may have one fit for all."""

_WHOLE = " in whole blocks"
"""How the names of variants end whose groups are whole blocks of channels."""

_BLOCK = 8
"""The channels of the smallest block that kernels work on."""

_WIDE_BLOCK = 16
"""The channels of the largest block that kernels work on."""

_WIDE = f" of {_WIDE_BLOCK}"
"""What comes behind `_WHOLE` where groups are whole blocks of these, too."""

Floats = NDArray[np.float64]

Extents = tuple[int, ...]
"""What tells neighbours: batch, channels and positions of the first operand, the same of the first result, and the
elements of all other operands."""

EXTENTS = 7
"""How many these are."""

MOST_EXTENT = 1 << 60

LEAST_RATIO, MOST_RATIO = 1e-3, 1e3
"""Between which ratios of prices to a fit lie: beyond them it would be none."""


@dataclass(frozen=True)
class GroupModel:
    """The fit of one group: nanoseconds of a call, per byte, per operation; `factor` holds nine in ten errors, and
    `median` half of them. `ratios` has the extents of each price and its ratio to the fit, as text: numbers between
    commas, one row behind the other. A program asks few groups, and those of the others are never read."""

    call: float
    per_byte: float
    per_operation: float
    factor: float
    median: float
    count: int
    ratios: str = ""

    def ns(self, nbytes: int, operations: int) -> float:
        """What the fit says of an op that reads and writes so many bytes and does so many operations."""
        return self.call + self.per_byte * nbytes + self.per_operation * operations

    def corrected_ns(self, nbytes: int, operations: int, extents: Extents) -> float:
        """The price of such an op of these extents, which the fit and its neighbours say. Raises LayoutError where
        `ratios` are none."""
        return self.ns(nbytes, operations) * (self._expected_ratio(extents) if self.ratios else 1.0)

    @cached_property
    def _expected_ratio(self) -> Callable[[Extents], float]:
        """The ratio to the fit that is expected of an op, by its extents. What it found is kept as long as the model
        is: all reorders of a tensor between layouts of two classes ask for the same one."""
        rows = self.measured()
        points, ratios = _points(rows[:, :EXTENTS]), np.log(rows[:, EXTENTS].copy())

        @lru_cache(maxsize=4096)
        def expected(extents: Extents) -> float:
            ratio = math.exp(float(_corrections(points, ratios, _points([extents]))[0]))
            # Rounded, so that the last digit, which depends on how a processor adds up, decides nothing.
            return float(f"{ratio:.3g}")

        return expected

    def measured(self) -> Floats:
        """The extents of each price and its ratio to the fit, a row per price. Raises LayoutError, naming the row,
        where `ratios` are none."""
        try:
            rows = np.array(json.loads(f"[{self.ratios}]"), np.float64).reshape(-1, EXTENTS + 1)
        except (TypeError, ValueError) as error:
            raise LayoutError(f"ratios are no rows of {EXTENTS} extents and a ratio: {error}") from None
        extents, ratios = rows[:, :EXTENTS], rows[:, EXTENTS]
        sound = ((extents >= 0) & (extents < MOST_EXTENT) & (extents == np.floor(extents))).all(axis=1)
        sound &= (ratios >= LEAST_RATIO) & (ratios <= MOST_RATIO)
        if not sound.all():
            row = ", ".join(f"{number:g}" for number in rows[int(np.argmin(sound))].tolist())
            raise LayoutError(
                f"ratios: {row} are no {EXTENTS} whole numbers from 0 to 2^60 and a number from "
                f"{LEAST_RATIO:g} to {MOST_RATIO:g}"
            )
        return rows


@dataclass(frozen=True, slots=True)
class PriceModel:
    """The fits of all groups that have one."""

    groups: Mapping[Group, GroupModel]

    def price(self, key: PriceKey) -> Price | None:
        """The price of `key` with the interval of the fit; None where neither its group nor the like of it has one."""
        group, size = group_of(key), features(key)
        if group[1].startswith(_GROUPED):
            op, variant, formats = group
            whole = variant.removesuffix(_WIDE)
            less_exact = (
                (op, name, formats) for name in (variant, whole, whole.removesuffix(_WHOLE), _GROUPED)
            )
            group = next((each for each in less_exact if each in self.groups), group)
        found = self.groups.get(group) or self._like(group, size)
        if found is None:
            return None
        if group in self.groups:
            try:
                factor, ns = found.factor, found.corrected_ns(*size, extents_of_key(key))
            except LayoutError as error:
                raise LayoutError(f"the fit of {group_text(group)}: {error}") from None
        else:
            factor, ns = min(_LIKE * found.factor, WORST), found.ns(*size)
        ns = min(max(ns, 1.0), (COST_LIMIT - 1) / factor)
        return Price(max(int(ns / factor), 1), max(int(ns), 1), max(int(ns * factor), 1))

    def _like(self, group: Group, size: tuple[int, int]) -> GroupModel | None:
        """The fit of a group like `group`: of those of the same class the one of most prices, else the dearest. Of a
        reorder it is the dearer one of those by way of row-major: one takes less than the two."""
        op, variant, formats = group
        if op == REORDER:
            source, _, destination = formats.partition(" to ")  # of one class there is one name
            ways = f"{source} to row-major", f"row-major to {destination or source}"
            fits = [self.groups[op, variant, way] for way in ways if (op, variant, way) in self.groups]
            return max(fits, key=lambda fit: fit.ns(*size)) if len(fits) == len(ways) else None
        if op in _UNLIKE:
            return None
        own = {key: fit for key, fit in self.groups.items() if key[0] == op}
        same = [fit for key, fit in own.items() if key[2] == formats]
        if same:
            return max(same, key=lambda fit: fit.count)
        others = [fit for key, fit in own.items() if key[1] == variant] or own.values()
        return max(others, key=lambda fit: fit.ns(*size), default=None)


def fitted_model(prices: Mapping[PriceKey, Price]) -> PriceModel | None:
    """The model of a table; None where no group has prices enough."""
    members: dict[Group, list[tuple[PriceKey, Price]]] = {}
    for key, price in prices.items():
        members.setdefault(group_of(key), []).append((key, price))
    groups: dict[Group, GroupModel] = {}
    for group, own in members.items():
        if len(own) < FEWEST:
            continue
        # Sorted, so that the model is that of the table and not of the order in which it was measured.
        own.sort(key=lambda pair: str(pair[0]))
        rows = np.array([(1.0, *features(key)) for key, _ in own], np.float64)
        times = np.array([max(price.ns, 1) for _, price in own], np.float64)
        made = _fit_group([extents_of_key(key) for key, _ in own], rows, times)
        if made.factor <= WORST:
            groups[group] = made
    return PriceModel(groups) if groups else None


def _fit_group(extents: Sequence[Extents], rows: Floats, times: Floats) -> GroupModel:
    numbers = {each: number for number, each in enumerate(dict.fromkeys(extents))}
    points = _points(extents)
    errors: list[float] = []
    count = min(_FOLDS, len(numbers))
    folds = np.array([numbers[each] % count for each in extents])
    for fold in range(count if count > 1 else 0):
        left_out = folds == fold
        fitted = np.maximum(rows @ _fit(rows[~left_out], times[~left_out]), 1.0)
        ratios = np.log(times / fitted)
        corrections = _corrections(points[:, ~left_out], ratios[~left_out], points[:, left_out])
        errors += np.abs(corrections - ratios[left_out]).tolist()
    weights = _fit(rows, times)
    nine, half = (math.exp(float(np.quantile(errors, share))) if errors else math.inf for share in (0.9, 0.5))
    call, per_byte, per_operation = (float(w) for w in weights)
    ratios = np.log(times / np.maximum(rows @ weights, 1.0))
    by_extents: dict[Extents, list[float]] = {}
    for each, ratio in zip(extents, ratios.tolist(), strict=True):
        by_extents.setdefault(each, []).append(ratio)
    means = ((each, math.exp(math.fsum(own) / len(own))) for each, own in sorted(by_extents.items()))
    text = ratios_text(means)
    return GroupModel(call, per_byte, per_operation, nine, half, len(times), text)


def ratios_text(measured: Iterable[tuple[Iterable[int], float]]) -> str:
    """The text of extents and their ratios, which `GroupModel.measured` reads."""
    return ", ".join(",".join(map(str, (*extents, ratio))) for extents, ratio in measured)


def _points(extents: Sequence[Extents] | Floats) -> Floats:
    """The logarithms of extents, a column per point: sums over few coordinates of many points are those of rows."""
    return np.log(np.maximum(np.array(extents, np.float64).T, 1.0, order="C"))


def _corrections(points: Floats, ratios: Floats, at: Floats) -> Floats:
    """The logarithm of the ratio that is expected at each of the points `at`, by those known at `points`."""
    squares = ((at[:, :, None] - points[:, None]) ** 2).sum(axis=0)
    weights = 1.0 / (1.0 + squares / _NEAR**2) ** 2
    return (weights @ ratios) / (weights.sum(axis=1) + _FAR)


def _fit(rows: Floats, times: Floats) -> Floats:
    """Coefficients, none negative, of least relative error; squares weighed again and again approach absolute values,
    so that a few odd prices do not bend the fit."""
    relative = rows / times[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-30)
    matrix = relative / scale
    weights = np.ones(len(times))
    found = np.zeros(rows.shape[1])
    for _ in range(8):
        found = _nonnegative(matrix * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(matrix @ found - 1), 0.02))
    return found / scale


def _nonnegative(matrix: Floats, target: Floats) -> Floats:
    """The least squares solution without negative numbers: the best over all sets of columns, which are few."""
    columns = matrix.shape[1]
    best, least = np.zeros(columns), float(target @ target)
    for chosen in range(1, 1 << columns):
        used = [k for k in range(columns) if chosen >> k & 1]
        part = np.linalg.lstsq(matrix[:, used], target, rcond=None)[0]
        if (part < 0).any():
            continue
        found = np.zeros(columns)
        found[used] = part
        rest = matrix @ found - target
        if float(rest @ rest) < least * (1 - 1e-9):
            best, least = found, float(rest @ rest)
    return best


# What the model knows of a key ----------------------------------------------------------------------------------------


def features(key: PriceKey) -> tuple[int, int]:
    """Bytes that the op reads and writes, and its floating-point operations, as far as its shapes say them."""
    nbytes = sum(tensor.nbytes for tensor in (*key.ins, *key.outs))
    return nbytes, _operations(key)


def extents_of_key(key: PriceKey) -> Extents:
    """The extents of a key, by which its neighbours are found."""
    first = key.ins[0].shape if key.ins else ()
    result = key.outs[0].shape if key.outs else ()
    others = sum(math.prod(tensor.shape) for tensor in key.ins[1:])
    return *_three(first), *_three(result), others


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch, channels and positions; a vector is all channels."""
    return (shape[0], shape[1], math.prod(shape[2:])) if len(shape) > 1 else (1, math.prod(shape), 1)


def _operations(key: PriceKey) -> int:
    result = math.prod(key.outs[0].shape) if key.outs else 0
    match key.op:
        case "nn.conv" if len(key.ins) > 1:
            return 2 * result * math.prod(key.ins[1].shape[1:])
        case "nn.conv_transpose" if len(key.ins) > 1:
            return 2 * math.prod(key.ins[0].shape) * math.prod(key.ins[1].shape[1:])
        case "nn.matmul" | "nn.gemm" if key.ins:
            shape = key.ins[0].shape or (1,)
            inner = shape[0] if "trans_a = true" in key.attributes and len(shape) == 2 else shape[-1]
            return 2 * result * inner
        case "nn.max_pool" | "nn.avg_pool":
            window = re.search(r"\bkernel = array<i64: ([\d, ]+)>", key.attributes)
            extents = [] if window is None else [int(extent) for extent in window[1].split(",")[:3]]
            return result * math.prod(extents)
        case "nn.global_avg_pool" | "nn.global_max_pool" if key.ins:
            return math.prod(key.ins[0].shape)
        case _:
            return max((math.prod(tensor.shape) for tensor in (*key.ins, *key.outs)), default=0)


def group_of(key: PriceKey) -> Group:
    """The group whose fit speaks of `key`."""
    tensors = [t for t in (*key.ins[:1], *key.outs[:1]) if t.lies not in (CONSTANT, NUMBER)]
    classes = list(dict.fromkeys(map(_format_class, tensors)))
    if key.op == REORDER:
        return key.op, "", " to ".join(classes)
    return key.op, _variant(key), classes[0] if len(classes) == 1 else "mixed"


def group_text(group: Group) -> str:
    """A group as messages name it: "nn.conv, dense, channels last"."""
    return ", ".join(filter(None, group))


def _variant(key: PriceKey) -> str:
    if key.op == "nn.conv" and len(key.ins) > 1 and len(key.ins[0].shape) > 2:
        channels, per_group = key.ins[0].shape[1], key.ins[1].shape[1]
        is_pointwise = all(extent == 1 for extent in key.ins[1].shape[2:])
        if per_group == 1 < channels:
            return "depthwise"
        if per_group < channels:
            return _variant_in_groups(key, channels // per_group, is_pointwise)
        return "pointwise" if is_pointwise else "dense"
    if key.op == "nn.resize":
        mode = _MODE.search(key.attributes)
        return "nearest" if mode is None else mode[1]
    if len(key.ins) > 1:
        second = key.ins[1]
        if second.lies in (CONSTANT, NUMBER):
            return second.lies
        return "" if second.shape == key.ins[0].shape else "broadcast"
    return ""


def _variant_in_groups(key: PriceKey, groups: int, is_pointwise: bool) -> str:
    """Groups of whole blocks have kernels of their own, which are many times as fast; in blocks of 16 those of 16."""
    outputs, per_group = key.ins[1].shape[:2]
    is_whole, is_wide = (
        per_group % block == 0 and outputs // groups % block == 0 for block in (_BLOCK, _WIDE_BLOCK)
    )
    return _GROUPED + " pointwise" * is_pointwise + _WHOLE * is_whole + _WIDE * is_wide


@lru_cache(maxsize=4096)
def _format_class(tensor: TensorKey) -> str:
    """row-major, channels last, blocks of so many, or other."""
    try:
        layout = tensor.layout
    except LayoutError:
        return "other"
    if layout is None:
        return "constant"
    blocks = sorted({block for block in layout.format.blocks() if block > 1})
    if blocks:
        return "blocks of " + "x".join(map(str, blocks))
    if layout.chunk_rank or layout.swizzle is not None or layout.is_padded:
        return "other"
    order = [factor.dim for factor in layout.factors]
    if order == sorted(order):
        return "row-major"
    last = [d for d in sorted(order) if d != 1]
    return "channels last" if [d for d in order if d != 1] == last and order[-1] == 1 else "permuted"
