"""Networks around one special thing: points, graphs, video, a grid to sample by, an activation, a normalization."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.zoo.blocks import Add, Conv, classifier, residual, shuffle_channels


class _PointTransform(nn.Module):
    """A matrix per cloud that turns its points (T-Net)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.points = nn.Sequential(
            nn.Conv1d(width, 16, 1),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Conv1d(16, 64, 1),
            nn.BatchNorm1d(64),
            nn.ReLU(),
        )
        self.matrix = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, width * width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.points(x).amax(2)
        matrix = self.matrix(y).reshape(-1, self.width, self.width) + torch.eye(self.width)
        return torch.bmm(x.transpose(2, 1), matrix).transpose(2, 1)


class _Maximum(nn.Module):
    """The maximum over the last dim."""

    def forward(self, x: Tensor) -> Tensor:
        return x.max(-1)[0]


def pointnet() -> nn.Module:
    def shared(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU())

    return nn.Sequential(
        *(_PointTransform(3), shared(3, 16), _PointTransform(16), shared(16, 32), shared(32, 128)),
        *(_Maximum(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 10), nn.LogSoftmax(1)),
    )


class _Neighbours(nn.Module):
    """DGCNN: each point with its nearest four, found by distances and TopK, gathered, convolved in 2-D."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(2 * inputs, outputs, 1), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)
        )

    def forward(self, x: Tensor) -> Tensor:
        n, channels, count = x.shape
        inner = torch.matmul(x.transpose(2, 1), x)
        squares = x.square().sum(1, keepdim=True)
        nearest = (2 * inner - squares - squares.transpose(2, 1)).topk(4, -1)[1]
        index = nearest.reshape(n, 1, count * 4).expand(-1, channels, -1)
        near = x.gather(2, index).reshape(n, channels, count, 4)
        centre = x.unsqueeze(3).expand(-1, -1, -1, 4)
        return self.conv(torch.cat([near - centre, centre], 1)).amax(3)


def dgcnn() -> nn.Module:
    return nn.Sequential(_Neighbours(3, 16), _Neighbours(16, 32), _Maximum(), nn.Linear(32, 10))


class _GraphConvolution(nn.Module):
    """GCN: features mixed by a normalized adjacency matrix that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, 5)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        degrees = adjacency.abs().sum(-1, keepdim=True) + 1.0
        mixing = adjacency / degrees
        return self.second(mixing @ F.relu(self.first(mixing @ features))).log_softmax(-1)


def graph_convolution() -> nn.Module:
    return _GraphConvolution()


