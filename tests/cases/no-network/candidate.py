import socket


def probe():
    with open("/proc/net/dev") as file:
        names = [line.partition(":")[0].strip() for line in file if ":" in line]
    found = [name for name in names if name != "lo"]
    for address in (("192.0.2.1", 80), ("172.17.0.1", 22), ("169.254.169.254", 80)):
        with socket.socket() as tried:
            tried.settimeout(1)
            try:
                tried.connect(address)
                found.append(address[0])
            except OSError:
                pass
    try:
        found.append(socket.gethostbyname("localhost.example"))
    except OSError:
        pass
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
        found.append("raw socket")
    except OSError:
        pass
    return found
