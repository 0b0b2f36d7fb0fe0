def name():
    return "e\u0301"
