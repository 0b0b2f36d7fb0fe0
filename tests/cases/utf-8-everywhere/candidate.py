import locale
import sys


def encodings():
    with open("/tmp/text", "w") as file:
        return [file.encoding.lower(), sys.getfilesystemencoding(), locale.getpreferredencoding().lower()]
