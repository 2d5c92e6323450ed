"""`same_map` is true where every element is at the same address, however the swizzle is spelled."""

from layout_ir.algebra.format import Format
from layout_ir.notations import read

plain = Format.parse("(a, b) : [a, b]").bind((1, 4))
swizzled = read("Sw<2,0,2> o 0 o (1,4):(4,1)", "cute")
assert (plain.addresses() == swizzled.addresses()).all()
assert plain.same_map(swizzled) and swizzled.same_map(plain)
