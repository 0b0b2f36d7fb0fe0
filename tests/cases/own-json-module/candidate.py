import sys

sys.modules["json"] = sys.modules["base64"] = None


def add(a, b):
    return a + b
