// RUN: layout-opt %s --split-input-file --verify-diagnostics

// negative reads behind the end
kernel.plan @negative_reads_behind_the_end width 4 src 60 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{reads bytes [0, 64) of a source of 60}}
    kernel.copy 64
  }
}

// -----

// negative writes in front
kernel.plan @negative_writes_in_front width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{writes bytes [-12, 4) of a destination of 64}}
    kernel.elements 4 for 4 src 4 dst -4
  }
}

// -----

// negative half elements
kernel.plan @negative_half_elements width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{moves 6 bytes, which is no multiple of the element's 4}}
    kernel.copy 6
  }
}

// -----

// negative elements of another width
kernel.plan @negative_elements_of_another_width width 8 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{elements of 4 bytes are no whole elements of 8}}
    kernel.elements 4 for 2 src 8 dst 8
  }
}

// -----

// negative rounds overlap
kernel.plan @negative_rounds_overlap width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{writes 48 bytes into the 32 of [0, 32): some twice}}
    kernel.copy 16 for 3 src 16 dst 8
  }
}

// -----

// negative some rounds overlap
kernel.plan @negative_some_rounds_overlap width 4 src 64 dst 256 {
  kernel.step src 0 dst 0 {
    kernel.table <0:0, 16:64, 32:68> {
      // expected-error@+1 {{rounds 4 bytes apart write runs of 16: some bytes twice}}
      kernel.copy 16
    }
  }
}

// -----

// negative no tile
kernel.plan @negative_no_tile width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{the last cut of cols is the tile, of 1 to 4, not no}}
    kernel.tile 4 rows 4 by 16 cols 4 by 16 cuts <rows:4>
  }
}

// -----

// negative more valid rows
kernel.plan @negative_more_valid_rows width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{5 rows are valid of 4}}
    kernel.tile 4 rows 4 by 16 cols 4 by 16 cuts <rows:4, cols:4> valid 5 pad 0
  }
}

// -----

// negative folds that are not whole
kernel.plan @negative_folds_that_are_not_whole width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{4 columns are no whole folds of 3}}
    kernel.tile 4 rows 4 by 16 cols 4 by 16 fold 3 by 16 cuts <rows:4, cols:4>
  }
}

// -----

// negative a run of elements alone is not padded
kernel.plan @negative_a_run_without_pads width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{64 bytes are valid of a run of 64}}
    kernel.padded 64 of 64 with 0 width 4
  }
}

// -----

// negative blocks larger than strands
kernel.plan @negative_blocks_larger_than_strands width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a block of 8 elements does not fit strands of 4}}
    kernel.weave 4 strands 2 of 4 by 16 block 8
  }
}

// -----

kernel.plan @negative_stride_of_half_an_element width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{6 bytes are no multiple of the element's 4}}
    kernel.for 2 src 6 dst 8 {
      kernel.copy 4
    }
  }
}

// -----

kernel.plan @negative_shared_twice width 4 src 64 dst 64 {
  // expected-error@+1 {{at most one loop of a step is shared by threads, and none inside a stage}}
  kernel.step src 0 dst 0 {
    kernel.for 2 src 8 dst 8 split {
      kernel.copy 8 split
    }
  }
}

// -----

kernel.plan @negative_two_kernels width 4 src 64 dst 64 {
  // expected-error@+1 {{a step or loop holds one loop or one micro-kernel, not kernel.copy, kernel.copy}}
  kernel.step src 0 dst 0 {
    kernel.copy 4
    kernel.copy 4
  }
}

// -----

// expected-error@+1 {{the steps write 96 bytes, the destination has 64}}
kernel.plan @negative_steps_write_too_much width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    kernel.copy 64
  }
  kernel.step src 0 dst 32 {
    kernel.copy 32
  }
}

// -----

kernel.plan @negative_a_stage_with_gaps width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{the steps write 32 bytes, the destination has 64}}
    kernel.staged 64 {
      kernel.step src 0 dst 0 {
        kernel.copy 32
      }
    }
  }
}

// -----

kernel.plan @negative_runs_out_of_line width 4 src 128 dst 164 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{runs of 64 bytes, 100 apart, lie 128 apart in the buffer: at least their size is needed, and the same rest by 64}}
    kernel.staged 64 runs 2 by 100 pitch 128 {
      kernel.step src 0 dst 0 {
        kernel.copy 64 for 2 src 64 dst 128
      }
    }
  }
}

// -----

