exec("def add(a, b):\n    return a + b\n")
