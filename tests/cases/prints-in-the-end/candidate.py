import atexit

number = int(input())
atexit.register(lambda: print(2 * number))
