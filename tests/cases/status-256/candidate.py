import sys

print(2 * int(input()))
sys.exit(256)
