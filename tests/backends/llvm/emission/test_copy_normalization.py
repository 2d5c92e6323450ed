"""What is to be moved, in fewest dims: what becomes of dims, which destinations are refused, and the bounds."""

import random

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.copy_normalization import FIELDS
from tests.backends.llvm.emission.strided_copies import NOTHING, SHARES, SOUND, normalized, random_view


def test_dims_that_continue_each_other_are_one() -> None:
    a = np.zeros((4, 1, 5, 6), "f4")
    answer, block = normalized(np.empty_like(a), a)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (SOUND, 0, a.nbytes)
    src = np.zeros((6, 4, 5), "f4").transpose(1, 2, 0)
    answer, block = normalized(np.empty(src.shape, "f4"), src)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (SOUND, 2, 4)


def test_negative_dims_apart_stay_apart() -> None:
    src = np.zeros((4, 7), "f4")[:, :5]
    answer, block = normalized(np.empty(src.shape, "f4"), src)
    assert (answer, block[FIELDS["dims"]], block[FIELDS["run"]]) == (SOUND, 1, 20)


@pytest.mark.parametrize(
    "dst",
    [
        np.broadcast_to(np.zeros(5, "f4"), (3, 5)),
        np.lib.stride_tricks.as_strided(np.zeros(20, "f4"), (4, 5), (8, 4)),
        np.lib.stride_tricks.as_strided(np.zeros(20, "f4"), (4,), (2,)),
    ],
    ids=["repeated", "windows", "halves"],
)
def test_negative_a_destination_whose_elements_share_addresses_is_told(dst: np.ndarray) -> None:
    assert normalized(dst, np.zeros(dst.shape, "f4"))[0] == SHARES


def test_nothing_is_to_be_moved_where_an_extent_is_0() -> None:
    a = np.zeros((3, 0, 5), "f4")
    assert normalized(a, a.copy())[0] == NOTHING


def test_bounds_are_those_of_numpy() -> None:
    rng = random.Random(3)
    for _ in range(200):
        shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(0, 4)))
        (_, src), (_, dst) = random_view(rng, shape, 4), random_view(rng, shape, 4)
        answer, block = normalized(dst, src)
        assert answer == SOUND
        assert (block[FIELDS["src_low"]], block[FIELDS["src_high"]]) == np.lib.array_utils.byte_bounds(src)
        assert (block[FIELDS["dst"]], block[FIELDS["dst_high"]]) == np.lib.array_utils.byte_bounds(dst)
