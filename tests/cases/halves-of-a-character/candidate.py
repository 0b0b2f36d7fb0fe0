def smile():
    return chr(0xD83D) + chr(0xDE00)
