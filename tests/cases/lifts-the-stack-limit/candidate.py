import resource
import sys

soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
sys.setrecursionlimit(10**6)


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


print(2 * int(input()) + down(20000) - 20000)
