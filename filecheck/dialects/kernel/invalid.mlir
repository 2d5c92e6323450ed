// RUN: layout-opt %s --split-input-file --verify-diagnostics

// negative reads behind the end
kernel.plan @negative_reads_behind_the_end {
  width 4 src 60 dst 64
  step src 0 dst 0
    // expected-error@+1 {{reads bytes [0, 64) of a source of 60}}
    copy 64
}

// -----

// negative writes in front
kernel.plan @negative_writes_in_front {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{writes bytes [-12, 4) of a destination of 64}}
    elements 4 for 4 src 4 dst -4
}

// -----

// negative half elements
kernel.plan @negative_half_elements {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{moves 6 bytes, which is no multiple of the element's 4}}
    copy 6
}

// -----

// negative elements of another width
kernel.plan @negative_elements_of_another_width {
  width 8 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{elements of 4 bytes are no whole elements of 8}}
    elements 4 for 2 src 8 dst 8
}

// -----

// negative rounds overlap
kernel.plan @negative_iterations_overlap {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{writes 48 bytes into the 32 of [0, 32): some twice}}
    copy 16 for 3 src 16 dst 8
}

// -----

// negative some rounds overlap
kernel.plan @negative_some_iterations_overlap {
  width 4 src 64 dst 256
  step src 0 dst 0
    table <0:0, 16:64, 32:68>
      // expected-error@+1 {{iterations 4 bytes apart write runs of 16: some bytes twice}}
      copy 16
}

// -----

// negative no tile
kernel.plan @negative_no_tile {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{the last block of cols is the tile, of 1 to 4, not no}}
    tile 4 rows 4 by 16 cols 4 by 16 schedule <rows 4>
}

// -----

// negative more valid rows
kernel.plan @negative_more_valid_rows {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{5 rows are valid of 4}}
    tile 4 rows 4 by 16 cols 4 by 16 schedule <rows 4, cols 4> valid 5 pad 0
}

// -----

// negative folds that are not whole
kernel.plan @negative_folds_that_are_not_whole {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{4 columns are no whole folds of 3}}
    tile 4 rows 4 by 16 cols 4 by 16 fold 3 by 16 schedule <rows 4, cols 4>
}

// -----

// negative a run of elements alone is not padded
kernel.plan @negative_a_run_without_pads {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{64 bytes are valid of a run of 64}}
    padded_copy 64 of 64 with 0 width 4
}

// -----

// negative blocks larger than ways
kernel.plan @negative_blocks_larger_than_ways {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{a block of 8 elements does not fit ways of 4}}
    interleave 4 ways 2 of 4 by 16 block 8
}

// -----

kernel.plan @negative_stride_of_half_an_element {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{6 bytes are no multiple of the element's 4}}
    for 2 src 6 dst 8
      copy 4
}

// -----

kernel.plan @negative_shared_twice {
  width 4 src 64 dst 64
  // expected-error@+1 {{at most one loop of a step is marked 'parallel', not 2}}
  step src 0 dst 0
    for 2 src 8 dst 8 parallel
      copy 8 parallel
}

// -----

kernel.plan @negative_two_kernels {
  width 4 src 64 dst 64
  step src 0 dst 0
    copy 4
    // expected-error@+1 {{Expected '}'}}
    copy 4
}

// -----

kernel.plan @negative_no_such_kernel {
  width 4 src 64 dst 64
  step src 0 dst 0
    for 2 src 32 dst 32
      // expected-error@+1 {{expected a loop or a micro-kernel: for, table, positions, copy, tile,}}
      move 32
}

// -----

kernel.plan @negative_a_level_without_a_loop {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{expected 'for' or 'table'}}
    positions 0 to 4 <1: 4>
      copy 4
}

// -----

kernel.plan @negative_another_axis {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{Expected one of 'cols', 'rows'}}
    tile 4 rows 4 by 16 cols 4 by 16 schedule <depth 4>
}

// -----

kernel.plan @negative_more_than_an_address {
  width 4 src 64 dst 64
  // expected-error@+1 {{the number is not below 2^63}}
  step src 9223372036854775808 dst 0
    copy 4
}