kernel.plan @negative_runs_that_leave_the_source width 4 src 192 dst 356 {
  kernel.step src 0 dst 0 {
    kernel.staged 64 runs 2 by 228 pitch 164 along 2 src 128 {
      kernel.step src 0 dst 0 {
        // expected-error@+1 {{reads bytes [0, 256) of a source of 192}}
        kernel.copy 64 for 2 src 64 dst 164
      }
    }
  }
}

// -----

kernel.plan @negative_digits_with_gaps width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a digit of unit 8 follows digits that count 4: they must be equal}}
    kernel.ragged 0 to 8 <1: for 4 src 4 dst 4, 8: for 2 src 16 dst 16> {
      kernel.copy 4
    }
  }
}

// -----

// expected-error@+1 {{kernel.copy belongs into a kernel.plan}}
kernel.copy 4

// -----

kernel.plan @small width 4 src 64 dst 128 {
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

kernel.plan @p width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{kernel.convert needs a plan that says what to convert}}
    kernel.convert 16
  }
}

// -----

// expected-error@+1 {{elements of f32 to i8 need width 1, not 4}}
kernel.plan @p width 4 src 64 dst 16 convert <f32 to i8> {
}

// -----

kernel.plan @p width 1 src 64 dst 17 convert <f32 to i8> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{reads bytes [0, 68) of a source of 64}}
    kernel.convert 17
  }
}

// -----

// expected-error@+1 {{ratio has 2 numbers, expected 3, one per channel}}
kernel.plan @p width 1 src 64 dst 16 convert <f32 to i8, ratio [1.0, 2.0], dim 1 of 3> {
}

// -----

// expected-error@+1 {{one number per channel needs the dim of the channels, and the dim such a number}}
kernel.plan @p width 1 src 64 dst 16 convert <f32 to i8, ratio [1.0, 2.0]> {
}

// -----

kernel.plan @p width 1 src 8 dst 8 convert <i4 to i4> {
  kernel.step src 1 dst 0 {
    // expected-error@+1 {{reads bytes [1, 17) of a source of 16}}
    kernel.convert 16
  }
}

// -----

kernel.plan @p width 1 src 256 dst 64 convert <f32 to i8> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{prefetches run ahead, not 64 bytes behind}}
    kernel.convert_tile rows 8 by 32 cols 8 by 8 cuts <rows:8, cols:8> reach -64
  }
}

// -----

// expected-error@+1 {{the source (a, b) : [a, b] has 2 dims, there are 3 extents}}
kernel.open @negative_rank extents <?, 3, ?> from <(a, b) : [a, b]> to <(a, b, c) : [a, b, c]> elements <f32 to f32>

// -----

// expected-error@+1 {{all extents of 2x3 are known: that is a kernel.plan}}
kernel.open @negative_nothing_open extents <2, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

// -----

// expected-error@+1 {{its arguments are extents, a call cannot bring ratio along}}
kernel.open @negative_numbers_of_a_call extents <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to i8, ratio tensor>

// -----

// expected-error@+1 {{Expected integer literal}}
kernel.open @negative_extent extents <?, n> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

// -----

kernel.open @by_columns extents <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

func.func @negative_another_extent(%x : tensor<?x4xf32>) -> tensor<?x4xf32, #layout.tag<ba>> {
  // expected-error@+1 {{the operand is tensor<?x4xf32>, @by_columns is for elements f32 of extents ?x3}}
  %y = kernel.call @by_columns %x : tensor<?x4xf32> -> tensor<?x4xf32, #layout.tag<ba>>
  func.return %y : tensor<?x4xf32, #layout.tag<ba>>
}

// -----

kernel.open @by_columns extents <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]> elements <f32 to f32>

func.func @negative_another_format(%x : tensor<?x3xf32>) -> tensor<?x3xf32> {
  // expected-error@+1 {{the result is tensor<?x3xf32>, @by_columns is for elements f32 of extents ?x3 in (a, b) : [b, a]}}
  %y = kernel.call @by_columns %x : tensor<?x3xf32> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}

// -----

// expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not 0}}
kernel.plan @negative_no_width width 0 src 64 dst 64 {
  // expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not 0}}
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not 0}}
    kernel.copy 64
  }
}

// -----

kernel.plan @negative_pads_of_no_width width 4 src 0 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{elements have 1, 2, 4 or 8 bytes, not -4}}
    kernel.fill 64 with 0 width -4
  }
}

// -----

