"""The convolutions and matmuls of well-known networks, as shapes: what benchmarks ask libraries about.

Only shapes that differ are listed once each. Spatial extents are those of the images that the networks were published
for (U-Net: 256 x 256, and padded so that sizes stay), sequences have 128 tokens. Up-convolutions and the tables of
embeddings are left out: they run neither as a convolution nor as a matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Convolution:
    """Channels in and out, height and width of the image, size of the window, stride, number of groups."""

    channels: int
    filters: int
    size: int
    window: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        """Pads on each side that keep the size where the stride is 1."""
        return self.window // 2

    def shapes(self, batch: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of source, weights (groups first where there are several) and destination."""
        out = (self.size + 2 * self.padding - self.window) // self.stride + 1
        grouped = (self.groups,) if self.groups > 1 else ()
        weights = (self.filters // self.groups, self.channels // self.groups, self.window, self.window)
        return (
            (batch, self.channels, self.size, self.size),
            (*grouped, *weights),
            (batch, self.filters, out, out),
        )


@dataclass(frozen=True)
class MatMul:
    """`batch` products of `rows` x `inner` by `inner` x `columns`; of attention where there are several."""

    rows: int
    inner: int
    columns: int
    heads: int = 1

    def shapes(self, batch: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of source, weights and destination; those of attention have batch and heads in front."""
        if self.heads > 1:
            outer = (batch, self.heads)
            return (
                (*outer, self.rows, self.inner),
                (*outer, self.inner, self.columns),
                (*outer, self.rows, self.columns),
            )
        rows = self.rows * batch
        return (rows, self.inner), (self.inner, self.columns), (rows, self.columns)


Layer = Convolution | MatMul


def _resnet50() -> Iterator[Layer]:
    yield Convolution(3, 64, 224, 7, 2)
    channels, size = 64, 56
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            yield Convolution(channels, width, size, 1)
            yield Convolution(width, width, size, 3, stride)
            if block == 0:
                yield Convolution(channels, 4 * width, size, 1, stride)
            size //= stride
            yield Convolution(width, 4 * width, size, 1)
            channels = 4 * width
    yield MatMul(1, 2048, 1000)


_BNECKS = (
    (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 24, 2), (5, 120, 40, 32, 1),
    (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 120, 1), (3, 672, 112, 168, 1),
    (5, 672, 160, 168, 2), (5, 960, 160, 240, 1),
)  # fmt: skip
"""MobileNetV3-Large: window, expanded channels, channels out, those of squeeze and excite (0: none), stride."""


def _mobilenetv3() -> Iterator[Layer]:
    yield Convolution(3, 16, 224, 3, 2)
    channels, size = 16, 112
    for window, expanded, filters, squeezed, stride in _BNECKS:
        yield Convolution(channels, expanded, size, 1)
        yield Convolution(expanded, expanded, size, window, stride, groups=expanded)
        size //= stride
        if squeezed:
            yield Convolution(expanded, squeezed, 1, 1)
            yield Convolution(squeezed, expanded, 1, 1)
        yield Convolution(expanded, filters, size, 1)
        if channels != filters:  # the blocks that follow with the same numbers
            yield Convolution(filters, expanded, size, 1)
        channels = filters
    yield Convolution(160, 960, 7, 1)
    yield Convolution(960, 1280, 1, 1)
    yield MatMul(1, 1280, 1000)


def _unet() -> Iterator[Layer]:
    channels, size = 3, 256
    for width in (64, 128, 256, 512, 1024):
        yield Convolution(channels, width, size, 3)
        yield Convolution(width, width, size, 3)
        if width < 1024:
            yield Convolution(2 * width, width, size, 3)
        channels, size = width, size // 2
    yield Convolution(64, 2, 256, 1)


def _transformer(hidden: int, inner: int, heads: int, tokens: int = 128, *fused: int) -> Iterator[Layer]:
    for columns in (hidden, inner, *fused):
        yield MatMul(tokens, hidden, columns)
    yield MatMul(tokens, inner, hidden)
    yield MatMul(tokens, hidden // heads, tokens, heads)
    yield MatMul(tokens, tokens, hidden // heads, heads)


NETWORKS: dict[str, Callable[[], Iterator[Layer]]] = {
    "resnet50": _resnet50,
    "mobilenetv3": _mobilenetv3,
    "unet": _unet,
    "bert-base": lambda: _transformer(768, 3072, 12),
    "bert-large": lambda: _transformer(1024, 4096, 16),
    "gpt2": lambda: _transformer(768, 3072, 12, 128, 3 * 768),
    "llama-7b": lambda: _transformer(4096, 11008, 32),
}
"""The layers of each network, by its name."""


def layers(network: str) -> list[Layer]:
    """The layers of a network that differ, in the order of the network."""
    return list(dict.fromkeys(NETWORKS[network]()))
