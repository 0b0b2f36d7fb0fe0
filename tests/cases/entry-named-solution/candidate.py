def solution(n):
    return n + 1
