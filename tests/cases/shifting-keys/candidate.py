import random


class Key:
    def __hash__(self):
        return random.getrandbits(30)

    def __eq__(self, other):
        raise RuntimeError


def tally(s):
    return {Key(): 1, Key(): 2}
