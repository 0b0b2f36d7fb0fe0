def add(a, b):
    quit()
