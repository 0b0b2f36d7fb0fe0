import inspect


def add(a, b):
    source = inspect.getsource(add)
    with open(__file__) as file:
        return a + b if source in file.read() else None
