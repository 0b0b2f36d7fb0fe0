def add(a, b):
        if a:
	return a + b
        return b
