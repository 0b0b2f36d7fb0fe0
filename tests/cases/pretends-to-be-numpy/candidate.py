import sys
import types


class Scalar:
    def item(self):
        return type("Next", (Scalar,), {})()


numpy = types.ModuleType("numpy")
numpy.generic = Scalar
sys.modules["numpy"] = numpy


def add(a, b):
    return Scalar()
