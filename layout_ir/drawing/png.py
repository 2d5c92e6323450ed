"""A Picture as PNG, drawn by Pillow (extra `draw`) with the font that comes with it: no browser, no system fonts."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from layout_ir.drawing.picture import Box, Dot, Item, Line, Picture, Text, arrow_head
from layout_ir.drawing.svg import HATCH
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from PIL.Image import Image

_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def to_png(picture: Picture, *, scale: int = 2) -> bytes:
    """The bytes of a PNG file with `scale` dots per pixel of `picture`. Raises LayoutError without Pillow."""
    try:
        from PIL import Image
    except ImportError as error:
        raise LayoutError(
            f"drawing PNG needs the extra 'draw': pip install 'layout-ir[draw]', or draw SVG ({error})"
        ) from None
    image = Image.new("RGB", (round(picture.width * scale), round(picture.height * scale)), "#ffffff")
    painter = _Painter(image, scale)
    for layer in picture.layers():
        for item in layer:
            painter.paint(item)
    buffer = io.BytesIO()
    # A palette makes the file a fraction of the size, and the picture has few colours.
    image.quantize(colors=128, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


class _Painter:
    """Paints items at `scale` dots per pixel."""

    def __init__(self, image: Image, scale: int):
        from PIL import ImageDraw

        self.image = image
        self.draw = ImageDraw.Draw(image)
        self.scale = scale
        self.fonts: dict[float, Any] = {}
        self.hatching: Image | None = None

    def paint(self, item: Item) -> None:
        match item:
            case Box():
                self._box(item)
            case Line():
                points = self._points(item.points)
                if item.dashed:
                    for start, end in pairwise(points):
                        self._dashes(start, end, item)
                else:
                    self.draw.line(points, item.colour, self._thick(item.width), joint="curve")
                if item.arrow:
                    self.draw.polygon(self._points(arrow_head(item)), item.colour)
            case Dot():
                x, y, r = item.x * self.scale, item.y * self.scale, item.radius * self.scale
                self.draw.ellipse((x - r, y - r, x + r, y + r), item.colour)
            case Text():
                where = (item.x * self.scale, item.y * self.scale)
                self.draw.text(where, item.text, item.colour, self._font(item.size), _ANCHORS[item.anchor])

    def _box(self, box: Box) -> None:
        left, top = round(box.x * self.scale), round(box.y * self.scale)
        right, bottom = (
            round((box.x + box.width) * self.scale) - 1,
            round((box.y + box.height) * self.scale) - 1,
        )
        outline = self._thick(box.line_width) if box.stroke else 0
        self.draw.rectangle((left, top, right, bottom), box.fill, box.stroke, outline or 1)
        if box.hatched:
            self._hatch(left, top, right, bottom)

    def _hatch(self, left: int, top: int, right: int, bottom: int) -> None:
        """Diagonals over what is painted; cut from one sheet, so that they continue from box to box."""
        from PIL import Image, ImageDraw

        if self.hatching is None:
            width, height = self.image.size
            self.hatching = Image.new("1", (width, height))
            sheet = ImageDraw.Draw(self.hatching)
            for k in range(0, width + height, 6 * self.scale):
                sheet.line((k, 0, k - height, height), 1, self.scale)
        box = (left, top, right + 1, bottom + 1)
        self.image.paste(HATCH, box, self.hatching.crop(box))

    def _dashes(self, start: tuple[float, float], end: tuple[float, float], line: Line) -> None:
        (x0, y0), (x1, y1) = start, end
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        on, period = 3 * self.scale, 5 * self.scale
        at = 0.0
        while at < length:
            stop = min(at + on, length)
            dash = [(x0 + (x1 - x0) * t / length, y0 + (y1 - y0) * t / length) for t in (at, stop)]
            self.draw.line(dash, line.colour, self._thick(line.width))
            at += period

    def _points(self, points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
        return [(x * self.scale, y * self.scale) for x, y in points]

    def _thick(self, width: float) -> int:
        return max(1, round(width * self.scale))

    def _font(self, size: float) -> Any:
        if size not in self.fonts:
            from PIL import ImageFont

            self.fonts[size] = ImageFont.load_default(size * self.scale)
        return self.fonts[size]
