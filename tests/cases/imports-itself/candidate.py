import importlib


def add(a, b):
    again = importlib.import_module(__name__)
    return a + b if again.add is add else None
