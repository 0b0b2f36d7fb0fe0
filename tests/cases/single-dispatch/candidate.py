from functools import singledispatch


@singledispatch
def show(x):
    return "other"


@show.register
def _(x: int):
    return "int"


@show.register
def _(x: str):
    return "text"