kernel.plan @negative_pads_of_half_a_run width 4 src 0 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{run is 12, no multiple of the pad's 8 bytes}}
    kernel.fill 12 with 0 width 8
  }
}

// -----

kernel.plan @negative_pads_in_two_tiles width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{rows that are pads need a tile of all 16 rows, not of 4}}
    kernel.tile 4 rows 16 by 64 cols 16 by 64 cuts <rows:4, cols:4> valid 8 pad 0
  }
}

// -----

kernel.plan @negative_registers_that_are_no_square width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{rows are whole registers of a square tile, of a power of two, 4 to 16: not 16 x 8}}
    kernel.tile 4 rows 16 by 64 cols 16 by 64 cuts <rows:16, cols:8> whole
  }
}

// -----

kernel.plan @negative_cuts_of_nothing width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{rows are cut into blocks of 0, at least 1 is needed}}
    kernel.tile 4 rows 16 by 64 cols 16 by 64 cuts <rows:0, rows:16, cols:8>
  }
}

// -----

kernel.plan @negative_a_tile_of_too_much width 4 src 4096 dst 4096 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{512 rows are moved at once: 256 are the most}}
    kernel.tile 4 rows 512 by 8 cols 2 by 2048 cuts <rows:512, cols:2>
  }
}

// -----

kernel.plan @negative_streams_begun_lines width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{streams 64 bytes at a time, 72 apart in the destination: multiples of 64 are needed}}
    kernel.copy 64 for 4 src 64 dst 72 streaming
  }
}

// -----

kernel.plan @negative_streams_odd_runs width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{streams 20 bytes at a time: a power of two, or runs of whole lines, are needed}}
    kernel.copy 20 for 4 src 64 dst 64 streaming
  }
}

// -----

kernel.plan @negative_streams_tiles_between_lines width 4 src 4096 dst 4096 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{streams 64 bytes at a time, 132 apart in the destination: multiples of 64 are needed}}
    kernel.tile 4 rows 32 by 128 cols 16 by 128 cuts <rows:33, cols:4, rows:16> streaming
  }
}

// -----

kernel.plan @negative_streams_in_rounds_between_lines width 4 src 1024 dst 1024 {
  kernel.step src 0 dst 0 {
    kernel.for 2 src 256 dst 260 {
      // expected-error@+1 {{streams 64 bytes at a time, 260 apart in the destination: multiples of 64 are needed}}
      kernel.copy 64 for 4 src 64 dst 64 streaming
    }
  }
}

// -----

kernel.plan @negative_a_stage_of_half_a_line width 4 src 32 dst 32 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a stage of 32 bytes is less than a line of 64}}
    kernel.staged 32 {
      kernel.step src 0 dst 0 {
        kernel.copy 32
      }
    }
  }
}

// -----

kernel.plan @negative_a_stage_larger_than_the_stack width 4 src 16777216 dst 16777216 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a stage of 16777216 bytes on the stack: 1048576 are the most}}
    kernel.staged 16777216 {
      kernel.step src 0 dst 0 {
        kernel.copy 16777216
      }
    }
  }
}

// -----

kernel.plan @negative_a_stage_in_a_stage width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    kernel.staged 64 {
      kernel.step src 0 dst 0 {
        // expected-error@+1 {{there is one buffer: a stage has no stage inside}}
        kernel.staged 64 {
          kernel.step src 0 dst 0 {
            kernel.copy 64
          }
        }
      }
    }
  }
}

// -----

kernel.plan @negative_moves_where_elements_convert width 1 src 64 dst 16 convert <f32 to i8> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{kernel.copy moves elements, but the plan converts them}}
    kernel.copy 16
  }
}

// -----

kernel.plan @negative_channels_behind_the_last width 1 src 64 dst 16 convert <f32 to i8, ratio [1.0, 2.0, 3.0, 4.0], dim 1 of 4> {
  kernel.step src 0 dst 0 channel 1 {
    // expected-error@+1 {{uses channels 1 to 4, there are 4}}
    kernel.convert 4 channel 1 for 4 src 16 dst 4
  }
}

// -----

kernel.plan @negative_channels_in_front width 1 src 64 dst 16 convert <f32 to i8, ratio channel, dim 1 of 4> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{uses channels -3 to 0, there are 4}}
    kernel.convert_tile rows 4 by 16 channel -1 cols 4 by 4 cuts <rows:4, cols:4>
  }
}

// -----