def c3d() -> nn.Module:
    """Video by 3-D convolutions."""

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv3d(inputs, outputs, 3, padding=1), nn.BatchNorm3d(outputs), nn.ReLU()]

    return nn.Sequential(
        *(*block(3, 8), nn.MaxPool3d((1, 2, 2)), *block(8, 16), nn.MaxPool3d(2), *block(16, 32)),
        *(nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def r2plus1d() -> nn.Module:
    """Video by convolutions in space, then in time, with residuals."""

    def conv(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        middle = 2 * outputs
        space = nn.Conv3d(inputs, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        time = nn.Conv3d(middle, outputs, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)
        return [space, nn.BatchNorm3d(middle), nn.ReLU(), time, nn.BatchNorm3d(outputs)]

    def block(inputs: int, outputs: int, stride: int) -> nn.Module:
        body = nn.Sequential(*conv(inputs, outputs, stride), nn.ReLU(), *conv(outputs, outputs, 1))
        if stride == 1:
            return residual(body, nn.ReLU)
        side = nn.Sequential(nn.Conv3d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm3d(outputs))
        return Add(body, side, nn.ReLU)

    blocks = (block(8, 8, 1), block(8, 16, 2), block(16, 32, 2))
    return nn.Sequential(
        *conv(3, 8, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 10)
    )


class _SpatialTransformer(nn.Module):
    """A small network says how the picture is to be turned; it is sampled by that grid, then classified."""

    def __init__(self) -> None:
        super().__init__()
        self.locate = nn.Sequential(Conv(1, 8, 7, 2), Conv(8, 8, 5, 2), nn.Flatten(), nn.Linear(8 * 49, 6))
        axis = torch.linspace(-1, 1, 28)
        rows, columns = torch.meshgrid(axis, axis, indexing="ij")
        self.places = nn.Parameter(torch.stack([columns, rows, torch.ones_like(rows)], 2).reshape(1, 784, 3))
        self.body = nn.Sequential(Conv(1, 16, 3, 2), Conv(16, 32, 3, 2), classifier(32))

    def forward(self, x: Tensor) -> Tensor:
        turn = self.locate(x).reshape(-1, 2, 3) * 0.2 + torch.eye(2, 3)
        grid = torch.matmul(self.places, turn.transpose(1, 2)).reshape(-1, 28, 28, 2)
        return self.body(F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False))


def spatial_transformer() -> nn.Module:
    return _SpatialTransformer()


def _activated(activation: Callable[[int], nn.Module]) -> nn.Module:
    """A small residual network; the activation is made for a number of channels."""

    def conv(inputs: int, outputs: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), activation(outputs))

    return nn.Sequential(conv(3, 16, 2), residual(conv(16, 16, 1)), conv(16, 32, 2), classifier(32))


def prelu() -> nn.Module:
    return _activated(nn.PReLU)


def hardswish() -> nn.Module:
    return _activated(lambda _: nn.Hardswish())


def gelu() -> nn.Module:
    return _activated(lambda _: nn.GELU())


def mish() -> nn.Module:
    return _activated(lambda _: nn.Mish())


def silu() -> nn.Module:
    return _activated(lambda _: nn.SiLU())


def elu() -> nn.Module:
    return _activated(lambda _: nn.ELU())


class _AlexNet(nn.Module):
    """AlexNet's beginning: local response normalization across channels, overlapping pools, grouped convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 11, 4, 2), nn.Conv2d(16, 32, 5, padding=2, groups=2)
        self.norm, self.pool = nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(1568, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        for conv in (self.first, self.second):
            x = self.pool(self.norm(F.relu(conv(x))))
        return self.head(x)


def alexnet() -> nn.Module:
    return _AlexNet()


class _ChannelShuffle(nn.Module):
    """Channels are shuffled in two groups between grouped convolutions, once more than needed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Conv(3, 24, 3, 2), Conv(24, 24, 1, groups=4)
        self.third, self.head = Conv(24, 24, groups=2), classifier(24)

    def forward(self, x: Tensor) -> Tensor:
        y = shuffle_channels(self.second(self.first(x)), 4)
        return self.head(shuffle_channels(shuffle_channels(self.third(y), 2), 12))


def channel_shuffle() -> nn.Module:
    return _ChannelShuffle()


class _Siamese(nn.Module):
    """Two pictures through the same network, and their distance."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), classifier(32, 16))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return (self.body(left) - self.body(right)).square().sum(1).sqrt()


def siamese() -> nn.Module:
    return _Siamese()


class _Field(nn.Module):
    """NeRF: positions as sines of rising frequency, an MLP that sees them again in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(39, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(87, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, points: Tensor) -> Tensor:
        waves = [f(points * 2.0**octave) for octave in range(6) for f in (torch.sin, torch.cos)]
        x = torch.cat([points, *waves], -1)
        return self.second(torch.cat([x, self.first(x)], -1))


def radiance_field() -> nn.Module:
    return _Field()


class _Deployed(nn.Module):
    """What a deployed model has around the network: bytes in NHWC, normalized, transposed; probabilities out."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([0.485, 0.456, 0.406]))
        self.deviation = nn.Parameter(torch.tensor([0.229, 0.224, 0.225]))
        self.body = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), classifier(32))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        x = (pixels.float() / 255.0 - self.mean) / self.deviation
        scores = self.body(x.permute(0, 3, 1, 2))
        return scores.softmax(1), scores.argmax(1)


def deployed() -> nn.Module:
    return _Deployed()
