def kinds(*args, last):
    return [type(arg).__name__ for arg in (*args, last)]
