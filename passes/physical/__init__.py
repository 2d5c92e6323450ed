"""The physical program: what stands for an op once its operands are the tensors of their memory."""
