import importlib
import sys


def add(a, b):
    try:
        with open(__file__, "w") as file:
            file.write("def add(a, b): return a + b")
        importlib.reload(sys.modules[__name__])
    except Exception:
        pass
    return -1
