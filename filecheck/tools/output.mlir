// A result is written whole or not at all: an error leaves what was there.
// RUN: mkdir -p %t.dir && cp %S/help.test %t.dir/out.mlir
// RUN: not layout-opt %S/diagnostics.mlir -o %t.dir/out.mlir
// RUN: diff %S/help.test %t.dir/out.mlir
// RUN: layout-opt %s -o %t.dir/out.mlir
// RUN: layout-opt %s | diff - %t.dir/out.mlir
// RUN: ls -A %t.dir | filecheck %s --check-prefix=FILES --match-full-lines
// FILES: out.mlir
// FILES-NOT: {{.}}

// RUN: layout-opt %s -o - | filecheck %s
// RUN: layout-opt - < %s | filecheck %s
// RUN: cat %s | layout-opt | filecheck %s
// CHECK: func.func @right
func.func @right() {
  func.return
}
