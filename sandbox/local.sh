#!/bin/sh
# Make a base image from a Python of this machine, for where no registry can be reached.
#
#   local.sh [PYTHON [TAG]]    import it into the engine as TAG (default: gate-base:local)
#   local.sh PYTHON -          write it to standard output instead, as a tar
#
# The Dockerfile then builds from it as from the public base, with BASE=TAG.
set -eu

python=${1:-python3}
tag=${2:-gate-base:local}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

"$python" "$here/assemble.py" "$work/root" >&2
tar -C "$work/root" --owner=0 --group=0 --numeric-owner -cf "$work/root.tar" .

if [ "$tag" = - ]; then
    cat "$work/root.tar"
else
    docker import --change 'ENV PATH=/usr/local/bin' --change 'LABEL gate=base' "$work/root.tar" "$tag"
fi
