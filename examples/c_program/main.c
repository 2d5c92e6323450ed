/* A C program around the reorders of network.mlir: it does between them what the network computes.
 *
 *   layout-ir compile-reorders network.mlir -o reorders.o --header reorders.h
 *   cc -O2 main.c reorders.o -o main
 *   ./main > sum.f32
 *
 * Output: x + y as floats, 2x17x5x4, channels last.
 */
#include <stdio.h>
#include <stdlib.h>

#include "reorders.h"

enum { N = 2, C = 17, H = 5, W = 4 };

/* Layout.expression() of nChw8c at this shape: where element (n, c, h, w) is. */
#define BLOCKED(n, c, h, w) ((n) * 480 + (c) / 8 * 160 + (h) * 32 + (w) * 8 + (c) % 8)

/* Names of one reorder's buffers and functions, from network.mlir by way of reorders.h. */
#define TO_BLOCKS reorder_nchw_to_nChw8c_2x17x5x4_f32
#define PLAIN_BYTES REORDER_NCHW_TO_NCHW8C_2X17X5X4_F32_SRC_BYTES
#define BLOCKED_BYTES REORDER_NCHW_TO_NCHW8C_2X17X5X4_F32_DST_BYTES
#define TO_CHANNELS_LAST reorder_nChw8c_to_nhwc_2x17x5x4_f32

int main(void) {
  float *x = malloc(PLAIN_BYTES), *y = malloc(PLAIN_BYTES), *result = malloc(PLAIN_BYTES);
  float *a = malloc(BLOCKED_BYTES), *b = malloc(BLOCKED_BYTES);
  if (!x || !y || !result || !a || !b) return 1;
  for (int i = 0; i < N * C * H * W; i++) {
    x[i] = (float)i;
    y[i] = 0.5f * (float)(i % 7);
  }
  TO_BLOCKS(x, a);
  TO_BLOCKS(y, b);
  for (int n = 0; n < N; n++)
    for (int c = 0; c < C; c++)
      for (int h = 0; h < H; h++)
        for (int w = 0; w < W; w++) a[BLOCKED(n, c, h, w)] += b[BLOCKED(n, c, h, w)];
  TO_CHANNELS_LAST(a, result);
  fwrite(result, 1, PLAIN_BYTES, stdout);
  free(x), free(y), free(result), free(a), free(b);
  return ferror(stdout) != 0;
}
