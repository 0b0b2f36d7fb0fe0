n = int(input())
print("\n" * 500_000)
for i in range(n):
    print(i, end="   \n")