// -----

kernel.plan @negative_more_bits_than_half_a_byte_has {
  width 1 src 8 dst 8 convert <i4 to i4>
  step src 0 dst 0
    // expected-error@+1 {{16 are no bits of a pad of half a byte}}
    fill 16 with 16 width 1
}

// -----

kernel.plan @negative_pads_of_another_width {
  width 1 src 64 dst 16 convert <f32 to i8>
  step src 0 dst 0
    // expected-error@+1 {{the elements have width 1, not 4}}
    fill 16 with 0 width 4
}

// -----

kernel.plan @negative_more_bits_than_a_pad_has {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{4294967296 are no bits of a pad of 4 bytes}}
    fill 64 with 4294967296 width 4
}

// -----

kernel.plan @negative_varying_bounds_in_parallel {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{only a loop with constant bounds is shared by threads}}
    positions 0 to 8 <1: for 4 src 4 dst 4, 4: for 2 src 16 dst 16> parallel
      copy 4
}

// -----

kernel.plan @negative_a_table_prefetches {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{only a loop with a constant stride prefetches}}
    table <0:0, 32:32> prefetch
      copy 32
}

// -----

kernel.plan @negative_a_parallel_loop_inside {
  width 4 src 64 dst 64
  step src 0 dst 0
    staged 64 {
      // expected-error@+1 {{no loop inside of a staging buffer is shared by threads}}
      step src 0 dst 0
        copy 64 parallel
    }
}

// -----

kernel.plan @negative_channels_of_none {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{uses channels 0 to 63, there are 0}}
    copy 64 channel 1 for 1 src 0 dst 0
}

// -----

kernel.plan @negative_an_element_of_another_width {
  width 1 src 256 dst 64 convert <f32 to i8>
  step src 0 dst 0
    // expected-error@+1 {{the elements have width 1, not 4}}
    tile 4 rows 8 by 32 cols 8 by 8 schedule <rows 8, cols 8>
}

// -----

kernel.plan @negative_steps_write_too_much {
  // expected-error@+1 {{the steps write 96 bytes, the destination has 64}}
  width 4 src 64 dst 64
  step src 0 dst 0
    copy 64
  step src 0 dst 32
    copy 32
}

// -----

kernel.plan @negative_a_staging_buffer_with_gaps {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{the steps write 32 bytes, the destination has 64}}
    staged 64 {
      step src 0 dst 0
        copy 32
    }
}

// -----

kernel.plan @negative_runs_out_of_line {
  width 4 src 128 dst 164
  step src 0 dst 0
    // expected-error@+1 {{rows of 64 bytes, 100 apart, have row stride 128 in the buffer: at least their size is needed, and the same rest by 64}}
    staged 64 rows 2 by 100 row_stride 128 {
      step src 0 dst 0
        copy 64 for 2 src 64 dst 128
    }
}

// -----

kernel.plan @negative_runs_that_leave_the_source {
  width 4 src 192 dst 356
  step src 0 dst 0
    staged 64 rows 2 by 228 row_stride 164 iterations 2 src 128 {
      step src 0 dst 0
        // expected-error@+1 {{reads bytes [0, 256) of a source of 192}}
        copy 64 for 2 src 64 dst 164
    }
}

// -----

kernel.plan @negative_levels_with_gaps {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{a level of unit 8 follows levels that count 4: they must be equal}}
    positions 0 to 8 <1: for 4 src 4 dst 4, 8: for 2 src 16 dst 16>
      copy 4
}

// -----

kernel.plan @small {
  width 4 src 64 dst 128
}

func.func @negative_result_too_small(%x : tensor<16xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{the result has 64 bytes, @small needs 128}}
  %y = kernel.call @small %x : tensor<16xf32> -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// -----

func.func @negative_no_such_plan(%x : tensor<16xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{@missing is no kernel.plan}}
  %y = kernel.call @missing %x : tensor<16xf32> -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// -----

kernel.plan @p {
  // expected-error@+1 {{elements of f32 to i8 need width 1, not 4}}
  width 4 src 64 dst 16 convert <f32 to i8>
}

