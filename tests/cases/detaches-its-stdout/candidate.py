import io
import sys

sys.stdout = io.TextIOWrapper(sys.stdout.detach(), "utf-8", write_through=True)
print(2 * int(input()))
