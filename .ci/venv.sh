#!/usr/bin/env bash
# Makes .venv anew with the package and its test tools in it, then touches the stamp file named by the first argument.
#
#   PYTHON   the interpreter; else the first of the names below that runs and is 3.11 or newer
#
# Exit code 3: it could not be made, and the last line says what to do.

set -u

readonly NAMES=${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}
readonly LOG=.venv/pip.log

say() { printf 'setup: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 3; }

# The path of an interpreter that is new enough. A name may be there and not run (a version
# manager's shim), or be that of the .venv which is about to go: so it is asked for its base.
interpreter() {
    local name
    for name in $NAMES; do
        "$name" -c 'import sys; sys.exit(1) if sys.version_info < (3, 11) else print(sys._base_executable)' \
            2>/dev/null && return
    done
    return 1
}

as_root() {
    local prefix=()
    if [ "$(id -u)" -ne 0 ]; then prefix=(sudo); fi
    say "running: ${prefix[*]:+${prefix[*]} }$*"
    ${prefix[@]+"${prefix[@]}"} env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >/dev/null
}

# Debian and Ubuntu keep half of the venv module in a package of its own.
need_venv_module() {
    local python=$1 package
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    command -v apt-get >/dev/null || give_up "$python has no venv module: install it (Debian calls it $package)."
    as_root apt-get update && as_root apt-get install -y --no-install-recommends "$package" ||
        give_up "$package could not be installed: install it, then run this again."
}

main() {
    local stamp=$1 python
    python=$(interpreter) || give_up "no Python 3.11 or newer (tried: $NAMES): install one, or name it with PYTHON=."
    need_venv_module "$python"
    say "installing into .venv with $("$python" --version) (log: $LOG)"
    "$python" -m venv --clear .venv || give_up "$python could not make .venv: remove .venv, then run this again."
    if ! .venv/bin/python -m pip install -e '.[test]' </dev/null >"$LOG" 2>&1; then
        tail -n 15 "$LOG" >&2
        give_up "pip could not install the package: mend what the last lines above say (whole log: $LOG)."
    fi
    touch "$stamp"
}

main "$@"