// -----

kernel.plan @p {
  width 1 src 64 dst 17 convert <f32 to i8>
  step src 0 dst 0
    // expected-error@+1 {{reads bytes [0, 68) of a source of 64}}
    copy 17
}

// -----

kernel.plan @p {
  // expected-error@+1 {{dst_scale has 2 numbers, expected 3, one per channel}}
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale [1.0, 2.0], dim 1 of 3>
}

// -----

kernel.plan @p {
  // expected-error@+1 {{one number per channel needs the dim of the channels, and the dim such a number}}
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale [1.0, 2.0]>
}

// -----

kernel.plan @p {
  width 1 src 8 dst 8 convert <i4 to i4>
  step src 1 dst 0
    // expected-error@+1 {{reads bytes [1, 17) of a source of 16}}
    copy 16
}

// -----

kernel.plan @p {
  width 1 src 256 dst 64 convert <f32 to i8>
  step src 0 dst 0
    // expected-error@+1 {{prefetches run 0 to 4294967296 bytes ahead, not -64}}
    tile 1 rows 8 by 32 cols 8 by 8 schedule <rows 8, cols 8> prefetch_distance -64
}

// -----

// expected-error@+1 {{the source (a, b) : [a, b] has 2 dims, there are 3 extents}}
kernel.dynamic @negative_rank shape <?, 3, ?> from <(a, b) : [a, b]> to <(a, b, c) : [a, b, c]> elements <f32 to f32>

// -----

// expected-error@+1 {{all extents of 2x3 are known: that is a kernel.plan}}
kernel.dynamic @negative_nothing_open shape <2, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

// -----

// expected-error@+1 {{its arguments are extents, a call cannot bring dst_scale along}}
kernel.dynamic @negative_numbers_of_a_call shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to i8, dst_scale tensor>

// -----

// expected-error@+1 {{Expected integer literal}}
kernel.dynamic @negative_extent shape <?, n> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

// -----

kernel.dynamic @by_columns shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

func.func @negative_another_extent(%x : tensor<?x4xf32>) -> tensor<?x4xf32, #layout.tag<ba>> {
  // expected-error@+1 {{the operand is tensor<?x4xf32>, @by_columns is for elements f32 of shape ?x3}}
  %y = kernel.call @by_columns %x : tensor<?x4xf32> -> tensor<?x4xf32, #layout.tag<ba>>
  func.return %y : tensor<?x4xf32, #layout.tag<ba>>
}

// -----

kernel.dynamic @by_columns shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

func.func @negative_another_format(%x : tensor<?x3xf32>) -> tensor<?x3xf32> {
  // expected-error@+1 {{the result is tensor<?x3xf32>, @by_columns is for elements f32 of shape ?x3 in (a, b) : [b, a]}}
  %y = kernel.call @by_columns %x : tensor<?x3xf32> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}

// -----

kernel.plan @negative_no_width {
  // expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not 0}}
  width 0 src 64 dst 64
  step src 0 dst 0
    copy 64
}

// -----

kernel.plan @negative_pads_of_no_width {
  width 4 src 0 dst 64
  step src 0 dst 0
    // expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not -4}}
    fill 64 with 0 width -4
}

// -----

kernel.plan @negative_pads_of_half_a_run {
  width 4 src 0 dst 64
  step src 0 dst 0
    // expected-error@+1 {{run is 12, no multiple of the pad's 8 bytes}}
    fill 12 with 0 width 8
}

// -----

kernel.plan @negative_pads_in_two_tiles {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    // expected-error@+1 {{rows that are pads need a tile of all 16 rows, not of 4}}
    tile 4 rows 16 by 64 cols 16 by 64 schedule <rows 4, cols 4> valid 8 pad 0
}

// -----

kernel.plan @negative_registers_that_are_no_square {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    // expected-error@+1 {{a square tile has a power of two of rows and columns, 4 to 16: not 16 x 8}}
    tile 4 rows 16 by 64 cols 16 by 64 schedule <rows 16, cols 8> square
}

// -----

