class add:
    def __new__(cls, a, b):
        return a + b
