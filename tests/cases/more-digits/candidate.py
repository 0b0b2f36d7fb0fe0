import sys

sys.set_int_max_str_digits(0)


def digits(n):
    return len(str(10 ** (n - 1)))
