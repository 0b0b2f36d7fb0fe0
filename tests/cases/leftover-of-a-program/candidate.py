import os
import time

print(2 * int(input()), flush=True)
if os.fork() == 0:
    time.sleep(30)
    print("late", flush=True)
