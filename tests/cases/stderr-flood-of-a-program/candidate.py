import sys

print(2 * int(input()), flush=True)
while True:
    sys.stderr.write("x" * 65536)
