def flags(n):
    return {"a": [True, {"b": False}]}
