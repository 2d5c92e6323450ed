// RUN: not layout-opt %s -p 'layout-propagate{target=sparc}' 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not layout-opt %s -p 'layout-strip,layout-optimize{solver=guess}' 2>&1 | filecheck %s --check-prefix=SOLVER
// RUN: not layout-opt %s -p 'layout-propagate{targt=avx2}' 2>&1 | filecheck %s --check-prefix=OPTION

// TARGET: -p:1:1: error: pass 'layout-propagate': unknown target 'sparc': targets are host, avx2, avx512, blocked8, blocked16, channels-last, onednn
// SOLVER: -p:1:14: error: pass 'layout-optimize': unknown solver 'guess': solvers are exact, greedy, naive
// OPTION: error: pass 'layout-propagate'

func.func @f(%x : tensor<1x64xf32, #layout.any>) {
  %a = nn.relu %x : tensor<1x64xf32, #layout.any>
  func.return
}
