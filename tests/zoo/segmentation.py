"""Networks whose output is a picture of classes: what was made smaller is made large again."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Add, Cat, ChannelNorm, Conv, SqueezeExcite, residual
from tests.zoo.classification import basic_branch, resnet_stages


def _twice(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(Conv(inputs, outputs), Conv(outputs, outputs))


class _UNet(nn.Module):
    """Four halvings, four doublings, and a concatenation at every resolution."""

    def __init__(self, width: int, classes: int, transposed: bool) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.pool = nn.MaxPool2d(2)
        ups: list[nn.Module] = []
        for level in range(4):
            if transposed:
                ups.append(nn.ConvTranspose2d(widths[level + 1], widths[level], 2, 2))
            else:
                grow = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
                ups.append(nn.Sequential(grow, nn.Conv2d(widths[level + 1], widths[level], 1)))
        self.up = nn.ModuleList(ups)
        self.mix = nn.ModuleList(_twice(2 * w, w) for w in widths[:4])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            kept.append(x)
        for level in (3, 2, 1, 0):
            x = self.mix[level](torch.cat([kept[level], self.up[level](x)], 1))
        return self.head(x)


def unet_transposed() -> nn.Module:
    return _UNet(8, 4, True)


def unet_resized() -> nn.Module:
    return _UNet(8, 4, False)


class _UNet3d(nn.Module):
    """Two levels of a U-Net over volumes."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), nn.BatchNorm3d(outputs), nn.ReLU())

        self.first, self.second = block(1, width), block(width, 2 * width)
        self.third = block(2 * width, 4 * width)
        self.pool = nn.MaxPool3d(2)
        self.up_second = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2)
        self.up_first = nn.ConvTranspose3d(2 * width, width, 2, 2)
        self.mix_second, self.mix_first = block(4 * width, 2 * width), block(2 * width, width)
        self.head = nn.Conv3d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        second = self.second(self.pool(first))
        y = self.up_second(self.third(self.pool(second)))
        y = self.up_first(self.mix_second(torch.cat([second, y], 1)))
        return self.head(self.mix_first(torch.cat([first, y], 1)))


def unet_3d() -> nn.Module:
    return _UNet3d(8)


class _Enlarged(nn.Module):
    """A body whose result is enlarged to the size of its input."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(self.body(x), size=x.shape[2:], mode="bilinear", align_corners=False)


def _pooled(inputs: int, outputs: int, size: int) -> nn.Module:
    """The picture in `size` x `size` means, enlarged again."""
    return _Enlarged(nn.Sequential(nn.AdaptiveAvgPool2d(size), Conv(inputs, outputs, 1)))


class _DeepLab(nn.Module):
    """A dilated ResNet, pyramid of dilations (ASPP); version 3+ joins an early map before the last convolutions."""

    def __init__(self, joins: bool) -> None:
        super().__init__()
        stages = resnet_stages(basic_branch, (2, 2, 2), 16, 1)
        dilated = Add(
            nn.Sequential(Conv(64, 128, dilation=2), Conv(128, 128, dilation=2, activation=None)),
            Conv(64, 128, 1, activation=None),
            nn.ReLU,
        )
        self.low = stages[0]
        self.high = nn.Sequential(stages[1], stages[2], dilated)
        self.pyramid = nn.Sequential(
            Cat(Conv(128, 32, 1), *(Conv(128, 32, dilation=d) for d in (6, 12, 18)), _pooled(128, 32, 1)),
            Conv(160, 32, 1),
        )
        self.side = Conv(16, 12, 1) if joins else None
        self.head = nn.Sequential(Conv(44 if joins else 32, 32), nn.Conv2d(32, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.low(x)
        y = self.pyramid(self.high(low))
        if self.side is not None:
            y = F.interpolate(y, size=low.shape[2:], mode="bilinear", align_corners=False)
            y = torch.cat([y, self.side(low)], 1)
        return F.interpolate(self.head(y), size=x.shape[2:], mode="bilinear", align_corners=False)


def deeplabv3() -> nn.Module:
    return _DeepLab(False)


def deeplabv3_plus() -> nn.Module:
    return _DeepLab(True)


def pspnet() -> nn.Module:
    """Means over 1, 2, 4 and 8 parts of each side, enlarged and concatenated with the map they are of."""
    body = nn.Sequential(*resnet_stages(basic_branch, (2, 2, 2), 16, 1))
    pools = (_pooled(64, 16, size) for size in (1, 2, 4, 8))
    return _Enlarged(nn.Sequential(body, Cat(nn.Identity(), *pools), Conv(128, 32), nn.Conv2d(32, 5, 1)))


class _Fusion(nn.Module):
    """HRNet's fusion: every resolution becomes the sum of all of them, each brought to its size."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(
            residual(nn.Sequential(Conv(w, w), Conv(w, w, activation=None)), nn.ReLU) for w in widths
        )
        rows: list[nn.Module] = []
        for to, outputs in enumerate(widths):
            row: list[nn.Module] = []
            for origin, inputs in enumerate(widths):
                if origin > to:
                    grow = nn.Upsample(scale_factor=2 ** (origin - to), mode="nearest")
                    row.append(nn.Sequential(Conv(inputs, outputs, 1, activation=None), grow))
                else:
                    steps = [Conv(inputs, inputs, 3, 2) for _ in range(to - origin - 1)]
                    last = [Conv(inputs, outputs, 3, 2, activation=None)] if to > origin else []
                    row.append(nn.Sequential(*steps, *last))
            rows.append(nn.ModuleList(row))
        self.rows = nn.ModuleList(rows)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        levels = [body(x) for body, x in zip(self.bodies, levels, strict=True)]
        results: list[Tensor] = []
        for row in self.rows:
            assert isinstance(row, nn.ModuleList)
            parts = [to(x) for to, x in zip(row, levels, strict=True)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            results.append(total.relu())
        return results


class _HrNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 16, 3, 2))
        self.branches = nn.ModuleList([Conv(16, 32, 3, 2), Conv(32, 64, 3, 2)])
        self.stages = nn.ModuleList([_Fusion((16, 32)), _Fusion((16, 32, 64)), _Fusion((16, 32, 64))])
        self.head = nn.Sequential(Conv(112, 48, 1), nn.Conv2d(48, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.stem(x)]
        for index, stage in enumerate(self.stages):
            if index < 2:
                levels.append(self.branches[index](levels[-1]))
            levels = stage(levels)
        size = levels[0].shape[2:]
        grown = [F.interpolate(y, size=size, mode="bilinear", align_corners=False) for y in levels[1:]]
        return self.head(torch.cat([levels[0], *grown], 1))


def hrnet() -> nn.Module:
    return _HrNet()


class _ReducedAttention(nn.Module):
    """SegFormer's attention: keys and values from a picture that a strided convolution made smaller."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.keys_values = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.reduce = nn.Conv2d(width, width, reduction, reduction) if reduction > 1 else None
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor, height: int, width: int) -> Tensor:
        n, length, channels = x.shape
        small = x
        if self.reduce is not None:
            picture = x.transpose(1, 2).reshape(n, channels, height, width)
            small = self.norm(self.reduce(picture).flatten(2).transpose(1, 2))
        depth = channels // self.heads
        q = self.query(x).reshape(n, length, self.heads, depth).permute(0, 2, 1, 3)
        k, v = self.keys_values(small).reshape(n, -1, 2, self.heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * depth**-0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, channels))


class _SegFormerBlock(nn.Module):
    """Reduced attention, then an MLP with a depthwise convolution in its middle."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = _ReducedAttention(width, heads, reduction)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.depthwise = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)

    def forward(self, x: Tensor, height: int, width: int) -> Tensor:
        x = x + self.attention(self.norms[0](x), height, width)
        y = self.wide(self.norms[1](x))
        picture = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], height, width)
        return x + self.narrow(F.gelu(self.depthwise(picture).flatten(2).transpose(1, 2)))


