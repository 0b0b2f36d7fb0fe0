"""The least that a candidate can cost: a bare fork of a warm interpreter, with limits and without any boundary.

The program runs as process 1 of the same container as a cell, with the same runner and the same
requests; in front of each stands its length.
"""

from __future__ import annotations

PROGRAM = """
import gc, os, resource, struct, sys
sys.path.insert(0, "/opt/run")
import runner, values, zygote
zygote.warm()
zygote.rehearse()
fork = zygote.SYS_CLONE[os.uname().machine], zygote.SIGCHLD, 0, 0, 0, 0
os.write(1, b'{"ready":1,"python":"floor"}\\n')
gc.collect()
gc.freeze()
while True:
    head = os.read(0, 4)
    if not head:
        os._exit(0)
    left, data = struct.unpack(">I", head)[0], b""
    while len(data) < left:
        data += os.read(0, left - len(data))
    if zygote._clone(*fork) == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
        channel = runner.Channel(os.dup(0), 1, stays=False, received=data)
        job = runner.Job(channel)
        os.chmod("/src", 0o755)
        if os.path.exists(runner.SOURCE_PATH):
            os.unlink(runner.SOURCE_PATH)
        runner.write_source(job.code)
        runner.become_candidate(channel)
        runner.answer_calls(channel, job, runner.empty_module)
        os._exit(0)
    _, status = os.wait()
    os.write(1, b'{"died":%d}\\n' % os.waitstatus_to_exitcode(status))
"""
