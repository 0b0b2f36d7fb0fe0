import doctest
import unittest


def add(a, b):
    """
    >>> add(1, 2)
    3
    """
    return a + b


class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 1), 2)


doctest.testmod()
unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(TestAdd))