class _SegFormer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 48, 64)
        kernels = ((7, 4), (3, 2), (3, 2), (3, 2))
        self.patches = nn.ModuleList(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)
            for inputs, outputs, (kernel, stride) in zip((3, *widths), widths, kernels, strict=False)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths)
        self.ends = nn.ModuleList(nn.LayerNorm(width) for width in widths)
        self.stages = nn.ModuleList(
            nn.ModuleList(_SegFormerBlock(width, heads, reduction) for _ in range(2))
            for width, heads, reduction in zip(widths, (1, 2, 3, 4), (8, 4, 2, 1), strict=True)
        )
        self.sides = nn.ModuleList(nn.Linear(width, 32) for width in widths)
        self.head = nn.Sequential(Conv(128, 32, 1), nn.Conv2d(32, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        levels: list[Tensor] = []
        for index, stage in enumerate(self.stages):
            assert isinstance(stage, nn.ModuleList)
            x = self.patches[index](x)
            height, width = x.shape[2:]
            y = self.norms[index](x.flatten(2).transpose(1, 2))
            for block in stage:
                y = block(y, height, width)
            y = self.ends[index](y)
            x = y.transpose(1, 2).reshape(y.shape[0], -1, height, width)
            flat = self.sides[index](y).transpose(1, 2).reshape(y.shape[0], -1, height, width)
            levels.append(flat)
        size = levels[0].shape[2:]
        grown = [F.interpolate(level, size=size, mode="bilinear", align_corners=False) for level in levels]
        return self.head(torch.cat(grown[::-1], 1))


def segformer() -> nn.Module:
    return _SegFormer()


class _BiSeNet(nn.Module):
    """BiSeNet: a path that keeps details, one that sees far, and their fusion by squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.detail = nn.Sequential(Conv(3, 16, 7, 2), Conv(16, 16, 3, 2), Conv(16, 32, 3, 2))
        self.context = nn.Sequential(*resnet_stages(basic_branch, (1, 1, 1), 16, 1))
        self.refine = SqueezeExcite(64, 16)
        self.fuse = Conv(96, 32, 1)
        self.weigh = SqueezeExcite(32, 8)
        self.head = nn.Conv2d(32, 5 * 64, 1)
        self.grow = nn.PixelShuffle(8)

    def forward(self, x: Tensor) -> Tensor:
        detail = self.detail(x)
        context = F.interpolate(self.refine(self.context(x)), size=detail.shape[2:], mode="nearest")
        y = self.fuse(torch.cat([detail, context], 1))
        return self.grow(self.head(y + self.weigh(y)))


def bisenet() -> nn.Module:
    return _BiSeNet()


def fcn() -> nn.Module:
    """The fully convolutional network: strided convolutions, one large transposed one, classes by argmax."""
    return nn.Sequential(
        *(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), ChannelNorm(32), Conv(32, 64, 3, 2)),
        *(nn.Conv2d(64, 5, 1), nn.ConvTranspose2d(5, 5, 16, 8, 4, groups=5, bias=False), _Argmax()),
    )


class _Argmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(1)
