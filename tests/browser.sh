#!/usr/bin/env bash
# Leaves a Chromium for the tests of pages; where none can be installed, they say so and are skipped.
#
#   BROWSER=no   never install one
#
# Each command that changes the machine is printed before it runs.

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
say() { printf 'browser: %s\n' "$*" >&2; }

if [ "${BROWSER:-}" = no ] || ! command -v apt-get >/dev/null; then
    say "no Chromium here: install one to run the tests of pages"
    exit 0
fi
SUDO=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "no Chromium here, and neither root nor sudo to install one"; exit 0; }
    SUDO=sudo
fi
say "running: ${SUDO:+$SUDO }apt-get install --no-install-recommends chromium"
install() {
    DEBIAN_FRONTEND=noninteractive $SUDO apt-get install -y --no-install-recommends chromium </dev/null >/dev/null 2>&1
}
install || { $SUDO apt-get update </dev/null >/dev/null 2>&1 && install; } || say "chromium could not be installed"
exit 0
