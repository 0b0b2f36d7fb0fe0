import os

print(2 * int(input()))
os._exit(0)
