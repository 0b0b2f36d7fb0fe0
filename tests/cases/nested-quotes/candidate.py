def quote():
    return '"""\\n```' + "'"
