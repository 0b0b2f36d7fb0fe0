import multiprocessing


def twice(n):
    return 2 * n


if __name__ == "__main__":
    number = int(input())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(twice, [number])[0])
