def sum(xs):
    total = 0
    for x in xs:
        total += x
    return max(total, total)
