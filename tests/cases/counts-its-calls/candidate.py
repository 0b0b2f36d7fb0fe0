count = 0


def next_id(name):
    global count
    count += 1
    return count
