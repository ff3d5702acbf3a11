#!/usr/bin/env bash
# Make .venv, or bring it up to date, with one extra of pyproject.toml.
#
#   tools/environment.sh demo|dev
#
# A second run with nothing changed takes a few hundredths of a second. PYTHON
# names an interpreter; otherwise the first that is new enough is taken.
set -euo pipefail
cd "$(dirname "$0")/.."

extra=${1:?demo or dev}
venv=.venv
constraints=tools/constraints.txt

say() { printf '%s\n' "$*" >&2; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  say "Step failed: look for Python 3.11 or newer (tried: ${PYTHON:-python3, python3.11 to python3.14})"
  say "What to do: apt-get install python3 python3-venv (Debian 12 or newer), or name one: make PYTHON=/path/to/python3.12 ..."
  return 1
}

# Whatever makes an environment stale; the folder, since its scripts hold the path.
fingerprint() {
  { pwd; cat pyproject.toml "$constraints" "$0"; } | sha256sum | cut -c1-16
}

make_venv() {
  local python
  python=$(find_python)
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    tools/system-packages.sh venv
  fi
  say "Making $venv with $("$python" -V) ($python)"
  if ! "$python" -m venv --clear "$venv"; then
    say "Step failed: make a virtual environment with $python"
    say "What to do: apt-get install python3-venv, then type the command again"
    return 1
  fi
}

# uv is many times faster than pip; where it cannot be had, pip does the same.
install() {
  local python=$venv/bin/python
  say "Installing what '$extra' needs from PyPI into $venv (a minute, or a few with pip)"
  if "$python" -m pip install --quiet --disable-pip-version-check -c "$constraints" uv &&
    UV_SYSTEM_CERTS=1 "$venv/bin/uv" pip install --python "$python" \
      -c "$constraints" -e ".[$extra]" 2>&1 | sed '/^ [-+~] /d'; then
    return
  fi
  say "uv did not do it; going on with pip"
  if ! "$python" -m pip install --disable-pip-version-check -c "$constraints" -e ".[$extra]"; then
    say "Step failed: install the Python packages"
    say "What to do: look at the lines above; most often PyPI cannot be reached (pip's proxy and index settings are honoured)"
    return 1
  fi
}

want=$(fingerprint)
for covering in "$extra" dev; do
  if [ "$(cat "$venv/.installed-$covering" 2>/dev/null)" = "$want" ] &&
    "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
  fi
done
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  make_venv
fi
rm -f "$venv"/.installed-*
install
printf '%s\n' "$want" >"$venv/.installed-$extra"
