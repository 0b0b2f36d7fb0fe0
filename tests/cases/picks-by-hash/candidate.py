def pick(names):
    return next(iter(set(names)))
