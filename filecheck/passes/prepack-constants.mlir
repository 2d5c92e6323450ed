// RUN: layout-opt %s -p layout-prepack-constants | filecheck %s

#oihw = #layout.tag<oihw>
#OIhw8i8o = #layout.tag<OIhw8i8o>

// CHECK-LABEL: func.func @packed(
// CHECK-NEXT:    %w = nn.constant dense<1.0{{.*}}> : tensor<8x8x3x3xf32, #OIhw8i8o>
// CHECK-NEXT:    func.return %w
func.func @packed() -> tensor<8x8x3x3xf32, #OIhw8i8o> {
  %w = nn.constant dense<1.0> : tensor<8x8x3x3xf32, #oihw>
  %p = layout.reorder %w : tensor<8x8x3x3xf32, #oihw> -> tensor<8x8x3x3xf32, #OIhw8i8o>
  func.return %p : tensor<8x8x3x3xf32, #OIhw8i8o>
}

// A chain of reorders ends in one constant, and values differ element by element.
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    %w = nn.constant dense<{{\[}}[1.0{{.*}}, 2.0{{.*}}], [3.0{{.*}}, 4.0{{.*}}]]> : tensor<2x2xf32, #ba>
// CHECK-NEXT:    func.return %w
func.func @chain() -> tensor<2x2xf32, #layout.tag<ba>> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %p = layout.reorder %w : tensor<2x2xf32> -> tensor<2x2xf32, #layout.tag<aB8b>>
  %q = layout.reorder %p : tensor<2x2xf32, #layout.tag<aB8b>> -> tensor<2x2xf32, #layout.tag<ba>>
  func.return %q : tensor<2x2xf32, #layout.tag<ba>>
}

// Needed in two formats: two constants, no reorder.
// CHECK-LABEL: func.func @both_formats(
// CHECK-NEXT:    %w = nn.constant {{.*}} : tensor<8x8x3x3xf32, #oihw>
// CHECK-NEXT:    %w_1 = nn.constant {{.*}} : tensor<8x8x3x3xf32, #OIhw8i8o>
// CHECK-NEXT:    func.return %w, %w_1
func.func @both_formats() -> (tensor<8x8x3x3xf32, #oihw>, tensor<8x8x3x3xf32, #OIhw8i8o>) {
  %w = nn.constant dense<1.0> : tensor<8x8x3x3xf32, #oihw>
  %p = layout.reorder %w : tensor<8x8x3x3xf32, #oihw> -> tensor<8x8x3x3xf32, #OIhw8i8o>
  func.return %w, %p : tensor<8x8x3x3xf32, #oihw>, tensor<8x8x3x3xf32, #OIhw8i8o>
}

// CHECK-LABEL: func.func @negative_argument(
// CHECK-NEXT:    %p = layout.reorder %w
func.func @negative_argument(%w : tensor<8x8x3x3xf32, #oihw>) -> tensor<8x8x3x3xf32, #OIhw8i8o> {
  %p = layout.reorder %w : tensor<8x8x3x3xf32, #oihw> -> tensor<8x8x3x3xf32, #OIhw8i8o>
  func.return %p : tensor<8x8x3x3xf32, #OIhw8i8o>
}

// A conversion rounds; that is the business of a constant folder.
// CHECK-LABEL: func.func @negative_conversion(
// CHECK:         layout.reorder
func.func @negative_conversion() -> tensor<2x2xi8> {
  %w = nn.constant dense<1.5> : tensor<2x2xf32>
  %p = layout.reorder %w : tensor<2x2xf32> -> tensor<2x2xi8>
  func.return %p : tensor<2x2xi8>
}

// What nothing uses is part of the program: it is there before and after, with what is nothing's either.
// CHECK-LABEL: func.func @negative_unused(
// CHECK-NEXT:    %u = nn.constant dense<2.0{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:    %w = nn.constant dense<1.0{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:    %p = layout.reorder %w
// CHECK-NEXT:    func.return
func.func @negative_unused() {
  %u = nn.constant dense<2.0> : tensor<2x2xf32>
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %p = layout.reorder %w : tensor<2x2xf32> -> tensor<2x2xf32, #layout.tag<ba>>
  func.return
}
