import sys

lines = []


def trace(frame, event, arg):
    lines.append(frame.f_lineno)
    return trace


sys.settrace(trace)


def add(a, b):
    return a + b
