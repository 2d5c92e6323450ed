"""The model finds the machine that made the prices, and knows how wrong it is."""

from __future__ import annotations

from math import log, prod
from random import Random

import pytest

from layout_ir.passes.selection.costs.price_keys import PriceKey, TensorKey
from layout_ir.passes.selection.costs.price_model import (
    FEWEST,
    WORST,
    extents_of_key,
    features,
    fitted_model,
    group_of,
)
from layout_ir.passes.selection.costs.price_table import Price


def _tensor(lies: str, *shape: int) -> TensorKey:
    return TensorKey(shape, "f32", lies)


def _conv(c: int, o: int, side: int, lies: str = "nhwc", group: int = 1) -> PriceKey:
    ins = (_tensor(lies, 1, c, side, side), _tensor("constant", o, c // group, 3, 3))
    return PriceKey("nn.conv", "", ins, (_tensor(lies, 1, o, side, side),))


def _relu(side: int, lies: str = "nhwc") -> PriceKey:
    tensor = _tensor(lies, 1, 16, side, side)
    return PriceKey("nn.relu", "", (tensor,), (tensor,))


def _machine(key: PriceKey, noise: float = 0.0, random: Random | None = None) -> Price:
    """What a machine takes that does 100 operations and 20 bytes per nanosecond, and 500 ns for a call."""
    nbytes, operations = features(key)
    ns = (500 + nbytes / 20 + operations / 100) * (1 + noise * (random or Random(0)).uniform(-1, 1))
    return Price(round(ns), round(ns), round(ns))


CONVS = [_conv(c, o, side) for c in (16, 32, 64) for o in (16, 48, 96) for side in (4, 9, 20)]


def test_bytes_and_operations_are_those_of_the_shapes() -> None:
    key = _conv(16, 32, 10)
    assert features(key) == (4 * (1600 + 32 * 16 * 9 + 3200), 2 * 32 * 100 * 16 * 9)
    gemm = PriceKey(
        "nn.gemm", "trans_a = true", (_tensor("nc", 5, 7), _tensor("constant", 5, 3)), (_tensor("nc", 7, 3),)
    )
    assert features(gemm)[1] == 2 * 7 * 3 * 5
    assert features(_relu(3))[1] == prod((1, 16, 3, 3))


def test_the_model_predicts_what_it_has_not_seen() -> None:
    model = fitted_model({key: _machine(key) for key in CONVS})
    assert model is not None
    for key in (_conv(24, 40, 13), _conv(128, 128, 28)):
        found, true = model.price(key), _machine(key)
        assert found is not None and found.ns == pytest.approx(true.ns, rel=0.03)
    (fit,) = model.groups.values()
    assert 1 <= fit.median <= fit.factor < 1.05


def test_the_error_that_it_states_is_that_of_the_noise() -> None:
    random = Random(1)
    model = fitted_model({key: _machine(key, 0.3, random) for key in CONVS})
    assert model is not None
    (fit,) = model.groups.values()
    assert 1.05 < fit.median < fit.factor < 1.6
    price = model.price(_conv(24, 40, 13))
    assert price is not None and price.low < price.ns < price.high


def test_the_model_is_that_of_the_table_whatever_its_order() -> None:
    prices = {key: _machine(key, 0.3, Random(str(key))) for key in CONVS}
    assert fitted_model(prices) == fitted_model(dict(reversed(prices.items())))


def test_coefficients_are_never_negative_so_that_more_work_never_costs_less() -> None:
    random = Random(7)
    model = fitted_model({key: Price(ns, ns, ns) for key in CONVS for ns in [random.randint(1000, 2000)]})
    assert model is not None
    for fit in model.groups.values():
        assert min(fit.call, fit.per_byte, fit.per_operation) >= 0


def test_kinds_of_ops_and_of_formats_have_fits_of_their_own() -> None:
    names = {
        group_of(key) for key in (_conv(16, 16, 8), _conv(16, 16, 8, "nchw"), _conv(16, 16, 8, "nChw8c"))
    }
    assert names == {
        ("nn.conv", "dense", "channels last"),
        ("nn.conv", "dense", "row-major"),
        ("nn.conv", "dense", "blocks of 8"),
    }
    assert group_of(_conv(16, 16, 8, group=16))[1] == "depthwise"
    assert group_of(_conv(16, 16, 8, group=2))[1] == "grouped in whole blocks"
    assert group_of(_conv(32, 32, 8, group=2))[1] == "grouped in whole blocks of 16"
    assert group_of(_conv(32, 48, 8, group=2))[1] == "grouped in whole blocks"
    assert group_of(_conv(16, 24, 8, group=2))[1] == "grouped"
    reorder = PriceKey("layout.reorder", "", (_tensor("nchw", 1, 8, 2, 2),), (_tensor("nhwc", 1, 8, 2, 2),))
    assert group_of(reorder) == ("layout.reorder", "", "row-major to channels last")


@pytest.mark.parametrize(
    ("attributes", "variant"), [('mode = "linear"', "linear"), ("sizes = array<i64: 1>", "nearest")]
)
def test_resizes_are_apart_by_their_interpolation(attributes: str, variant: str) -> None:
    picture = TensorKey((1, 4, 8, 8), "f32", "nhwc")
    assert group_of(PriceKey("nn.resize", attributes, (picture,), (picture,))) == (
        "nn.resize", variant, "channels last"
    )  # fmt: skip


def _machine_with_a_step(key: PriceKey) -> Price:
    """The same machine, three times as slow where the channels fill no register."""
    ns = _machine(key).ns * (3 if key.ins[0].shape[1] % 8 else 1)
    return Price(ns, ns, ns)


STEPS = [_conv(c, o, side) for c in (8, 9, 16, 18, 64, 72, 100) for o in (16, 48, 96) for side in (4, 9, 20)]


def test_what_no_roofline_has_is_taken_from_what_is_near() -> None:
    prices = {key: _machine_with_a_step(key) for key in STEPS}
    model = fitted_model(prices)
    assert model is not None
    (fit,) = model.groups.values()
    for key in (_conv(100, 48, 9), _conv(100, 50, 8)):  # the fit is that of the others
        found, true = model.price(key), _machine_with_a_step(key)
        assert found is not None
        assert abs(log(found.ns / true.ns)) < abs(log(fit.ns(*features(key)) / true.ns)) / 2
    aligned = model.price(_conv(64, 50, 8))
    assert aligned is not None
    assert aligned.ns == pytest.approx(_machine_with_a_step(_conv(64, 50, 8)).ns, rel=0.15)


def test_negative_what_is_far_from_all_keeps_the_fit() -> None:
    model = fitted_model({key: _machine_with_a_step(key) for key in STEPS})
    assert model is not None
    (fit,) = model.groups.values()
    key = _conv(3000, 3000, 300)
    found = model.price(key)
    assert found is not None and found.ns == pytest.approx(fit.ns(*features(key)), rel=0.05)


def test_extents_that_tell_neighbours() -> None:
    assert extents_of_key(_conv(16, 32, 10)) == (1, 16, 100, 1, 32, 100, 32 * 16 * 9)
    vector = _tensor("c", 7)
    assert extents_of_key(PriceKey("nn.relu", "", (vector,), (vector,))) == (1, 7, 1, 1, 7, 1, 0)


def test_negative_a_group_without_prices_enough_has_no_model() -> None:
    few = {key: _machine(key) for key in CONVS[: FEWEST - 1]}
    assert fitted_model(few) is None
    model = fitted_model({key: _machine(key) for key in CONVS})
    assert model is not None and model.price(_relu(8)) is None


def test_negative_prices_without_a_rule_have_no_model() -> None:
    random = Random(2)
    prices = {key: Price(ns, ns, ns) for key in CONVS for ns in [round(10 ** random.uniform(2, 7))]}
    assert fitted_model(prices) is None
    assert WORST < 10**5


def _sum(side: int, lies: str = "nhwc", number: bool = False) -> PriceKey:
    tensor = _tensor(lies, 1, 16, side, side)
    return PriceKey("nn.add", "", (tensor, _tensor("number", 1) if number else tensor), (tensor,))


def test_what_has_no_prices_is_priced_like_its_kin_and_less_certain() -> None:
    sizes = range(8, 8 + FEWEST)
    known = {_sum(side): _machine(_sum(side)) for side in sizes}
    known |= {_sum(side, "nchw"): Price(*[3 * _machine(_sum(side)).ns] * 3) for side in sizes}
    model = fitted_model(known)
    assert model is not None
    own, other = model.price(_sum(40)), model.price(_sum(40, number=True))
    assert own is not None and other is not None
    assert other.ns == pytest.approx(_machine(_sum(40, number=True)).ns, rel=0.1)  # of the same class
    assert other.high / other.ns > 1.5 > own.high / own.ns
    elsewhere, dear = model.price(_sum(40, "nChw8c")), model.price(_sum(40, "nchw"))
    assert elsewhere is not None and dear is not None and elsewhere.ns == dear.ns  # the dearest class


def test_groups_of_whole_blocks_have_the_fit_of_others_where_they_have_none() -> None:
    broken = [_conv(c, 20, side, group=2) for c in (12, 20, 28) for side in (4, 9, 20)]
    model = fitted_model({key: _machine(key) for key in broken})
    assert model is not None
    found = model.price(_conv(16, 16, 8, group=2))
    assert found is not None and found.ns == pytest.approx(_machine(_conv(16, 16, 8, group=2)).ns, rel=0.1)


def test_groups_of_wider_blocks_have_the_fit_of_whole_ones_where_they_have_none() -> None:
    narrow = [_conv(c, c, side, group=2) for c in (16, 48, 80) for side in (4, 9, 20)]
    wide = [_conv(c, c, side, group=2) for c in (32, 64, 96) for side in (4, 9, 20)]
    asked = _conv(64, 64, 14, group=2)
    prices = {key: _machine(key) for key in narrow}
    model = fitted_model(prices)
    assert model is not None
    found = model.price(asked)
    assert found is not None and found.ns == pytest.approx(_machine(asked).ns, rel=0.1)
    # What is dear in narrow groups says nothing of wide ones that have prices.
    dear = {key: Price(5 * price.low, 5 * price.ns, 5 * price.high) for key, price in prices.items()}
    model = fitted_model(dear | {key: _machine(key) for key in wide})
    assert model is not None
    found = model.price(asked)
    assert found is not None and found.ns == pytest.approx(_machine(asked).ns, rel=0.1)


def _reorder(side: int, source: str, destination: str) -> PriceKey:
    tensors = [_tensor(lies, 1, 16, side, side) for lies in (source, destination)]
    return PriceKey("layout.reorder", "", tuple(tensors[:1]), tuple(tensors[1:]))


def test_a_reorder_without_prices_costs_what_the_dearer_half_of_a_detour_does() -> None:
    sizes = range(8, 8 + FEWEST)
    ways = {("nChw8c", "nchw"): 1, ("nchw", "nhwc"): 3}
    prices = {
        _reorder(side, *way): Price(*[factor * _machine(_reorder(side, *way)).ns] * 3)
        for way, factor in ways.items()
        for side in sizes
    }
    model = fitted_model(prices)
    assert model is not None
    found, dearer = model.price(_reorder(40, "nChw8c", "nhwc")), model.price(_reorder(40, "nchw", "nhwc"))
    assert found is not None and dearer is not None and found.ns == dearer.ns
    assert found.high / found.ns > dearer.high / dearer.ns


def test_negative_a_reorder_of_whose_detour_one_half_has_no_price_has_none() -> None:
    sizes = range(8, 8 + FEWEST)
    model = fitted_model({key: _machine(key) for side in sizes for key in [_reorder(side, "nChw8c", "nchw")]})
    assert model is not None
    assert model.price(_reorder(40, "nChw8c", "nhwc")) is None
    assert model.price(_reorder(40, "nChw16c", "nChw8c")) is None


def test_negative_convolutions_have_no_kin() -> None:
    model = fitted_model({key: _machine(key) for key in CONVS})
    assert model is not None
    assert model.price(_conv(16, 16, 8, group=16)) is None
    assert model.price(_conv(16, 16, 8, "nchw")) is None
    assert model.price(_relu(8)) is None
