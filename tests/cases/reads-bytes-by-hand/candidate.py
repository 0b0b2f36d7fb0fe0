import os

data = b""
while byte := os.read(0, 1):
    data += byte
print(sum(map(int, data.split()[1:])))
