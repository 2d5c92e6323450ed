"""Networks with LSTM, GRU and RNN: taggers, text in pictures, speech, pictures over time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.zoo.blocks import Conv


class _Tagger(nn.Module):
    """Embeddings, a recurrent network (batch first), one class per token."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU] | type[nn.RNN], layers: int, both: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.recurrent: nn.Module = kind(32, 24, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(48 if both else 24, 9)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.recurrent(self.words(input_ids))[0])


def lstm_tagger() -> nn.Module:
    return _Tagger(nn.LSTM, 2, True)


def gru_tagger() -> nn.Module:
    return _Tagger(nn.GRU, 2, True)


def rnn_tagger() -> nn.Module:
    return _Tagger(nn.RNN, 1, False)


class _Crnn(nn.Module):
    """CRNN: the columns of a picture as a sequence, read by two LSTMs in both directions (sequence first)."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d((2, 2), (2, 1), (0, 1))
        self.convs = nn.Sequential(
            *(Conv(1, 16), nn.MaxPool2d(2), Conv(16, 32), nn.MaxPool2d(2), Conv(32, 48), Conv(48, 48), pool),
            *(
                Conv(48, 64),
                Conv(64, 64),
                nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
                nn.Conv2d(64, 64, 2),
                nn.ReLU(),
            ),
        )
        self.first = nn.LSTM(64, 32, bidirectional=True)
        self.between = nn.Linear(64, 32)
        self.second = nn.LSTM(32, 32, bidirectional=True)
        self.head = nn.Linear(64, 37)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convs(x).squeeze(2).permute(2, 0, 1)
        y = self.between(self.first(y)[0])
        return self.head(self.second(y)[0]).log_softmax(2)


def crnn() -> nn.Module:
    return _Crnn()


class _DeepSpeech(nn.Module):
    """Deep Speech 2: 2-D convolutions over the spectrogram, GRUs with batch normalization between them."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            *(nn.Conv2d(1, 8, (11, 5), (2, 2), (5, 2)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20)),
            *(nn.Conv2d(8, 8, (11, 5), (2, 1), (5, 2)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20)),
        )
        self.first, self.second = nn.GRU(40, 24, bidirectional=True), nn.GRU(24, 24, bidirectional=True)
        self.norm, self.head = nn.BatchNorm1d(24), nn.Linear(24, 29)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convs(x)
        n, channels, frequencies, length = y.shape
        y = y.reshape(n, channels * frequencies, length).permute(2, 0, 1)
        y = self._added(self.first(y)[0])
        y = self.norm(y.permute(1, 2, 0)).permute(2, 0, 1)
        return self.head(self._added(self.second(y)[0]))

    @staticmethod
    def _added(y: Tensor) -> Tensor:
        """Both directions of a recurrent network, added."""
        left, right = y.chunk(2, 2)
        return left + right


def deep_speech() -> nn.Module:
    return _DeepSpeech()


class _ConvLstm(nn.Module):
    """A convolutional LSTM over a few pictures, unrolled: what weather forecasts use."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(1 + width, 4 * width, 3, padding=1)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, steps, _, height, width = x.shape
        hidden = torch.zeros(n, self.width, height, width)
        cell = torch.zeros(n, self.width, height, width)
        results: list[Tensor] = []
        for step in range(steps):
            i, f, o, g = self.gates(torch.cat([x[:, step], hidden], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            results.append(self.head(hidden))
        return torch.stack(results, 1)


def conv_lstm() -> nn.Module:
    return _ConvLstm(12)


class _Captioner(nn.Module):
    """A picture's channels as the first state of a GRU that reads a text."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.words, self.recurrent, self.head = nn.Embedding(50, 16), nn.GRU(16, 32), nn.Linear(32, 50)

    def forward(self, pixels: Tensor, input_ids: Tensor) -> Tensor:
        state = self.body(pixels).unsqueeze(0)
        return self.head(self.recurrent(self.words(input_ids).transpose(0, 1), state)[0]).transpose(0, 1)


def captioner() -> nn.Module:
    return _Captioner()
