import ctypes
import os

CALLS = {"perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "bpf": 321, "add_key": 248,
         "keyctl": 250, "mount": 165, "pivot_root": 155, "setns": 308, "kexec_load": 246, "init_module": 175,
         "open_by_handle_at": 304, "process_vm_readv": 310, "ptrace": 101, "reboot": 169, "swapon": 167}
REFUSED = {1, 38}  # EPERM, ENOSYS


def probe():
    if os.uname().machine != "x86_64":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for name, number in CALLS.items():
        result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
        if result >= 0 or ctypes.get_errno() not in REFUSED:
            found.append(name)
    return found
