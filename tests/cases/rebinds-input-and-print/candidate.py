import os
import sys
from io import BytesIO

stdin = BytesIO(os.read(0, os.fstat(0).st_size))
input = lambda: stdin.readline().decode().rstrip()
out = []
print = lambda *args: out.append(" ".join(map(str, args)))
print(2 * int(input()))
sys.stdout.write("\n".join(out))
