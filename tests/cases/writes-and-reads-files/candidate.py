import os
import pathlib
import tempfile


def add(a, b):
    pathlib.Path("numbers.txt").write_text(f"{a} {b}")
    with tempfile.TemporaryDirectory() as folder:
        os.rename("numbers.txt", os.path.join(folder, "n"))
        return sum(map(int, pathlib.Path(folder, "n").read_text().split()))
