import sys

sys.stdout = open("/dev/stdout", "w", buffering=1)
print(2 * int(input()))