kernel.plan @negative_blocks_of_nothing {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    // expected-error@+1 {{blocks of 0 rows, at least 1 is needed}}
    tile 4 rows 16 by 64 cols 16 by 64 schedule <rows 0, rows 16, cols 8>
}

// -----

kernel.plan @negative_a_tile_of_too_much {
  width 4 src 4096 dst 4096
  step src 0 dst 0
    // expected-error@+1 {{512 rows are moved at once: 256 are the most}}
    tile 4 rows 512 by 8 cols 2 by 2048 schedule <rows 512, cols 2>
}

// -----

kernel.plan @negative_streams_begun_lines {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    // expected-error@+1 {{streams 64 bytes at a time, 72 apart in the destination: multiples of 64 are needed}}
    copy 64 for 4 src 64 dst 72 streaming
}

// -----

kernel.plan @negative_streams_odd_runs {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    // expected-error@+1 {{streams 20 bytes at a time: a power of two, or runs of whole lines, are needed}}
    copy 20 for 4 src 64 dst 64 streaming
}

// -----

kernel.plan @negative_streams_tiles_between_lines {
  width 4 src 4096 dst 4096
  step src 0 dst 0
    // expected-error@+1 {{streams 64 bytes at a time, 132 apart in the destination: multiples of 64 are needed}}
    tile 4 rows 32 by 128 cols 16 by 128 schedule <rows 33, cols 4, rows 16> streaming
}

// -----

kernel.plan @negative_streams_in_iterations_between_lines {
  width 4 src 1024 dst 1024
  step src 0 dst 0
    for 2 src 256 dst 260
      // expected-error@+1 {{streams 64 bytes at a time, 260 apart in the destination: multiples of 64 are needed}}
      copy 64 for 4 src 64 dst 64 streaming
}

// -----

kernel.plan @negative_a_staging_buffer_of_half_a_line {
  width 4 src 32 dst 32
  step src 0 dst 0
    // expected-error@+1 {{a staging buffer of 32 bytes is less than a line of 64}}
    staged 32 {
      step src 0 dst 0
        copy 32
    }
}

// -----

kernel.plan @negative_a_staging_buffer_larger_than_the_stack {
  width 4 src 16777216 dst 16777216
  step src 0 dst 0
    // expected-error@+1 {{a staging buffer of 16777216 bytes on the stack: 1048576 are the most}}
    staged 16777216 {
      step src 0 dst 0
        copy 16777216
    }
}

// -----

kernel.plan @negative_a_staging_buffer_in_another {
  width 4 src 64 dst 64
  step src 0 dst 0
    staged 64 {
      step src 0 dst 0
        // expected-error@+1 {{there is one staging buffer: it is not filled from another}}
        staged 64 {
          step src 0 dst 0
            copy 64
        }
    }
}

// -----

kernel.plan @negative_moves_where_elements_convert {
  width 1 src 64 dst 16 convert <f32 to i8>
  step src 0 dst 0
    // expected-error@+1 {{moves elements, but the plan converts them}}
    elements 4 for 16 src 4 dst 1
}

// -----

kernel.plan @negative_channels_behind_the_last {
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale [1.0, 2.0, 3.0, 4.0], dim 1 of 4>
  step src 0 dst 0 channel 1
    // expected-error@+1 {{uses channels 1 to 4, there are 4}}
    copy 4 channel 1 for 4 src 16 dst 4
}

// -----

kernel.plan @negative_channels_in_front {
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale channel, dim 1 of 4>
  step src 0 dst 0
    // expected-error@+1 {{uses channels -3 to 0, there are 4}}
    tile 1 rows 4 by 16 channel -1 cols 4 by 4 schedule <rows 4, cols 4>
}

// -----

kernel.plan @negative_ways_of_more_channels {
  width 1 src 192 dst 48 convert <f32 to i8, dst_scale channel, dim 1 of 2>
  step src 0 dst 0
    // expected-error@+1 {{uses channels 0 to 2, there are 2}}
    interleave 1 ways 3 of 16 by 64 channel 1 block 16
}

// -----

