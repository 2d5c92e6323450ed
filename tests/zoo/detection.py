"""Detectors: backbone, neck that mixes resolutions, heads per resolution, and what turns their output into boxes."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Activation, Attention, Conv, CrossAttention, Residual, classifier, mlp, residual
from tests.zoo.classification import basic_branch, resnet_stages


class _CrossStage(nn.Module):
    """Cross stage partial: half of the channels pass `depth` bottlenecks, the other half one 1x1 convolution."""

    def __init__(
        self, inputs: int, outputs: int, depth: int, activation: Activation, shortcut: bool = True
    ) -> None:
        super().__init__()
        half = outputs // 2
        self.side = Conv(inputs, half, 1, activation=activation)
        blocks: list[nn.Module] = [Conv(inputs, half, 1, activation=activation)]
        for _ in range(depth):
            body = nn.Sequential(
                Conv(half, half, 1, activation=activation), Conv(half, half, activation=activation)
            )
            blocks.append(residual(body) if shortcut else body)
        self.main = nn.Sequential(*blocks)
        self.join = Conv(2 * half, outputs, 1, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([self.main(x), self.side(x)], 1))


def cspdarknet53_full() -> nn.Module:
    return cspdarknet53(32)


def cspdarknet53(stem: int = 8) -> nn.Module:
    layers: list[nn.Module] = [Conv(3, stem, activation=nn.Mish)]
    channels = stem
    for stage, depth in enumerate((1, 2, 8, 8, 4), 1):
        width = stem << stage
        layers += [Conv(channels, width, 3, 2, activation=nn.Mish), _CrossStage(width, width, depth, nn.Mish)]
        channels = width
    return nn.Sequential(*layers, classifier(channels))


class _PoolPyramid(nn.Module):
    """SPPF: the same 5x5 maximum once, twice and three times, concatenated."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = Conv(inputs, inputs // 2, 1, activation=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.join = Conv(2 * inputs, outputs, 1, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.squeeze(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.join(torch.cat(parts, 1))


