// RUN: not layout-opt %s -p canonicalise 2>&1 | filecheck %s --check-prefix=PASS
// PASS:      -p:1:1: error: unknown pass 'canonicalise': did you mean 'canonicalize'
// PASS-NEXT: canonicalise
// PASS-NEXT: ^

// RUN: not layout-opt %s -p 'cse,canonicalize{speed=3}' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION:      -p:1:5: error: pass 'canonicalize': Provided arguments ["speed"] not found
// OPTION-NEXT: cse,canonicalize{speed=3}
// OPTION-NEXT:     ^

// RUN: not layout-opt %s -p 'cse,canonicalize{' 2>&1 | filecheck %s --check-prefix=PIPELINE
// PIPELINE:      -p:1:18: error:
// PIPELINE-NEXT: cse,canonicalize{
// PIPELINE-NEXT:                  ^

// RUN: not layout-opt %s -t asembly 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: -t:1:1: error: unknown target 'asembly'

// RUN: not layout-opt %s --optimise 2>&1 | filecheck %s --check-prefix=FLAG
// FLAG: error: unrecognized arguments: --optimise

// RUN: not layout-opt %S/nowhere.mlir 2>&1 | filecheck %s --check-prefix=FILE
// FILE: nowhere.mlir: error: No such file or directory

// RUN: not layout-opt %S 2>&1 | filecheck %s --check-prefix=FOLDER
// FOLDER: error: Is a directory

// RUN: not layout-opt %S/help.test 2>&1 | filecheck %s --check-prefix=KIND
// KIND: help.test: error: unknown kind of file '.test': expected one of .mlir, .onnx, or say which with -f

// RUN: not layout-opt %s -o %t/nowhere/out.mlir 2>&1 | filecheck %s --check-prefix=OUTPUT
// OUTPUT: out.mlir: error: No such file or directory

func.func @right() {
  func.return
}

// RUN: not layout-opt %s --shape x=1x3 2>&1 | filecheck %s --check-prefix=SHAPE
// SHAPE: error: --shape x=1x3 is for inputs of ONNX models: the types in {{.*}} say the shapes
