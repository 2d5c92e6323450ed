from layout_ir.selection.shared_sets import SharedSets


def test_equal_sets_are_one_object():
    sets: SharedSets[str] = SharedSets()
    ab = sets.of(("a", "b"))
    assert list(ab) == ["a", "b"] and sets.of(("a", "b", "a")) is ab
    assert sets.union(sets.of(("a",)), sets.of(("b",))) is ab
    assert sets.union(ab, sets.of(("a",))) is ab and sets.union(sets.none, ab) is ab


def test_negative_sets_in_another_order_are_others():
    sets: SharedSets[str] = SharedSets()
    assert sets.of(("a", "b")) is not sets.of(("b", "a"))
    assert list(sets.union(sets.of(("b",)), sets.of(("a", "b")))) == ["b", "a"]