class _SplitStage(nn.Module):
    """C2f of YOLOv8: one convolution, split in two; every bottleneck's result is kept and all are concatenated."""

    def __init__(self, inputs: int, outputs: int, depth: int, shortcut: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.split = Conv(inputs, outputs, 1, activation=nn.SiLU)
        bodies = [
            nn.Sequential(Conv(half, half, activation=nn.SiLU), Conv(half, half, activation=nn.SiLU))
            for _ in range(depth)
        ]
        self.blocks = nn.ModuleList(residual(body) if shortcut else body for body in bodies)
        self.join = Conv((2 + depth) * half, outputs, 1, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.split(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class _Yolo8(nn.Module):
    """YOLOv8: backbone, path aggregation, heads without anchors, boxes as expectations of 16 bins (DFL)."""

    bins = 16

    def __init__(self, width: int, classes: int, size: int) -> None:
        super().__init__()
        w1, w2, w3, w4 = width, 2 * width, 4 * width, 8 * width
        silu = nn.SiLU
        self.low = nn.Sequential(
            *(Conv(3, w1 // 2, 3, 2, activation=silu), Conv(w1 // 2, w1, 3, 2, activation=silu)),
            *(
                _SplitStage(w1, w1, 1, True),
                Conv(w1, w2, 3, 2, activation=silu),
                _SplitStage(w2, w2, 2, True),
            ),
        )
        self.middle = nn.Sequential(Conv(w2, w3, 3, 2, activation=silu), _SplitStage(w3, w3, 2, True))
        self.high = nn.Sequential(
            Conv(w3, w4, 3, 2, activation=silu), _SplitStage(w4, w4, 1, True), _PoolPyramid(w4, w4)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top_middle = _SplitStage(w4 + w3, w3, 1, False)
        self.top_low = _SplitStage(w3 + w2, w2, 1, False)
        self.down_low = Conv(w2, w2, 3, 2, activation=silu)
        self.bottom_middle = _SplitStage(w2 + w3, w3, 1, False)
        self.down_middle = Conv(w3, w3, 3, 2, activation=silu)
        self.bottom_high = _SplitStage(w3 + w4, w4, 1, False)

        def head(channels: int, outputs: int) -> nn.Module:
            convs = (Conv(channels, w2, activation=silu), Conv(w2, w2, activation=silu))
            return nn.Sequential(*convs, nn.Conv2d(w2, outputs, 1))

        self.boxes = nn.ModuleList(head(channels, 4 * self.bins) for channels in (w2, w3, w4))
        self.scores = nn.ModuleList(head(channels, classes) for channels in (w2, w3, w4))
        anchors: list[Tensor] = []
        strides: list[Tensor] = []
        for stride in (8, 16, 32):
            axis = torch.arange(size // stride) + 0.5
            rows, columns = torch.meshgrid(axis, axis, indexing="ij")
            anchors.append(torch.stack([columns, rows]).flatten(1))
            strides.append(torch.full((1, anchors[-1].shape[1]), float(stride)))
        self.register_buffer("anchors", torch.cat(anchors, 1))
        self.register_buffer("strides", torch.cat(strides, 1))
        self.register_buffer("bin_values", torch.arange(float(self.bins)).reshape(1, self.bins, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        middle = self.middle(low)
        high = self.high(middle)
        top = self.top_middle(torch.cat([self.up(high), middle], 1))
        first = self.top_low(torch.cat([self.up(top), low], 1))
        second = self.bottom_middle(torch.cat([self.down_low(first), top], 1))
        third = self.bottom_high(torch.cat([self.down_middle(second), high], 1))
        maps = [
            torch.cat([box(y), score(y)], 1).flatten(2)
            for y, box, score in zip((first, second, third), self.boxes, self.scores, strict=True)
        ]
        joined = torch.cat(maps, 2)
        n, channels, places = joined.shape
        boxes, scores = torch.split(joined, [4 * self.bins, channels - 4 * self.bins], 1)
        bins = boxes.reshape(n, 4, self.bins, places).transpose(1, 2).softmax(1)
        near, far = (bins * cast(Tensor, self.bin_values)).sum(1).chunk(2, 1)
        anchors, strides = cast(Tensor, self.anchors), cast(Tensor, self.strides)
        first_corner, last_corner = anchors - near, anchors + far
        centre = (first_corner + last_corner) / 2
        return torch.cat([torch.cat([centre, last_corner - first_corner], 1) * strides, scores.sigmoid()], 1)


def yolov8() -> nn.Module:
    return _Yolo8(16, 12, 96)


def yolov8_full() -> nn.Module:
    """YOLOv8n."""
    return _Yolo8(32, 80, 320)


class _Focus(nn.Module):
    """Every second pixel in both directions: four pictures of half the size, concatenated."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = Conv(12, outputs, activation=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(parts, 1))


class _YoloX(nn.Module):
    """YOLOX: focus stem, CSP backbone and neck, decoupled heads; boxes relative to the cells are decoded."""

    def __init__(self, width: int, classes: int, size: int) -> None:
        super().__init__()
        w1, w2, w3, w4 = width, 2 * width, 4 * width, 8 * width
        silu = nn.SiLU
        self.low = nn.Sequential(
            *(_Focus(w1 // 2), Conv(w1 // 2, w1, 3, 2, activation=silu), _CrossStage(w1, w1, 1, silu)),
            *(Conv(w1, w2, 3, 2, activation=silu), _CrossStage(w2, w2, 3, silu)),
        )
        self.middle = nn.Sequential(Conv(w2, w3, 3, 2, activation=silu), _CrossStage(w3, w3, 3, silu))
        self.high = nn.Sequential(
            Conv(w3, w4, 3, 2, activation=silu), _PoolPyramid(w4, w4), _CrossStage(w4, w4, 1, silu, False)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.lateral = nn.ModuleList([Conv(w4, w3, 1, activation=silu), Conv(w3, w2, 1, activation=silu)])
        self.top = nn.ModuleList(
            [_CrossStage(2 * w3, w3, 1, silu, False), _CrossStage(2 * w2, w2, 1, silu, False)]
        )
        self.down = nn.ModuleList([Conv(w2, w2, 3, 2, activation=silu), Conv(w3, w3, 3, 2, activation=silu)])
        self.bottom = nn.ModuleList(
            [_CrossStage(2 * w2, w3, 1, silu, False), _CrossStage(2 * w3, w4, 1, silu, False)]
        )

        def tower() -> nn.Module:
            return nn.Sequential(Conv(w2, w2, activation=silu), Conv(w2, w2, activation=silu))

        self.stems = nn.ModuleList(Conv(channels, w2, 1, activation=silu) for channels in (w2, w3, w4))
        self.class_towers = nn.ModuleList(tower() for _ in range(3))
        self.box_towers = nn.ModuleList(tower() for _ in range(3))
        self.classes = nn.ModuleList(nn.Conv2d(w2, classes, 1) for _ in range(3))
        self.boxes = nn.ModuleList(nn.Conv2d(w2, 4, 1) for _ in range(3))
        self.objects = nn.ModuleList(nn.Conv2d(w2, 1, 1) for _ in range(3))
        cells: list[Tensor] = []
        strides: list[Tensor] = []
        for stride in (8, 16, 32):
            axis = torch.arange(float(size // stride))
            rows, columns = torch.meshgrid(axis, axis, indexing="ij")
            cells.append(torch.stack([columns, rows], 2).reshape(1, -1, 2))
            strides.append(torch.full((1, cells[-1].shape[1], 1), float(stride)))
        self.register_buffer("cells", torch.cat(cells, 1))
        self.register_buffer("strides", torch.cat(strides, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        middle = self.middle(low)
        high = self.lateral[0](self.high(middle))
        top = self.lateral[1](self.top[0](torch.cat([self.up(high), middle], 1)))
        first = self.top[1](torch.cat([self.up(top), low], 1))
        second = self.bottom[0](torch.cat([self.down[0](first), top], 1))
        third = self.bottom[1](torch.cat([self.down[1](second), high], 1))
        levels: list[Tensor] = []
        for index, level in enumerate((first, second, third)):
            y = self.stems[index](level)
            scores = self.classes[index](self.class_towers[index](y)).sigmoid()
            y = self.box_towers[index](y)
            levels.append(
                torch.cat([self.boxes[index](y), self.objects[index](y).sigmoid(), scores], 1).flatten(2)
            )
        y = torch.cat(levels, 2).permute(0, 2, 1)
        cells, strides = cast(Tensor, self.cells), cast(Tensor, self.strides)
        centre = (y[..., :2] + cells) * strides
        extent = y[..., 2:4].clamp(max=4).exp() * strides
        return torch.cat([centre, extent, y[..., 4:]], 2)


def yolox() -> nn.Module:
    return _YoloX(16, 12, 96)


class _RetinaNet(nn.Module):
    """ResNet, feature pyramid, and two heads whose weights all five levels share."""

    def __init__(self, width: int, anchors: int, classes: int) -> None:
        super().__init__()
        stages = resnet_stages(basic_branch, (2, 2, 2, 2), 16, 1)
        self.stages = nn.ModuleList(stages)
        self.lateral = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in (32, 64, 128))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.sixth = nn.Conv2d(128, width, 3, 2, 1)
        self.seventh = nn.Conv2d(width, width, 3, 2, 1)

        def head(outputs: int) -> nn.Module:
            tower = [layer for _ in range(4) for layer in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())]
            return nn.Sequential(*tower, nn.Conv2d(width, outputs, 3, padding=1))

        self.class_head, self.box_head = head(anchors * classes), head(anchors * 4)
        self.class_count = classes

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        third, fourth, fifth = (side(y) for side, y in zip(self.lateral, features[1:], strict=True))
        fourth = fourth + F.interpolate(fifth, scale_factor=2.0, mode="nearest")
        third = third + F.interpolate(fourth, scale_factor=2.0, mode="nearest")
        levels = [smooth(y) for smooth, y in zip(self.smooth, (third, fourth, fifth), strict=True)]
        levels.append(self.sixth(x))
        levels.append(self.seventh(levels[-1].relu()))
        scores = [self._flat(self.class_head(y), self.class_count) for y in levels]
        boxes = [self._flat(self.box_head(y), 4) for y in levels]
        return torch.cat(scores, 1).sigmoid(), torch.cat(boxes, 1)

    @staticmethod
    def _flat(y: Tensor, last: int) -> Tensor:
        return y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, last)


def retinanet() -> nn.Module:
    return _RetinaNet(32, 3, 6)


class _Ssd(nn.Module):
    """SSD: predictions from maps of falling size, channels normalized by their length in the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), Conv(32, 32))
        self.second = nn.Sequential(Conv(32, 32, 1), Conv(32, 64, 3, 2))
        self.third = nn.Sequential(Conv(64, 32, 1), Conv(32, 64, 3, 2))
        self.scale = nn.Parameter(torch.full((1, 32, 1, 1), 4.0))
        self.scores = nn.ModuleList(nn.Conv2d(width, 4 * 5, 3, padding=1) for width in (32, 64, 64))
        self.boxes = nn.ModuleList(nn.Conv2d(width, 4 * 4, 3, padding=1) for width in (32, 64, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.first(x)
        second = self.second(first)
        third = self.third(second)
        maps = (F.normalize(first, dim=1) * self.scale, second, third)
        scores = [s(y).permute(0, 2, 3, 1).flatten(1) for s, y in zip(self.scores, maps, strict=True)]
        boxes = [b(y).permute(0, 2, 3, 1).flatten(1) for b, y in zip(self.boxes, maps, strict=True)]
        n = x.shape[0]
        return torch.cat(boxes, 1).reshape(n, -1, 4).sigmoid(), torch.cat(scores, 1).reshape(
            n, -1, 5
        ).softmax(2)


def ssd() -> nn.Module:
    return _Ssd()


class _CenterNet(nn.Module):
    """Peaks of a heat map by a maximum pool, the best by TopK, their sizes by a gather."""

    def __init__(self, best: int) -> None:
        super().__init__()
        self.best = best
        self.body = nn.Sequential(*resnet_stages(basic_branch, (1, 1, 1), 16, 1))
        ups = [nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU()]
        self.up = nn.Sequential(*ups, nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.heat = nn.Sequential(Conv(32, 32), nn.Conv2d(32, 5, 1))
        self.size = nn.Sequential(Conv(32, 32), nn.Conv2d(32, 2, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.up(self.body(x))
        heat = self.heat(y).sigmoid()
        peaks = torch.where(F.max_pool2d(heat, 3, 1, 1) == heat, heat, torch.zeros_like(heat))
        scores, places = peaks.flatten(1).topk(self.best)
        cells = places % (y.shape[2] * y.shape[3])
        sizes = self.size(y).flatten(2).transpose(1, 2)
        return scores, places, sizes.gather(1, cells.unsqueeze(2).expand(-1, -1, 2))


def centernet() -> nn.Module:
    return _CenterNet(20)


class _Decoder(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.own = Residual(nn.LayerNorm(width), Attention(width, heads))
        self.norm = nn.LayerNorm(width)
        self.cross = CrossAttention(width, heads)
        self.mix = Residual(nn.LayerNorm(width), mlp(width, 2, nn.ReLU))

    def forward(self, queries: Tensor, memory: Tensor) -> Tensor:
        queries = self.own(queries)
        return self.mix(queries + self.cross(self.norm(queries), memory))


class _Detr(nn.Module):
    """DETR: a ResNet's map as tokens, transformer encoder, learned queries decoded to classes and boxes."""

    def __init__(self, width: int, queries: int, places: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*resnet_stages(basic_branch, (2, 2, 2, 2), 16, 1))
        self.project = nn.Conv2d(128, width, 1)
        self.positions = nn.Parameter(torch.randn(1, places, width))
        self.encoder = nn.Sequential(
            *(
                Residual(nn.LayerNorm(width), body)
                for _ in range(2)
                for body in (Attention(width, 4), mlp(width, 2))
            )
        )
        self.queries = nn.Parameter(torch.randn(1, queries, width))
        self.decoder = nn.ModuleList(_Decoder(width, 4) for _ in range(2))
        self.classes = nn.Linear(width, 7)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.encoder(self.project(self.body(x)).flatten(2).transpose(1, 2) + self.positions)
        y = self.queries.expand(x.shape[0], -1, -1)
        for block in self.decoder:
            y = block(y, memory)
        return self.classes(y), self.boxes(y)


def detr() -> nn.Module:
    return _Detr(32, 10, 9)
