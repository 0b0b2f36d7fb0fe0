from abc import ABC


class Sum(ABC):
    @classmethod
    def add(cls, a, b):
        return a + b
