from operator import add
