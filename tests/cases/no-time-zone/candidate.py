import locale
import time

locale.setlocale(locale.LC_ALL, "")


def hour(seconds):
    found = time.localtime(seconds)
    return [found.tm_year, found.tm_mon, found.tm_mday, found.tm_hour]
