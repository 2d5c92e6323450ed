"""Einsums, beside ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize(
    "equation",
    ["bhid,bhjd->bhij", "bhij,bhjd->bihd", "ij,jk->ik", "ij,kj->ki", "bij,jk->bik", "ijk->ki", "ij->i", "ijk,ilk->ljk",
     "abc,cd->d", "i,j->ij", "ij,ij->", "ij,jk,kl->il", "ij,kl,jk->il", "bac,cdh,ba->bad", "ij,jk,ik->",
     "i,j,k,l->ljki"],
)  # fmt: skip
def test_an_einsum(equation: str):
    extents = dict(zip("abcdhijkl", (2, 3, 4, 5, 2, 6, 3, 4, 7), strict=True))
    terms = equation.partition("->")[0].split(",")
    inputs = {f"x{k}": numbers([extents[name] for name in term], k) for k, term in enumerate(terms)}
    made = model([node("Einsum", tuple(inputs), "y", equation=equation)], inputs, {}, "y")
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...pd,...qd->...pq", [(2, 1, 4, 6), (1, 3, 5, 6)]),
        ("...j,jk->...k", [(2, 3, 4), (4, 5)]),
        ("...,...->...", [(2, 1), (1, 3)]),
        ("i...->...i", [(2, 3, 4)]),
        ("a...b,bc->a...c", [(2, 4), (4, 5)]),
        ("ij,jk,kl->il", [(2, 1), (3, 4), (1, 5)]),
    ],
)
def test_an_einsum_of_broadcast_dims(equation: str, shapes: list[tuple[int, ...]]):
    inputs = {f"x{k}": numbers(shape, k) for k, shape in enumerate(shapes)}
    made = model([node("Einsum", tuple(inputs), "y", equation=equation)], inputs, {}, "y")
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize(
    "equation", ["ii->i", "ij,jk", "...j,jk->k", "ij,jk,kk->ij", f"{','.join(33 * ['a'])}->a"]
)
def test_negative_other_einsums_stay_opaque(equation: str):
    terms = equation.partition("->")[0].split(",")
    inputs = {f"x{k}": numbers([3] * len(term.replace("...", "a")), k) for k, term in enumerate(terms)}
    assert opaque_nodes(model([node("Einsum", tuple(inputs), "y", equation=equation)], inputs, {}, "y")) == [
        "Einsum"
    ]
