import contextlib
import io


def add(a, b):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print(a + b)
    return int(out.getvalue())
