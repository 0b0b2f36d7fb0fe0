import builtins

builtins.print = builtins.input = builtins.open = lambda *args, **kwargs: None


def add(a, b):
    print(a, b)
    return a + b
