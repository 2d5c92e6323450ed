// RUN: layout-opt %s --split-input-file --verify-diagnostics -p 'layout-propagate{target=blocked8}'

// Options that an op carries, and what can be wrong with them: each is refused at the op or inside the attribute.

#nchw = #layout.tag<nchw>
func.func @negative_cost(%x : tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{cost = -3 is not in [0, 2^48)}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = -3>]} : (tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

func.func @no_options(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options = [] is no list of #layout.option}}
  %a = nn.relu %x {layout.options = []} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

func.func @something_else(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] = 5 : i64 is no #layout.option}}
  %a = nn.relu %x {layout.options = [5]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @too_many_formats(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] has 2 ins, the op has 1 such tensors}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw, #nchw], outs = [#nchw], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @too_few_formats(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[1] has 0 outs, the op has 1 such tensors}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3>, #layout.option<ins = [#nchw], outs = [], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nc = #layout.tag<nc>
#nchw = #layout.tag<nchw>
func.func @another_rank(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] ins: rank mismatch between format (n, c) and shape 1x8x4x4: 2 != 4}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nc], outs = [#nchw], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
#small = #layout.format<(n, c, h, w) : [n, c:3, c:2, h, w]>
func.func @too_small_a_format(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] outs: dim 'c' holds 6 elements}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#small], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @two_costs(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[1] contradicts layout.options[0]: cost 5 != 3}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3>, #layout.option<ins = [#nchw], outs = [#nchw], cost = 5>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @open_here_and_not_there(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[1] leaves other operands open than layout.options[0]}}
  %a = nn.add %x, %x {layout.options = [#layout.option<ins = [#nchw, _], outs = [#nchw], cost = 3>, #layout.option<ins = [#nchw, #nchw], outs = [#nchw], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

// The type of the result says one thing, the only option another.
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @against_its_type(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{nn.relu has no option on target blocked8 for tensor<1x8x4x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w]>>}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nChw8c], cost = 3>]} : (tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #nchw>
  %b = nn.relu %a : (tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// -----

// Twice the same, at the same cost, is no contradiction.
#nchw = #layout.tag<nchw>
func.func @negative_said_twice(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3>, #layout.option<ins = [#nchw], outs = [#nchw], cost = 3>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @empty_name(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{the name of an option is not empty}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3, name = "">]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @unknown_field(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{expected in_place or name}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3, kernel = "fast">]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
func.func @name_before_in_place(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{'>' expected}}
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3, name = "fast", in_place = [0 -> 0]>]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

// Two kernels of one cost or of two take the same formats: that is a choice, and no contradiction.
#nchw = #layout.tag<nchw>
func.func @negative_two_kernels(%x : tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any> {
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3, name = "a">, #layout.option<ins = [#nchw], outs = [#nchw], cost = 5, name = "b">]} : tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// -----

// expected-error @below {{func.func has no option on target blocked8 for tensor<4611686018427387904x4xf32, #layout.any>: (n, c) : [n, c] of shape 4611686018427387904x4 spans 18446744073709551616 elements: not below 2^63}}
func.func @more_elements_than_there_are_addresses(%x : tensor<4611686018427387904x4xf32, #layout.any>) {
  func.return
}
