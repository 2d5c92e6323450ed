"""Compiled reorders write the bytes that oneDNN writes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz import onednn as fuzz_onednn
from tests.oracles import onednn
from tests.seeds import seeds

pytestmark = pytest.mark.skipif(onednn.executes() is not None, reason=str(onednn.executes()))


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_random_pairs_of_tags_give_the_bytes_that_onednn_gives(seed: int):
    compared, wrong = fuzz_onednn.run(300, seed)
    assert wrong == []
    assert compared > 200


def test_negative_another_byte_is_noticed(monkeypatch: pytest.MonkeyPatch):
    real = onednn.reorder

    def spoiled(src: Any, data: Any, dst: Any, out: Any) -> None:
        real(src, data, dst, out)
        out.view("u1")[0] ^= 1

    monkeypatch.setattr(onednn, "reorder", spoiled)
    compared, wrong = fuzz_onednn.run(30, 0)
    assert len(wrong) == compared > 0
