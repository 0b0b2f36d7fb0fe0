import threading

thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
print(2 * int(input()))
