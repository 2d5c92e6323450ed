"""The dialects `layout` (formats, reorders, views), `nn` (the op graph) and `kernel` (plans); ops that xDSL lacks."""
