"""Which options an op has: models, kernels of targets, and what is derived for ops of other dialects."""
