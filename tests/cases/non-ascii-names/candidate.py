def add(ﬁrst, größe):
    return first + größe
