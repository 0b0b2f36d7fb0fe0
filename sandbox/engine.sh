#!/usr/bin/env bash
# Leaves a container engine that answers, at DOCKER_HOST or at the default socket.
#
#   sandbox/engine.sh          nothing where one answers; else start it, else (Debian, Ubuntu) install and start it
#   ENGINE=no sandbox/engine.sh   never installs or starts anything; says what to do
#
# Exit code 0: an engine answers. 3: none does, and the last line says what to do.
# Each command that changes the machine is printed before it runs. Nothing configured is ever edited.
#
#   PYTHON          the interpreter that asks the engine (.venv/bin/python or python3)
#   DOCKERD_FLAGS   more options for the dockerd that is started here
#   ENGINE_WAIT_S   how long a started engine may take to answer (60)
#   SBIN            where dockerd is looked for beside PATH (Debian keeps it off a plain user's PATH)

set -u

readonly DEFAULT_HOST=unix:///var/run/docker.sock
readonly HOST=${DOCKER_HOST:-$DEFAULT_HOST}
readonly WAIT_S=${ENGINE_WAIT_S:-60}
readonly PACKAGES=(docker.io crun iptables)
SBIN=${SBIN-/usr/local/sbin:/usr/sbin:/sbin}
PATH=$PATH${SBIN:+:$SBIN}

say() { printf 'engine: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 3; }
found() { command -v "$1" >/dev/null; }

# Whether the engine is the one service that systemd would start.
is_service() {
    case $HOST in
        "$DEFAULT_HOST" | unix:///run/docker.sock) [ -d /run/systemd/system ] ;;
        *) false ;;
    esac
}

# Empty for root, "sudo" where there is one; false where neither is.
root_prefix() {
    if [ "$(id -u)" -eq 0 ]; then return 0; fi
    found sudo && echo sudo
}

# A file that this user may write; not straight in /tmp, where root may not open another user's file.
new_log() {
    if [ -z "${TMPDIR:-}" ] && [ -w /var/log ]; then echo "/var/log/gate-$1.log"; else echo "$(mktemp -d)/$1.log"; fi
}

# Print a command, then run it as root with its output in the log.
run_as_root() {
    local log=$1; shift
    say "running: ${SUDO:+$SUDO }$*"
    # shellcheck disable=SC2086  # SUDO is one word or none
    $SUDO "$@" </dev/null >>"$log" 2>&1
}

# 0: answers /_ping and /version. 1: nobody is there. 2: this user may not use the socket.
ask() {
    local python=${PYTHON:-}
    if [ -z "$python" ]; then
        python=.venv/bin/python
        [ -x "$python" ] || python=python3
    fi
    "$python" - "$HOST" <<'PYTHON'
import http.client
import os
import socket
import sys
from urllib.parse import urlsplit

host = urlsplit(sys.argv[1])


def connection():
    if host.scheme == "unix":
        opened = http.client.HTTPConnection("localhost", timeout=5)
        opened.sock = socket.socket(socket.AF_UNIX)
        opened.sock.settimeout(5)
        opened.sock.connect(host.path)
        return opened
    return http.client.HTTPConnection(host.hostname, host.port or 2375, timeout=5)


def answers(path):
    opened = connection()
    opened.request("GET", path)
    return opened.getresponse().status == 200


def answers_by_client():  # TLS and ssh take the real client
    import docker

    client = docker.from_env(timeout=10)
    return client.ping() and bool(client.version())


try:
    if host.scheme == "unix" or (host.scheme in ("tcp", "http") and not os.environ.get("DOCKER_TLS_VERIFY")):
        alive = answers("/_ping") and answers("/version")
    else:
        alive = answers_by_client()
except PermissionError:
    sys.exit(2)
except Exception:
    sys.exit(1)
sys.exit(0 if alive else 1)
PYTHON
}

refuse_if_denied() {
    [ "$1" -eq 2 ] || return 0
    give_up "$(id -un) may not use the engine at $HOST: run as root, or" \
        "'sudo usermod -aG docker $(id -un)' and log in again."
}

has_ended() { grep -qs '^dockerd ended' "$1"; }

# Wait for the answer; false when dockerd has ended or the time is up.
wait_for_answer() {
    local log=$1 end=$((SECONDS + WAIT_S)) status
    while [ "$SECONDS" -lt "$end" ]; do
        ask; status=$?
        if [ "$status" -ne 1 ]; then return "$status"; fi
        if has_ended "$log"; then return 1; fi
        sleep 0.5
    done
    return 1
}

