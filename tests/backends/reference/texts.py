"""Programs as text: how they are read, and a small network with an op of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NETWORK = """
func.func @main(%x : tensor<2x13x9x10xf32>, %w : tensor<10x13x3x3xf32>, %b : tensor<10xf32>, %v : tensor<6x13x1x1xf32>,
                %g : tensor<16x7xf32>, %s : tensor<16xf32>) -> (tensor<2x7xf32>, tensor<2x5x4x16xf32>) {
  %0 = nn.conv %x, %w, %b strides = [2, 2] pads = [1, 0, 1, 1]
    : (tensor<2x13x9x10xf32>, tensor<10x13x3x3xf32>, tensor<10xf32>) -> tensor<2x10x5x5xf32>
  %1 = nn.relu %0 : tensor<2x10x5x5xf32>
  %2 = nn.max_pool %1 kernel = [1, 2] : (tensor<2x10x5x5xf32>) -> tensor<2x10x5x4xf32>
  %3 = nn.avg_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 0, 1, 0]
    : (tensor<2x13x9x10xf32>) -> tensor<2x13x5x4xf32>
  %4 = nn.conv %3, %v : (tensor<2x13x5x4xf32>, tensor<6x13x1x1xf32>) -> tensor<2x6x5x4xf32>
  %5 = nn.concat %2, %4 axis = 1 : (tensor<2x10x5x4xf32>, tensor<2x6x5x4xf32>) -> tensor<2x16x5x4xf32>
  %6 = nn.lrn %5 size = 3 : tensor<2x16x5x4xf32>
  %7 = nn.add %5, %6 : tensor<2x16x5x4xf32>
  %8 = nn.batch_norm %7, %s, %s, %s, %s : (tensor<2x16x5x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>,
    tensor<16xf32>) -> tensor<2x16x5x4xf32>
  %9 = nn.global_avg_pool %8 : (tensor<2x16x5x4xf32>) -> tensor<2x16x1x1xf32>
  %10 = layout.reshape %9 : tensor<2x16x1x1xf32> -> tensor<2x16xf32>
  %11 = nn.gemm %10, %g : (tensor<2x16xf32>, tensor<16x7xf32>) -> tensor<2x7xf32>
  %12 = nn.softmax %11 : tensor<2x7xf32>
  %13 = layout.permute %7 perm = [0, 2, 3, 1] : tensor<2x16x5x4xf32> -> tensor<2x5x4x16xf32>
  func.return %12, %13 : tensor<2x7xf32>, tensor<2x5x4x16xf32>
}
"""


def network_inputs() -> list[NDArray[Any]]:
    random = np.random.default_rng(0)
    shapes = [(2, 13, 9, 10), (10, 13, 3, 3), (10,), (6, 13, 1, 1), (16, 7), (16,)]
    return [random.uniform(0.1, 1, shape).astype(np.float32) for shape in shapes]
