"""Sizes, strides and memory formats, against PyTorch itself."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS
from layout_ir.notations.decomposition import from_strides, strided
from layout_ir.notations.pytorch import format_of, is_contiguous, preserved_strides, suggest_memory_format

torch = pytest.importorskip("torch", reason="torch is not installed")
prims = pytest.importorskip("torch._prims_common")
FORMATS = {"contiguous_format": None, "channels_last": 4, "channels_last_3d": 5}


def random_tensor(rng: random.Random):
    """A torch tensor of rank 1 to 5 with permuted, padded, sliced, broadcast or arbitrary unit strides."""
    rank = rng.choice((1, 2, 3, 4, 4, 4, 5, 5))
    sizes = [
        rng.choice((0, 1, 1, 2, 3, 4)) if rng.random() < 0.05 else rng.choice((1, 1, 2, 3, 4))
        for _ in range(rank)
    ]
    order = rng.sample(range(rank), rank)
    if rank >= 4 and rng.random() < 0.5:
        order = [0, *range(2, rank), 1]
    strides = [0] * rank
    running = 1
    for dim in reversed(order):
        strides[dim] = running
        running *= max(sizes[dim], 1) + (rng.random() < 0.1)
    for dim in range(rank):
        if sizes[dim] == 1 and rng.random() < 0.4:
            strides[dim] = rng.choice((0, 1, 2, 3, 5, 12, 96))
        elif rng.random() < 0.03:
            strides[dim] = 0
    return torch.empty(4096 * 4).as_strided(sizes, strides, rng.choice((0, 0, 7)))


def test_contiguity_of_twelve_thousand_random_tensors():
    rng = random.Random(0)
    true = 0
    for _ in range(12000):
        t = random_tensor(rng)
        for name, rank in FORMATS.items():
            if rank not in (None, t.dim()):
                continue
            real = t.is_contiguous(memory_format=getattr(torch, name))
            assert is_contiguous(t.shape, t.stride(), name) == real, (t.shape, t.stride(), name)
            true += real
            layout = from_strides(tuple(t.shape), t.stride(), t.storage_offset())
            if 0 not in t.shape:
                assert layout.is_contiguous(format_of(name, t.dim())) == real, (t.shape, t.stride(), name)
    assert true > 1500


def test_addresses_of_random_tensors():
    rng = random.Random(1)
    for _ in range(2000):
        t = random_tensor(rng)
        layout = from_strides(tuple(t.shape), t.stride(), t.storage_offset())
        assert strided(layout, "torch")[0] == tuple(t.stride())
        if t.numel() and t.numel() <= 64:
            storage = torch.arange(4096 * 4).as_strided(t.shape, t.stride(), t.storage_offset())
            assert np.array_equal(layout.addresses(), storage.numpy())


def test_suggestions_of_ten_thousand_random_tensors():
    rng = random.Random(2)
    ambiguous = named = 0
    for _ in range(10000):
        t = random_tensor(rng)
        found = suggest_memory_format(from_strides(tuple(t.shape), t.stride()))
        assert getattr(torch, found.torch) == prims.suggest_memory_format(t), (t.shape, t.stride())
        real = tuple(
            n
            for n, r in FORMATS.items()
            if r in (None, t.dim()) and t.is_contiguous(memory_format=getattr(torch, n))
        )
        assert found.holds == real
        ambiguous += found.ambiguous
        named += found.torch != "contiguous_format"
    assert ambiguous > 300
    assert named > 300


def test_suggestions_agree_with_an_operator_that_follows_them():
    rng = random.Random(3)
    for _ in range(300):
        t = random_tensor(rng)
        if t.dim() != 4 or not t.numel() or min(t.shape[1:]) < 2 or t.shape[0] < 2:
            continue
        out = torch.nn.functional.interpolate(t, scale_factor=2)
        found = suggest_memory_format(from_strides(tuple(t.shape), t.stride()))
        assert out.is_contiguous(memory_format=getattr(torch, found.torch))


def test_known_ambiguities_are_reported():
    def ask(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
        found = suggest_memory_format(from_strides(sizes, strides))
        return found.holds, found.torch

    both = ("contiguous_format", "channels_last")
    assert ask((2, 3, 1, 1), (3, 1, 1, 1)) == (both, "contiguous_format")
    assert ask((2, 3, 1, 1), (3, 1, 3, 3)) == (both, "channels_last")
    assert ask((4, 1, 1, 1), (1, 1, 1, 1)) == (both, "contiguous_format")
    # A view of a channels-last tensor keeps the order and loses the hint.
    assert ask((1, 3, 32, 32), (3, 1, 96, 3)) == (("channels_last",), "contiguous_format")
    assert not suggest_memory_format(from_strides((2, 3, 4, 5), (60, 1, 15, 3))).ambiguous


def test_preserved_strides_of_ten_thousand_random_tensors():
    rng = random.Random(4)
    for _ in range(10000):
        t = random_tensor(rng)
        real = torch.empty_like(t, memory_format=torch.preserve_format).stride()
        assert preserved_strides(t.shape, t.stride()) == tuple(real), (t.shape, t.stride())


def test_permute_of_every_permutation_to_rank_five():
    sizes = (2, 3, 4, 5, 6)
    count = 0
    for rank in range(1, 6):
        array = np.arange(np.prod(sizes[:rank])).reshape(sizes[:rank])
        tensor = torch.from_numpy(array)
        layout = Format.row_major("abcde"[:rank]).bind(sizes[:rank])
        for order in itertools.permutations(range(rank)):
            view = layout.permute(order)
            assert np.array_equal(view.addresses(), array.transpose(order))
            assert strided(view, "torch")[0] == tuple(tensor.permute(order).stride())
            count += 1
    assert count == 1 + 2 + 6 + 24 + 120


def test_memory_formats_have_torch_strides():
    for name, rank in FORMATS.items():
        for n in (rank,) if rank else (1, 2, 3, 4, 5):
            sizes = (2, 3, 4, 5, 6)[:n]
            real = torch.empty(sizes, memory_format=getattr(torch, name))
            layout = NOTATIONS["torch"].parse(f"torch.{name}", sizes)
            assert isinstance(layout, Layout)
            text = f"size={sizes}, stride={tuple(real.stride())}, storage_offset=0"
            assert NOTATIONS["torch"].print(layout) == text
    # Unit dims: the hint that torch writes is the one that is printed.
    for sizes in itertools.product((1, 2), repeat=4):
        real = torch.empty(sizes, memory_format=torch.channels_last)
        assert strided(Format.from_tag("nhwc").bind(sizes), "torch")[0] == tuple(real.stride())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("size=(2, 3), stride=(3, 1, 1)", "2 != 3"),
        ("size=(2, 3), stride=(3, -1)", "at least 0"),
        ("size=(2, 3)", "needs stride"),
        ("stride=(3, 1)", "and size unless a shape is given"),
        ("torch.preserve_format", "keeps that of another tensor"),
        ("torch.channels_first", "unknown memory format 'channels_first'"),
        ("contiguous_format", "give a shape"),
        ("size=(2, 3), stride=(3, 1), dtype=(1,)", "unexpected field 'dtype'"),
    ],
)
def test_negative_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["torch"].parse(text)


def test_negative_channels_last_of_another_rank():
    with pytest.raises(LayoutError, match="channels_last is one of rank 4, the tensor has rank 3"):
        NOTATIONS["torch"].parse("channels_last", (2, 3, 4))
    with pytest.raises(LayoutError, match="must not be negative"):
        NOTATIONS["torch"].print(from_strides((4,), (-1,), 3))


def test_strides_and_sized_types_are_read_as_torch_has_them():
    rng = random.Random(5)
    for _ in range(50):
        tensor = random_tensor(rng)
        if tensor.storage_offset():
            continue
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        want = from_strides(shape, strides)
        assert NOTATIONS["torch"].parse(repr(strides), shape) == want
        text = f"bf16[{', '.join(map(str, shape))}][{', '.join(map(str, strides))}]cuda:0"
        assert NOTATIONS["torch"].parse(text) == want
        assert NOTATIONS["torch"].element_type(text) == "bf16"


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        ("(3, 1)", None, "strides alone have no extents"),
        ("(3, 1)", (2, 3, 4), "rank mismatch"),
        ("(3, -1)", (2, 3), "at least 0 is needed"),
        ("q9[2][1]", None, "unknown element type"),
        ("f32[2, 3][3]", None, "rank mismatch"),
        ("f32[2, 3]", None, "expected '\\['"),
        ("f32[s0, 3][3, 1]cpu", None, "expected an extent"),
    ],
)
def test_negative_strides_without_extents(text: str, shape: tuple[int, ...] | None, reason: str):
    with pytest.raises(LayoutError, match=reason):
        NOTATIONS["torch"].parse(text, shape)
