# -*- coding: latin-1 -*-
def name():
    return "é"
