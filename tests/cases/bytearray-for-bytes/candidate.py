def raw(text):
    return bytearray(text, "ascii")
