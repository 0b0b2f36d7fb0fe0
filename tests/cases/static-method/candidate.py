class Base:
    @staticmethod
    def add(a, b):
        return a + b


class Sum(Base):
    __slots__ = ()
