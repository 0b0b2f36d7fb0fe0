"""Programs that look, from where a candidate runs, for what should not be there. Data: name to program.

Each has `probe()`, which returns what it has found, one short line each; nothing is what is
wanted. Unlike `sandbox/probe.py`, which reads the limits, these try what a limit forbids.
"""

from __future__ import annotations

_MOUNTS = """
def mounts():
    \"\"\"By mount point: file system, options, what of it is mounted, and where from.\"\"\"
    found = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            bar = fields.index("-")
            found[fields[4]] = (fields[bar + 1], set(fields[5].split(",")), fields[3], fields[bar + 2])
    return found
"""

PROBES: dict[str, str] = {
    "identity": """
import os

def probe():
    with open("/proc/self/status") as file:
        said = {name: value.split() for name, _, value in (line.partition(":") for line in file)}
    found = ["%s %s" % (name, id) for name in ("Uid", "Gid", "Groups") for id in said[name] if id == "0"]
    found += ["%s %s" % (name, *said[name]) for name in said if name.startswith("Cap") and int(said[name][0], 16)]
    wanted = (("NoNewPrivs", "1"), ("Seccomp", "2"))
    found += ["%s %s" % (name, *said[name]) for name, good in wanted if said[name] != [good]]
    for call, what in ((lambda: os.setuid(0), "became root"), (lambda: os.setgid(0), "joined root's group"),
                       (lambda: os.chroot("/tmp"), "changed the root"), (lambda: os.nice(-5), "took priority")):
        try:
            call()
            found.append(what)
        except OSError:
            pass
    return found
""",
    "files": _MOUNTS
    + """
import os

def can_be_written(folder):
    path = os.path.join(folder, "written")
    try:
        with open(path, "w"):
            pass
        os.unlink(path)
        return True
    except OSError:
        return False

def runs_from(folder):
    path = os.path.join(folder, "run")
    try:
        with open(path, "w") as file:
            file.write("#!" + os.path.realpath(__import__("sys").executable))
        os.chmod(path, 0o755)
        pid = os.posix_spawn(path, [path], {})
    except OSError:
        return False
    finally:
        if os.path.exists(path):
            os.unlink(path)
    os.waitpid(pid, 0)
    return True

def probe():
    known = mounts()
    found = []
    for folder, _, _ in os.walk("/"):
        if folder.startswith(("/proc", "/sys")) or not can_be_written(folder):
            continue
        point = max((point for point in known if (folder + "/").startswith(point.rstrip("/") + "/")), key=len)
        kind, options, _, _ = known[point]
        if kind == "mqueue":
            continue  # message queues, not files: RLIMIT_MSGQUEUE bounds them
        if kind != "tmpfs":
            found.append("%s can be written, on %s" % (folder, kind))
        found += ["%s without %s" % (point, option) for option in {"nosuid", "nodev", "noexec"} - options]
        if runs_from(folder):
            found.append("a program runs from %s" % folder)
        size = os.statvfs(point)
        if not 0 < size.f_blocks * size.f_frsize <= 64 << 20:
            found.append("%s has no bound" % point)
    return sorted(set(found))
""",
    "limits": """
import mmap, os, resource

def probe():
    found = []
    for name, bound in (("CORE", 0), ("NOFILE", 256), ("FSIZE", 32 << 20)):
        hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
        if not 0 <= hard <= bound:
            found.append("%s %d" % (name, hard))
    children = []
    try:
        while len(children) < 200:
            pid = os.fork()
            if pid == 0:
                __import__("time").sleep(20)
                os._exit(0)
            children.append(pid)
        found.append("200 processes")
    except OSError:
        pass
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    pid = os.fork()
    if pid == 0:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        kept = mmap.mmap(-1, 400 << 20)
        while kept.tell() < len(kept):
            kept.write(bytes(1 << 20))
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        found.append("400 MB of memory")
    return found
""",
    "secrets": _MOUNTS
    + """
import os, re

WORDS = re.compile("key|token|secret|passw|credential|openai|proxy|session|aws|docker", re.IGNORECASE)
KERNELS = {"proc", "tmpfs", "cgroup", "cgroup2", "devpts", "mqueue", "sysfs"}

def probe():
    found = ["variable " + name for name in os.environ if WORDS.search(name)]
    try:
        open("/proc/%d/environ" % os.getppid(), "rb").close()
        found.append("what the parent was given")
    except OSError:
        pass
    # The engine brings three files of its own; with a network of none they say nothing.
    for point, (kind, _, root, _) in mounts().items():
        engines = point in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf") or kind in KERNELS
        if root != "/" and not engines:
            found.append("%s is mounted from %s" % (point, root))
    found += ["file " + path for path in ("/root", "/home", "/.dockerenv.d", "/run/secrets", "/var/run/secrets")
              if os.path.exists(path) and os.listdir(path)]
    return sorted(found)
""",
    "namespaces": """
import ctypes, os

LIBC = ctypes.CDLL(None, use_errno=True)
# By name, the number on x86_64 and on aarch64.
NUMBERS = {
    "keyctl": (250, 219), "bpf": (321, 280), "ptrace": (101, 117), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "process_vm_readv": (310, 270), "io_uring_setup": (425, 425), "setns": (308, 268),
    "pivot_root": (155, 41), "kexec_load": (246, 104), "init_module": (175, 105), "open_by_handle_at": (304, 265),
    "fsopen": (430, 430), "move_mount": (429, 429), "clone": (56, 220),
}
MACHINE = ("x86_64", "aarch64").index(os.uname().machine)
REFUSED = {1, 38}  # EPERM and ENOSYS; any other error means that the kernel has looked at it

def in_child(call):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if call() == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0

def refused(number):
    ctypes.set_errno(0)
    return LIBC.syscall(number, -1, 0, 0, 0, 0) == -1 and ctypes.get_errno() in REFUSED

def probe():
    found = []
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000), ("pid", 0x20000000),
                       ("ipc", 0x08000000), ("uts", 0x04000000), ("cgroup", 0x02000000)):
        if in_child(lambda: LIBC.unshare(flag)):
            found.append("a new %s namespace" % name)
        # SIGCHLD, so that the child can be waited for; no stack of its own: a fork.
        pid = LIBC.syscall(NUMBERS["clone"][MACHINE], flag | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)
            found.append("a child in a new %s namespace" % name)
    if LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        found.append("a mount")
    found += ["system call " + name for name in NUMBERS if name != "clone" and not refused(NUMBERS[name][MACHINE])]
    return found
""",
    "network": """
import socket

def probe():
    with open("/proc/net/dev") as file:
        names = [line.partition(":")[0].strip() for line in file if ":" in line]
    found = ["interface " + name for name in names if name != "lo"]
    with open("/proc/net/route") as file:
        found += ["a route by " + line.split()[0] for line in list(file)[1:]]
    # Connecting a datagram socket sends nothing: the kernel only looks for a way.
    for address in ("192.0.2.1", "169.254.169.254", "2001:db8::1"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            try:
                client.connect((address, 80))
                found.append("a way to " + address)
            except OSError:
                pass
    with open("/proc/net/tcp") as file:
        found += ["a TCP socket at " + line.split()[1] for line in list(file)[1:]]
    return found
""",
    "sockets": """
import os, socket, stat

def probe():
    found = []
    for name, family, kind in (("packet", 17, socket.SOCK_RAW), ("netlink", 16, socket.SOCK_RAW),
                               ("vsock", 40, socket.SOCK_STREAM), ("alg", 38, socket.SOCK_SEQPACKET),
                               ("bluetooth", 31, socket.SOCK_RAW), ("can", 29, socket.SOCK_RAW),
                               ("raw IP", socket.AF_INET, socket.SOCK_RAW), ("tipc", 30, socket.SOCK_STREAM)):
        try:
            socket.socket(family, kind).close()
            found.append("a socket of the kind " + name)
        except OSError:
            pass
    with open("/proc/net/unix") as file:
        found += ["the socket " + line.split()[7] for line in list(file)[1:] if len(line.split()) > 7]
    for folder, _, names in os.walk("/"):
        if folder.startswith("/proc"):
            continue
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                found.append("the socket or pipe " + path)
    return found
""",
    "devices": """
import os, stat

# null, zero, full, random, urandom; tty, console, ptmx
KNOWN = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)}
MADE = ((stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(10, 229)))

def probe():
    found = []
    for folder, folders, names in os.walk("/"):
        if folder.startswith(("/proc", "/sys")):
            continue
        for name in names + folders:
            path = os.path.join(folder, name)
            entry = os.lstat(path)
            if stat.S_ISBLK(entry.st_mode):
                found.append("the block device " + path)
            elif stat.S_ISCHR(entry.st_mode) and (os.major(entry.st_rdev), os.minor(entry.st_rdev)) not in KNOWN:
                found.append("the device " + path)
            elif entry.st_mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(entry.st_mode):
                found.append("the set-id program " + path)
    for kind, device in MADE:
        try:
            os.mknod("/tmp/device", kind | 0o666, device)
            os.unlink("/tmp/device")
            found.append("made a device")
        except OSError:
            pass
    return found
""",
    "kernel": """
import os

def probe():
    found = []
    for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/dev/kmsg", "/sys/firmware"):
        try:
            if os.path.isdir(path):
                seen = bool(os.listdir(path))
            else:
                with open(path, "rb") as file:
                    seen = bool(file.read(64))
            if seen:
                found.append("reads " + path)
        except OSError:
            pass
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
                 "/proc/sys/kernel/ns_last_pid", "/proc/sysrq-trigger"):
        try:
            with open(path, "w"):
                found.append("writes " + path)
        except OSError:
            pass
    for folder, _, names in os.walk("/sys/fs/cgroup"):
        paths = [os.path.join(folder, name) for name in names]
        found += ["writes " + path for path in paths if os.access(path, os.W_OK)]
    return found
""",
    "processes": """
import os

def probe():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\\0")
        except OSError:  # it has ended in between
            continue
        if b"/opt/run/main.py" not in words:
            found.append("the process %s" % b" ".join(words).decode(errors="replace")[:60])
    return found
""",
}
