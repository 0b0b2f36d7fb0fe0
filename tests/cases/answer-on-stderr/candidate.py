import sys

print(2 * int(input()), file=sys.stderr)
