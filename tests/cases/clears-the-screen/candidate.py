import os

os.system("clear 2> /dev/null")
print(2 * int(input()))
