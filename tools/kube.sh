#!/usr/bin/env bash
# Print the path of the `kube` binary, and build it first where it is missing.
#
#   tools/kube.sh          build if need be (ten minutes of CPU the first time)
#   tools/kube.sh --path   build nothing; exit status 1 where it is missing
#
# Without Go it says in one line what is left out; where CI=true that is a failure.
# etcd, the Kubernetes control plane, kubelet, kube-proxy and CoreDNS in one file
# of 135 MB, for the tests. It is kept by its sources' hash outside the checkout,
# so that a fresh clone finds it: ${XDG_CACHE_HOME:-~/.cache}/daskfleet/kube-<hash>.
set -euo pipefail
cd "$(dirname "$0")/../tests/harness/kube"

say() { printf '%s\n' "$*" >&2; }

hash=$(cat go.mod go.sum main.go | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/daskfleet
binary=$cache/kube-$hash

if [ -x "$binary" ] || [ "${1:-}" = --path ]; then
  printf '%s\n' "$binary"
  [ -x "$binary" ]
  exit
fi

# Where the Go project's own archive is unpacked, PATH often lacks it.
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  say "Left out: Kubernetes (no Go to build it). To get it: install Go 1.21 or newer from https://go.dev/dl/"
  [ "${CI:-}" != true ]
  exit
fi

mkdir -p "$cache"
exec 9>"$cache/kube.lock"
flock 9 # two checkouts must not build at once: each takes both cores
if [ ! -x "$binary" ]; then
  say "Building Kubernetes for the tests into $binary (once; 5 minutes on two idle cores)"
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  package=k8s.io/component-base/version
  trap 'rm -f "$binary.part"' EXIT
  nice -n 10 go build -trimpath -o "$binary.part" -ldflags \
    "-s -w -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor" .
  mv "$binary.part" "$binary"
fi
printf '%s\n' "$binary"
