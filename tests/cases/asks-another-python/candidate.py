import subprocess
import sys


def add(a, b):
    done = subprocess.run([sys.executable, "-c", f"print({a} + {b})"], capture_output=True, text=True, check=True)
    return int(done.stdout)
