import sys

sys.stdin.read()
sys.stdin.seek(0)
print(2 * int(sys.stdin.read()))
