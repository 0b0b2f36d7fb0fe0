def __getattr__(name):
    if name == "add":
        return lambda a, b: a + b
    raise AttributeError(name)
