"""The committed pictures are what the commands beside them make."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import pytest

from layout_ir.tools.layout_ir import main

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
COMMANDS = [
    shlex.split(line)
    for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("    layout-ir draw ")
]


def target(command: list[str]) -> str:
    return command[command.index("-o") + 1]


@pytest.mark.parametrize("command", COMMANDS, ids=target)
def test_the_command_makes_the_committed_file(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = target(command)
    monkeypatch.chdir(tmp_path)
    if name.endswith(".png"):
        pytest.importorskip("PIL", reason="needs the extra 'draw'")
    assert main(command[1:]) == 0
    made, committed = (tmp_path / name).read_bytes(), (FOLDER / name).read_bytes()
    if name.endswith(".svg"):
        assert made == committed
    else:
        assert differing(made, committed) < 0.02


def differing(a: bytes, b: bytes) -> float:
    """The share of dots that differ by more than a shade: fonts are rendered a little differently by each release."""
    import numpy as np
    from PIL import Image

    images: list[Any] = [
        np.asarray(Image.open(io.BytesIO(data)).convert("L"), dtype=np.int16) for data in (a, b)
    ]
    if images[0].shape != images[1].shape:
        return 1.0
    return float((abs(images[0] - images[1]) > 64).mean())


def test_every_committed_picture_has_its_command():
    assert sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".svg", ".png")) == sorted(
        map(target, COMMANDS)
    )


def test_the_layouts_that_people_ask_for_are_there():
    wanted = {"nchw", "nhwc", "chwn", "nChw8c", "NCHW4", "CHWN4", "Crouton", "Crouton2x2", "htp-weight"}
    assert wanted <= {Path(target(command)).stem for command in COMMANDS}


def test_negative_another_picture_is_not_taken_for_the_same():
    pytest.importorskip("PIL", reason="needs the extra 'draw'")
    from layout_ir.algebra.format import Format
    from layout_ir.drawing.compose import compose
    from layout_ir.drawing.png import to_png

    small = {tag: to_png(compose(Format.from_tag(tag).bind((1, 8, 2, 2)), "x")) for tag in ("nchw", "nhwc")}
    assert differing(small["nchw"], small["nhwc"]) > 0.02
    assert differing(small["nchw"], small["nchw"]) == 0