# The options for a dockerd of ours. A runtime that daemon.json names already must not be named again.
dockerd_options() {
    if [ "$HOST" != "$DEFAULT_HOST" ]; then printf '%s\n' -H "$HOST"; fi
    if found crun && ! grep -qs '"runtimes"' /etc/docker/daemon.json; then
        printf '%s\n' --add-runtime "crun=$(command -v crun)"
    fi
    # shellcheck disable=SC2086  # meant as several words
    printf '%s\n' ${DOCKERD_FLAGS:-} "$@"
}

# Start dockerd in a session of its own. A child that keeps a descriptor of ours
# holds the caller's pipe open, and CI waits for it until it is killed.
start_detached() {
    local log=$1 options; shift
    mapfile -t options < <(dockerd_options "$@" | sed '/^$/d')
    say "running: ${SUDO:+$SUDO }setsid dockerd ${options[*]} (log: $log)"
    : >"$log"
    # shellcheck disable=SC2016  # expanded by the inner shell
    $SUDO bash -c '
        for fd in /proc/$$/fd/*; do
            fd=${fd##*/}
            if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
        done
        log=$1; shift
        setsid bash -c '\''"$@"; echo "dockerd ended with status $?"'\'' - "$@" </dev/null >>"$log" 2>&1 &
    ' - "$log" dockerd ${options[@]+"${options[@]}"} </dev/null >>"$log" 2>&1
}

fail_with_log() {
    local log=$1
    if is_service; then
        $SUDO journalctl -u docker -n 15 --no-pager >>"$log" 2>&1 </dev/null
    fi
    tail -n 15 "$log" >&2
    give_up "dockerd was started but does not answer at $HOST: mend what its last lines above say" \
        "(whole log: $log), or point DOCKER_HOST at an engine that runs."
}

# Start the installed engine; true when it answers.
start() {
    local log status
    log=$(new_log dockerd)
    if is_service; then run_as_root "$log" systemctl start docker; else start_detached "$log"; fi
    wait_for_answer "$log"; status=$?
    if [ "$status" -eq 1 ] && has_ended "$log" && grep -Eqi 'iptables|network controller|bridge' "$log"; then
        say "dockerd cannot set up its network here (log: $log); trying once more without one: candidates need none"
        log=$(new_log dockerd-without-network)
        start_detached "$log" --iptables=false --bridge=none
        wait_for_answer "$log"; status=$?
    fi
    if [ "$status" -eq 1 ]; then fail_with_log "$log"; fi
    return "$status"
}

install_packages() {
    local log
    log=$(new_log apt)
    say "no engine is installed; installing one (log: $log)"
    if ! { run_as_root "$log" apt-get update &&
        run_as_root "$log" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${PACKAGES[@]}"; }; then
        tail -n 15 "$log" >&2
        give_up "the packages could not be installed: mend what the last lines above say (whole log: $log)."
    fi
}

# The one who had the engine installed may use it: by the group from the next
# login on, and as the socket's owner until then.
let_user_in() {
    local log
    log=$(new_log access)
    run_as_root "$log" usermod -aG docker "$(id -un)"
    run_as_root "$log" chown "$(id -un)" "${HOST#unix://}"
    ask
}

main() {
    local status installed=no
    ask; status=$?
    if [ "$status" -eq 0 ]; then exit 0; fi
    refuse_if_denied "$status"
    if [ "${ENGINE:-}" = no ]; then
        give_up "no container engine answers at $HOST: start one, install one (on Debian or Ubuntu:" \
            "apt-get install ${PACKAGES[*]}), or point DOCKER_HOST at one."
    fi
    if [ "${HOST#unix://}" = "$HOST" ]; then
        give_up "no container engine answers at $HOST: start it there, or unset DOCKER_HOST."
    fi
    if ! found dockerd && ! found apt-get; then
        give_up "no container engine answers at $HOST: install Docker or Podman for this system," \
            "start it, and point DOCKER_HOST at its socket."
    fi
    if ! SUDO=$(root_prefix); then
        give_up "no container engine answers at $HOST: run this again as root, or install sudo," \
            "so that one can be installed or started."
    fi
    if ! found dockerd; then
        install_packages
        installed=yes
    fi
    ask; status=$?
    if [ "$status" -eq 1 ]; then start; status=$?; fi
    if [ "$status" -eq 2 ] && [ "$installed" = yes ]; then let_user_in; status=$?; fi
    refuse_if_denied "$status"
    say "an engine answers at $HOST"
}

main
