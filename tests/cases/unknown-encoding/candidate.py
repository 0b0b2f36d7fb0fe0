# -*- coding: no-such-encoding -*-
def add(a, b):
    return a + b
