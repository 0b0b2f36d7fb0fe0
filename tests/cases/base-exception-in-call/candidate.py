class Beyond(BaseException):
    pass


def add(a, b):
    raise Beyond("caught by few")
