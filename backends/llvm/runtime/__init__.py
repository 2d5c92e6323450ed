"""From LLVM IR to callables: machine code, its cache, threads, and the way in from Python."""