kernel.plan @negative_levels_of_more_channels {
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale channel, dim 0 of 15>
  step src 0 dst 0
    positions 0 to 16 <1: for 4 src 4 dst 1 channel 1, 4: for 4 src 16 dst 4 channel 4>
      // expected-error@+1 {{uses channels 0 to 15, there are 15}}
      copy 1
}

// -----

kernel.plan @negative_tiles_that_add_twice {
  width 4 src 400 dst 400 convert <f32 to f32, beta 1.0>
  step src 0 dst 0
    // expected-error@+1 {{10 rows are no whole tiles of 4, and no element may be converted twice}}
    tile 4 rows 10 by 40 cols 10 by 40 schedule <rows 4, cols 5>
}

// -----

kernel.plan @negative_ways_that_add_twice {
  width 4 src 192 dst 192 convert <f32 to f32, beta 1.0>
  step src 0 dst 0
    // expected-error@+1 {{ways are interleaved where elements may be converted twice: not with beta or 4 bits}}
    interleave 4 ways 3 of 16 by 64 block 16
}

// -----

kernel.plan @negative_tiles_of_half_a_byte {
  width 1 src 64 dst 32 convert <i8 to i4>
  step src 0 dst 0
    // expected-error@+1 {{a tile of 1 rows is no whole number of bytes}}
    tile 1 rows 8 by 8 cols 8 by 8 schedule <rows 1, cols 8>
}

// -----

kernel.plan @negative_tiles_from_half_a_byte_on {
  width 1 src 64 dst 40 convert <i8 to i4>
  step src 0 dst 1
    // expected-error@+1 {{tiles of halves of bytes are 1 apart in the destination: multiples of 2 are needed}}
    tile 1 rows 8 by 8 cols 8 by 8 schedule <rows 8, cols 8>
}

// -----

kernel.plan @negative_streams_halves_of_bytes {
  width 1 src 256 dst 128 convert <i8 to i4>
  step src 0 dst 0
    // expected-error@+1 {{halves of bytes are not streamed}}
    copy 256 streaming
}

// -----

kernel.plan @negative_less_than_nothing {
  // expected-error@+1 {{buffers of -64 and 0 bytes: 0 is the least}}
  width 4 src -64 dst 0
}

// -----

kernel.plan @negative_numbers_that_are_none {
  // expected-error@+1 {{1e+300 is no number of f32, in which it would act}}
  width 1 src 64 dst 16 convert <f32 to i8, dst_scale [1.0e300, 1.0], dim 1 of 2>
}

// -----

kernel.plan @negative_more_positions_than_bytes {
  width 1 src 64 dst 64
  step src 0 dst 0
    positions 0 to 4611686018427387904 <1: for 4611686018427387904 src 1 dst 1>
      // expected-error@+1 {{reads bytes [0, 4611686018427387904) of a source of 64}}
      copy 1
}

// -----

kernel.plan @negative_positions_backwards {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{positions is -8, at least 1 is needed}}
    positions 16 to 8 <1: for 4 src 4 dst 4, 4: for 2 src 16 dst 16>
      copy 4
}

// -----

kernel.plan @negative_positions_beyond_its_levels {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{the levels number 8 positions, the loop ends at 16}}
    positions 0 to 16 <1: for 4 src 4 dst 4, 4: table <0:0, 16:16>>
      copy 4
}

// -----

kernel.plan @negative_positions_without_levels {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{positions have 1 to 64 levels that number them, not 0}}
    positions 0 to 1 <>
      copy 4
}

// -----

kernel.plan @negative_table_without_offsets {
  width 4 src 64 dst 64
  step src 0 dst 0
    // expected-error@+1 {{count is 0, at least 1 is needed}}
    table <>
      copy 4
}

// -----

kernel.plan @negative_channels_of_a_wrong_loop {
  width 4 src 64 dst 64 convert <f32 to f32, dst_scale channel, dim 0 of 4>
  step src 0 dst 0
    // expected-error@+1 {{positions is -8, at least 1 is needed}}
    positions 16 to 8 <1: for 4 src 4 dst 4 channel 1, 4: for 2 src 16 dst 16>
      copy 1
}
