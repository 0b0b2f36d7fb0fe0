def raw(text):
    return text
