// RUN: stereo-opt %s --split-input-file --verify-diagnostics

func.func @no_tracks(%l : tensor<480xf32>, %r : tensor<480xf32>) {
  // expected-error @below {{sound has a dim of samples and one of tracks, tensor<480xf32> has not}}
  %m = stereo.mid %l, %r : tensor<480xf32>
  func.return
}
