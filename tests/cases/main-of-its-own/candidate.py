import inspect
import pickle
import sys
from dataclasses import dataclass

import __main__


@dataclass
class Box:
    n: int


assert __main__.Box is Box and sys.argv == [__file__]
assert "n: int" in inspect.getsource(Box)
print(2 * pickle.loads(pickle.dumps(Box(int(input())))).n)
