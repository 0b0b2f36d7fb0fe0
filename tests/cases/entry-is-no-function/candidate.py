add = 5
