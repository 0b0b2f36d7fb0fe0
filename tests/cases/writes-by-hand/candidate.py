import os

for piece in str(2 * int(input())):
    os.write(1, piece.encode())
