// One attention block: three projections, four heads, softmax(Q K^T / sqrt(d)) V, the heads joined, a skip.
//   layout-ir optimize examples/attention.mlir --target avx2 --report

func.func @main(%tokens : tensor<2x16x32xf32>) -> tensor<2x16x32xf32> {
  %x = layout.reorder %tokens : tensor<2x16x32xf32> -> tensor<2x16x32xf32, #layout.any>
  %wq = nn.constant dense<0.02> : tensor<32x32xf32, #layout.any>
  %wk = nn.constant dense<-0.03> : tensor<32x32xf32, #layout.any>
  %wv = nn.constant dense<0.05> : tensor<32x32xf32, #layout.any>
  %q0 = nn.matmul %x, %wq : (tensor<2x16x32xf32, #layout.any>, tensor<32x32xf32, #layout.any>) -> tensor<2x16x32xf32, #layout.any>
  %k0 = nn.matmul %x, %wk : (tensor<2x16x32xf32, #layout.any>, tensor<32x32xf32, #layout.any>) -> tensor<2x16x32xf32, #layout.any>
  %v0 = nn.matmul %x, %wv : (tensor<2x16x32xf32, #layout.any>, tensor<32x32xf32, #layout.any>) -> tensor<2x16x32xf32, #layout.any>

  // (batch, token, head, channel) to (batch, head, token, channel); K also to (batch, head, channel, token).
  %q1 = layout.reshape %q0 : tensor<2x16x32xf32, #layout.any> -> tensor<2x16x4x8xf32, #layout.any>
  %q = layout.permute %q1 perm = [0, 2, 1, 3] : tensor<2x16x4x8xf32, #layout.any> -> tensor<2x4x16x8xf32, #layout.any>
  %k1 = layout.reshape %k0 : tensor<2x16x32xf32, #layout.any> -> tensor<2x16x4x8xf32, #layout.any>
  %k = layout.permute %k1 perm = [0, 2, 3, 1] : tensor<2x16x4x8xf32, #layout.any> -> tensor<2x4x8x16xf32, #layout.any>
  %v1 = layout.reshape %v0 : tensor<2x16x32xf32, #layout.any> -> tensor<2x16x4x8xf32, #layout.any>
  %v = layout.permute %v1 perm = [0, 2, 1, 3] : tensor<2x16x4x8xf32, #layout.any> -> tensor<2x4x16x8xf32, #layout.any>

  %scores = nn.matmul %q, %k : (tensor<2x4x16x8xf32, #layout.any>, tensor<2x4x8x16xf32, #layout.any>) -> tensor<2x4x16x16xf32, #layout.any>
  %scale = nn.constant dense<0.353553> : tensor<1xf32, #layout.any>
  %scaled = nn.mul %scores, %scale : (tensor<2x4x16x16xf32, #layout.any>, tensor<1xf32, #layout.any>) -> tensor<2x4x16x16xf32, #layout.any>
  %weights = nn.softmax %scaled axis = 3 : tensor<2x4x16x16xf32, #layout.any>
  %mixed = nn.matmul %weights, %v : (tensor<2x4x16x16xf32, #layout.any>, tensor<2x4x16x8xf32, #layout.any>) -> tensor<2x4x16x8xf32, #layout.any>

  %back = layout.permute %mixed perm = [0, 2, 1, 3] : tensor<2x4x16x8xf32, #layout.any> -> tensor<2x16x4x8xf32, #layout.any>
  %joined = layout.reshape %back : tensor<2x16x4x8xf32, #layout.any> -> tensor<2x16x32xf32, #layout.any>
  %wo = nn.constant dense<0.04> : tensor<32x32xf32, #layout.any>
  %out = nn.matmul %joined, %wo : (tensor<2x16x32xf32, #layout.any>, tensor<32x32xf32, #layout.any>) -> tensor<2x16x32xf32, #layout.any>
  %sum = nn.add %out, %x : tensor<2x16x32xf32, #layout.any>
  %y = layout.reorder %sum : tensor<2x16x32xf32, #layout.any> -> tensor<2x16x32xf32>
  func.return %y : tensor<2x16x32xf32>
}
