"""The dialects: `layout` (attributes, reorder, views) and `nn` (the op graph)."""
