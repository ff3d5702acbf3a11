#!/usr/bin/env bash
# Look for programs that Python packages cannot bring, and install what lacks.
#
#   tools/system-packages.sh venv|postgresql|chromium|node ...
#
# Uses apt-get, as root or by a sudo that asks nothing. Otherwise says in one
# line what is left out and how to get it; where CI=true that is a failure.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

package_of() {
  case $1 in
    venv) echo python3-venv ;;
    node) lacking_of_node | xargs ;;
    *) echo "$1" ;;
  esac
}

reason_of() {
  case $1 in
    venv) echo "makes virtual environments" ;;
    postgresql) echo "a database server for the tests with two gateways" ;;
    chromium) echo "the browser of the dashboard's tests" ;;
    node) echo "run pods, for the tests on a real Kubernetes" ;;
    *) say "unknown need: $1"; return 2 ;;
  esac
}

has() {
  case $1 in
    venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ;;
    chromium) command -v chromium >/dev/null || command -v google-chrome >/dev/null ;;
    node) [ -z "$(lacking_of_node)" ] ;;
  esac
}

# By program, so that nothing is installed over another packager's: Docker's
# containerd.io brings runc and containerd, and Debian's would remove it.
lacking_of_node() {
  local pair
  for pair in runc:runc containerd:containerd iptables:iptables ip:iproute2 gcc:gcc; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
  done
  [ -x /usr/lib/cni/bridge ] || echo containernetworking-plugins
  compgen -G '/usr/lib/*/libc.a' >/dev/null || echo libc6-dev
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
  command -v apt-get >/dev/null && as_root true 2>/dev/null
}

missing=()
packages=()
for need in "$@"; do
  reason=$(reason_of "$need")
  if ! has "$need"; then
    missing+=("$(package_of "$need") ($reason)")
    read -ra needed <<<"$(package_of "$need")"
    packages+=("${needed[@]}")
  fi
done
if [ ${#packages[@]} = 0 ]; then
  exit 0
fi

list=$(printf ', %s' "${missing[@]}")
list=${list:2}
if may_install; then
  say "Installing Debian packages: $list"
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  if as_root apt-get update -q >"$log" 2>&1 &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
      --no-install-recommends "${packages[@]}" >>"$log" 2>&1 </dev/null; then
    rm -f "$log"
    exit 0
  fi
  tail -n 20 "$log" >&2
  rm -f "$log"
fi

say "Left out: $list. To get it: apt-get install ${packages[*]}"
if [ "${CI:-}" = true ]; then
  exit 1
fi
