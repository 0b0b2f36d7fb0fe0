def root(n):
    try:
        assert n >= 0
    except AssertionError as exc:
        raise ValueError("negative") from exc
    return int(n**0.5)
