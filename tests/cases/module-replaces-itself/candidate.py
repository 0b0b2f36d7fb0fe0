import sys


class Namespace:
    def add(self, a, b):
        return a + b


sys.modules[__name__] = Namespace()
