lines = []
try:
    while True:
        lines.append(int(input()))
except EOFError:
    print(sum(lines[1:]))
