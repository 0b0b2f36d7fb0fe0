import sys

sys.stdin.reconfigure(encoding="ascii")
sys.stdout.reconfigure(encoding="ascii", line_buffering=True, newline="\r\n")
print(2 * int(sys.stdin.readline()))
