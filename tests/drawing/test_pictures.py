"""Pictures, read back from their SVG, show every address once, and at it what the layout has there by definition."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.layout import Layout
from layout_ir.drawing.compose import compose
from layout_ir.drawing.svg import to_svg
from layout_ir.notations import NOTATIONS, read
from layout_ir.tools.commands.formats import read_shape
from layout_ir.tools.layout_ir import main
from tests.drawing.cases import CASES, case
from tests.drawing.svg_reader import DrawnCell, read_memory
from tests.layouts import address_by_definition, indices

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
COMMANDS = [
    shlex.split(line)
    for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("    layout-ir draw ")
]
FILES = [command for command in COMMANDS if "-o" in command]


def target(command: list[str]) -> str:
    return command[command.index("-o") + 1]


def layout_of(command: list[str]) -> Layout:
    """The layout that `layout-ir draw FORMAT --shape SHAPE` is asked for."""
    name, _, rest = command[2].partition(":")
    source, text = (name, rest) if name in NOTATIONS else (None, command[2])
    layout = read(text, source, shape=read_shape(command[command.index("--shape") + 1]))
    assert isinstance(layout, Layout)
    return layout


def memory_by_definition(layout: Layout) -> dict[int, DrawnCell]:
    """What lies at every address of the buffer: the definition of the layout, asked for every position."""
    addresses = range(min(layout.first_address, 0) if layout.span else 0, layout.extent)
    memory = dict.fromkeys(addresses, DrawnCell("hole"))
    for position in indices(layout.padded_shape):
        address = address_by_definition(layout.format, layout.shape, position)
        index = tuple(y - low for y, low in zip(position, layout.lo, strict=True))
        if all(0 <= x < extent for x, extent in zip(index, layout.shape, strict=True)):
            memory[address] = DrawnCell("element", index)
        elif memory[address].kind == "hole":
            memory[address] = DrawnCell("pad")
    return memory


WHOLE = sorted(CASES.keys() - {"huge", "crouton", "places", "broadcast"})
"""Cases of which every address can be drawn and holds one element at most."""


@pytest.mark.parametrize("name", WHOLE)
def test_every_address_is_a_cell_that_says_what_lies_there(name: str):
    layout = case(name)
    assert read_memory(to_svg(compose(layout, rows=256))) == memory_by_definition(layout)


@pytest.mark.parametrize("name", ["nchw", "nChw8c", "crouton", "weights", "halo", "trailing"])
def test_a_sampled_picture_shows_some_addresses_and_nothing_wrong(name: str):
    layout = case(name)
    drawn, memory = read_memory(to_svg(compose(layout, rows=6))), memory_by_definition(layout)
    assert drawn
    assert drawn == {address: memory[address] for address in drawn}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_of_the_documentation_draw_the_layout(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "picture.svg"
    arguments = command[1 : command.index("-o")] if "-o" in command else command[1:]
    assert main([*arguments, "-o", str(path)]) == 0
    drawn, memory = read_memory(path.read_text(encoding="utf-8")), memory_by_definition(layout_of(command))
    assert drawn
    assert drawn == {address: memory[address] for address in drawn}


@pytest.mark.parametrize("command", [c for c in FILES if target(c).endswith(".svg")], ids=target)
def test_committed_pictures_show_the_layout_of_their_command(command: list[str]):
    document = (FOLDER / target(command)).read_text(encoding="utf-8")
    assert read_memory(document) == memory_by_definition(layout_of(command))


def test_negative_a_picture_of_another_layout_is_seen():
    nchw, nhwc = (layout_of(["", "", tag, "--shape", "1x10x2x2"]) for tag in ("nchw", "nhwc"))
    assert read_memory(to_svg(compose(nchw))) != memory_by_definition(nhwc)


def test_every_committed_picture_has_its_command():
    assert sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".svg", ".png")) == sorted(
        map(target, FILES)
    )


def test_the_committed_png_looks_like_the_one_that_its_command_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("PIL", reason="needs the extra 'draw'")
    (command,) = [command for command in FILES if target(command).endswith(".png")]
    monkeypatch.chdir(tmp_path)
    assert main(command[1:]) == 0
    made, committed = (folder.joinpath(target(command)).read_bytes() for folder in (tmp_path, FOLDER))
    assert differing(made, committed) < 0.02


def test_negative_a_png_of_another_layout_looks_different():
    pytest.importorskip("PIL", reason="needs the extra 'draw'")
    from layout_ir.drawing.png import to_png

    small = [to_png(compose(layout_of(["", "", tag, "--shape", "1x8x2x2"]), "x")) for tag in ("nchw", "nhwc")]
    assert differing(*small) > 0.02


def differing(a: bytes, b: bytes) -> float:
    """The share of dots that differ by more than a shade: fonts are rendered a little differently by each release."""
    from PIL import Image

    images: list[Any] = [
        np.asarray(Image.open(io.BytesIO(data)).convert("L"), dtype=np.int16) for data in (a, b)
    ]
    if images[0].shape != images[1].shape:
        return 1.0
    return float((abs(images[0] - images[1]) > 64).mean())
