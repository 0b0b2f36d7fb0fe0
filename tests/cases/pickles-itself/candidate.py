import pickle


class Box:
    def __init__(self, n):
        self.n = n


def add(a, b):
    again = pickle.loads(pickle.dumps((Box(a + b), add)))
    return again[0].n if again[1] is add else None