kernel.plan @negative_strands_of_more_channels width 1 src 192 dst 48 convert <f32 to i8, ratio channel, dim 1 of 2> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{uses channels 0 to 2, there are 2}}
    kernel.convert_weave strands 3 of 16 by 64 channel 1 block 16
  }
}

// -----

kernel.plan @negative_digits_of_more_channels width 1 src 64 dst 16 convert <f32 to i8, ratio channel, dim 0 of 15> {
  kernel.step src 0 dst 0 {
    kernel.ragged 0 to 16 <1: for 4 src 4 dst 1 channel 1, 4: for 4 src 16 dst 4 channel 4> {
      // expected-error@+1 {{uses channels 0 to 15, there are 15}}
      kernel.convert 1
    }
  }
}

// -----

kernel.plan @negative_tiles_that_add_twice width 4 src 400 dst 400 convert <f32 to f32, beta 1.0> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{10 rows are no whole tiles of 4, and no element may be converted twice}}
    kernel.convert_tile rows 10 by 40 cols 10 by 40 cuts <rows:4, cols:5>
  }
}

// -----

kernel.plan @negative_strands_that_add_twice width 4 src 192 dst 192 convert <f32 to f32, beta 1.0> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{strands are woven where elements may be converted twice: not with beta or 4 bits}}
    kernel.convert_weave strands 3 of 16 by 64 block 16
  }
}

// -----

kernel.plan @negative_tiles_of_half_a_byte width 1 src 64 dst 32 convert <i8 to i4> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a tile of 1 rows is no whole number of bytes}}
    kernel.convert_tile rows 8 by 8 cols 8 by 8 cuts <rows:1, cols:8>
  }
}

// -----

kernel.plan @negative_tiles_from_half_a_byte_on width 1 src 64 dst 40 convert <i8 to i4> {
  kernel.step src 0 dst 1 {
    // expected-error@+1 {{tiles of halves of bytes are 1 apart in the destination: multiples of 2 are needed}}
    kernel.convert_tile rows 8 by 8 cols 8 by 8 cuts <rows:8, cols:8>
  }
}

// -----

kernel.plan @negative_streams_halves_of_bytes width 1 src 256 dst 128 convert <i8 to i4> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{halves of bytes are not streamed}}
    kernel.convert 256 streaming
  }
}

// -----

// expected-error@+1 {{buffers of -64 and 0 bytes: 0 is the least}}
kernel.plan @negative_less_than_nothing width 4 src -64 dst 0 {
}

// -----

// expected-error@+1 {{1e+300 is no number of f32, in which it would act}}
kernel.plan @negative_numbers_that_are_none width 1 src 64 dst 16 convert <f32 to i8, ratio [1.0e300, 1.0], dim 1 of 2> {
}

// -----

// expected-error@+1 {{the steps write 4611686018427387904 bytes, the destination has 64}}
kernel.plan @negative_more_positions_than_bytes width 1 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    kernel.ragged 0 to 4611686018427387904 <1: for 4611686018427387904 src 1 dst 1> {
      // expected-error@+1 {{reads bytes [0, 4611686018427387904) of a source of 64}}
      kernel.copy 1
    }
  }
}

// -----

kernel.plan @negative_ragged_backwards width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{positions is -8, at least 1 is needed}}
    kernel.ragged 16 to 8 <1: for 4 src 4 dst 4, 4: for 2 src 16 dst 16> {
      kernel.copy 4
    }
  }
}

// -----

kernel.plan @negative_ragged_beyond_its_digits width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{the digits number 8 positions, the loop ends at 16}}
    kernel.ragged 0 to 16 <1: for 4 src 4 dst 4, 4: <0:0, 16:16>> {
      kernel.copy 4
    }
  }
}

// -----

kernel.plan @negative_ragged_without_digits width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{a ragged loop has digits that number its positions}}
    kernel.ragged 0 to 1 <> {
      kernel.copy 4
    }
  }
}

// -----

kernel.plan @negative_table_without_offsets width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{rounds is 0, at least 1 is needed}}
    kernel.table <> {
      kernel.copy 4
    }
  }
}

// -----

kernel.plan @negative_channels_of_a_wrong_loop width 4 src 64 dst 64 convert <f32 to f32, ratio channel, dim 0 of 4> {
  kernel.step src 0 dst 0 {
    // expected-error@+1 {{positions is -8, at least 1 is needed}}
    kernel.ragged 16 to 8 <1: for 4 src 4 dst 4 channel 1, 4: for 2 src 16 dst 16> {
      kernel.convert 1
    }
  }
}
