def kinds():
    return frozenset({1}), b"\x00", 1j, {1: "a", "$b": None}
