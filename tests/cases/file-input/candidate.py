import fileinput

lines = [int(line) for line in fileinput.input()]
print(sum(lines[1:]))
