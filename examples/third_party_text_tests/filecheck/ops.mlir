// RUN: stereo-opt %s | stereo-opt | filecheck %s
// RUN: stereo-opt %s --print-op-generic | stereo-opt | filecheck %s

#cn = #layout.format<(n, c) : [c, n]>

// CHECK-LABEL: func.func @mid
// CHECK-NEXT:    %m = stereo.mid %l, %r : tensor<480x2xf32, #cn>
func.func @mid(%l : tensor<480x2xf32, #cn>, %r : tensor<480x2xf32, #cn>) {
  %m = stereo.mid %l, %r : tensor<480x2xf32, #cn>
  func.return
}
