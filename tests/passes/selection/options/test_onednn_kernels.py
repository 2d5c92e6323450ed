"""The kernels of oneDNN by instructions: the installed library, instructions capped, has these and wants no others."""

from __future__ import annotations

import json
from random import Random

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.options import onednn_query
from layout_ir.passes.selection.options.conv_kernels import ConvShape
from layout_ir.passes.selection.options.onednn_kernels import kernels
from tests.passes.selection.options.convs import conv_of
from tests.processes import run_python

VECTORS = {"AVX2": 8, "AVX512_CORE": 16}
_CONVS = 400


def _random_conv(rng: Random) -> ConvShape:
    group = rng.choice((1, 1, 1, 1, 2, 4, 8, 32))
    inputs = rng.choice((1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 48, 64, 96, 100, 128))
    outputs = rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 33, 40, 48, 64, 100, 128))
    if rng.random() < 0.2:  # depthwise
        group, inputs, outputs = rng.choice((8, 16, 24, 30, 32, 72, 96, 100)), 1, 1
    rank = rng.choice((1, 2, 2, 2, 2, 3))
    kernel = rng.choice((1, 1, 3, 3, 5) if rank < 3 else (1, 3))
    image = rng.choice([extent for extent in (3, 7, 8, 14, 28) if extent >= kernel])
    stride = rng.choice((1, 1, 2))
    return conv_of(
        group * inputs, group * outputs, group, kernel=kernel, stride=stride, image=image, rank=rank
    )


def differences(vector: int) -> list[str]:
    """What the library of this process says otherwise of random convolutions."""
    rng, found = Random(vector), list[str]()
    for _ in range(_CONVS):
        conv = _random_conv(rng)
        ends = (conv.batch, conv.channels, *conv.image), onednn_query.output_shape(conv)
        known = list(kernels(conv, vector))
        for kernel in known:
            answer = onednn_query.ask(conv, kernel.x, kernel.y)
            if answer is None or answer.implementation.startswith("ref"):
                found.append(f"{conv}: no kernel {kernel.x} to {kernel.y}")
        answer = onednn_query.ask(conv, None, None)
        if answer is None or answer.implementation.startswith("ref"):
            continue
        if not any(
            all(
                ours.bind(shape).same_map(theirs.bind(shape))
                for ours, theirs, shape in zip((kernel.x, kernel.y), (answer.x, answer.y), ends, strict=True)
            )
            for kernel in known
        ):
            found.append(f"{conv}: any is {answer}")
    return found


@pytest.mark.skipif(onednn_query.unavailable() is not None, reason=str(onednn_query.unavailable()))
@pytest.mark.parametrize("name", VECTORS)
def test_the_library_has_these_kernels_and_wants_no_others(name: str) -> None:
    if VECTORS[name] == 16 and onednn_query.vector_extension() != "avx512":
        pytest.skip("the CPU has no AVX-512")
    code = f"import json; from {__name__} import differences; print(json.dumps(differences({VECTORS[name]})))"
    # On one thread the library has no kernel of its own for plain images of one or two channels.
    facts = {"ONEDNN_MAX_CPU_ISA": name, "OMP_NUM_THREADS": "2"}
    run = run_python("-c", code, variables=facts, timeout=300)
    assert json.loads(run.stdout) == []


def _ends(conv: ConvShape, vector: int) -> set[tuple[Format, Format]]:
    return {(kernel.x, kernel.y) for kernel in kernels(conv, vector)}


def test_wide_vectors_have_the_blocks_of_narrow_ones_too() -> None:
    conv = conv_of(64, 64)
    assert {x for x, _ in _ends(conv, 8)} < {x for x, _ in _ends(conv, 16)}
    assert Format.from_tag("nChw16c") in {x for x, _ in _ends(conv, 16)}


def test_the_first_layer_is_read_as_it_comes() -> None:
    conv = conv_of(3, 64, kernel=7)
    assert (Format.from_tag("nchw"), Format.from_tag("nChw8c")) in _ends(conv, 8)


def test_negative_groups_of_parts_of_blocks_have_none() -> None:
    tags = {Format.from_tag(tag) for tag in ("nhwc", "nchw")}
    assert {x for x, _ in _ends(conv_of(24, 24, 4), 8)} == tags
    assert {x for x, _ in _ends(conv_of(24, 24, 4), 16)} == tags
