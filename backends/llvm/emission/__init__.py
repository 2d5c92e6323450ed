"""From a plan to LLVM IR in its final form."""
