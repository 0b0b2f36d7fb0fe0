def names(d):
    return d.keys()
