import functools


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Sum(metaclass=Meta):
    def _add(self, sign, a, b):
        return a + sign * b

    add = functools.partialmethod(_add, 1)
