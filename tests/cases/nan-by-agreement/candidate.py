def odd():
    return [float("nan"), float("inf")]
