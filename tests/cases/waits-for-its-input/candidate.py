import select
import sys

select.select([sys.stdin], [], [])
print(2 * int(next(iter(sys.stdin))))
