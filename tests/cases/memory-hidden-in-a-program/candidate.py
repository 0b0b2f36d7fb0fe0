print(2 * int(input()), flush=True)
kept = []
while True:
    kept.append(bytearray(1 << 22))
