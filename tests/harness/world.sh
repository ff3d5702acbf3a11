#!/usr/bin/env bash
# Run a command as root in a copy-on-write world of its own, and leave nothing of it.
#
#   tests/harness/world.sh COMMAND...
#
# Private mount, network, control-group and process namespaces. The root is an
# overlay of the machine's own, so /etc, /run and /var may be changed at will; only
# the folders of WORLD_BIND (colon separated; the checkout if unset) are shared and
# writable. There is no route out: every address is on the world's own bridge,
# 10.89.0.1/24. All that the command started dies with it.
set -euo pipefail
# The command's own folder stays the current one.
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${WORLD_BIND:=$checkout}"

die() { printf 'world.sh: %s\n' "$*" >&2; exit 1; }

# Mount points of version 1 control groups; none where version 2 alone is mounted.
controllers() { awk '$3 == "cgroup" { print $2 }' /proc/self/mounts; }

controller_key() {
  case ${1##*/} in systemd) echo name=systemd ;; *) echo "${1##*/}" ;; esac
}

# Remove groups of worlds whose shell was killed before it could.
sweep() {
  local old
  for old in "$1"/world*; do
    if [ -d "$old" ] && ! kill -0 "${old##*/world}" 2>/dev/null; then
      find "$old" -depth -type d -exec rmdir {} + 2>/dev/null || true
    fi
  done
}

# Make a group of the world's own under each controller, and print their folders.
make_groups() {
  local mount key own folder
  for mount in $(controllers); do
    key=$(controller_key "$mount")
    own=$(awk -F: -v k="$key" '$2 == k { print $3 }' /proc/self/cgroup)
    folder=$mount${own%/}/$1
    sweep "${folder%/*}"
    mkdir -p "$folder"
    if [ "$key" = cpuset ]; then # a new group has no CPU, and refuses processes
      cat "${folder%/*}/cpuset.cpus" >"$folder/cpuset.cpus"
      cat "${folder%/*}/cpuset.mems" >"$folder/cpuset.mems"
    fi
    echo "$folder"
  done
}

# Left-over groups would pin the memory group of the job that made them.
remove_groups() {
  local top folder left
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    left=0
    while read -r top; do
      [ -d "$top" ] || continue
      while read -r folder; do rmdir "$folder" 2>/dev/null || left=1; done \
        < <(find "$top" -depth -type d)
    done <"$1"
    [ $left = 0 ] && return
    sleep 0.3
  done
  echo "world.sh: control groups left over" >&2
}

enter() {
  [ "$(id -u)" = 0 ] || die "needs root"
  local list pid rc=0
  list=$(mktemp)
  make_groups "world$$" >"$list"
  # shellcheck disable=SC2016 # expanded inside
  (
    while read -r folder; do echo "$BASHPID" >"$folder/cgroup.procs"; done <"$list"
    # unshare blocks TERM and INT, and would live on when this shell is killed.
    DASKFLEET_WORLD=entering WORLD_BIND=$WORLD_BIND exec setpriv --pdeathsig KILL \
      unshare --mount --net --cgroup --pid --fork --kill-child --mount-proc \
      --propagation private bash "${BASH_SOURCE[0]}" "$@"
  ) <&0 &
  pid=$!
  # Reaped here, or bash tells everybody how the job ended.
  trap 'kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null || true' TERM INT HUP
  wait $pid || rc=$?
  kill -KILL $pid 2>/dev/null || true
  remove_groups "$list"
  rm -f "$list"
  exit $rc
}

# Folders that are mounts of their own are no part of the overlay of /.
show_other_mounts() {
  local target
  while read -r target; do
    case $target in
      / | /proc* | /sys* | /dev* | /run* | /mnt*) continue ;;
    esac
    [ -d "$target" ] || continue
    mkdir -p "$1$target" "/mnt/other$target"/{upper,work}
    mount -t overlay overlay -o \
      "lowerdir=$target,upperdir=/mnt/other$target/upper,workdir=/mnt/other$target/work" \
      "$1$target" 2>/dev/null || mount --bind -o ro "$target" "$1$target"
  done < <(awk '{ print $5 }' /proc/self/mountinfo)
}

mount_groups() {
  local mounts=$1 root=$2 mount key options
  if [ -z "$mounts" ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    return
  fi
  # The machine's /sys/fs/cgroup is shared between mount namespaces: a fresh one.
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  for mount in $mounts; do
    key=${mount##*/}
    options=$key
    [ "$key" = systemd ] && options=none,name=systemd
    mkdir "$root/sys/fs/cgroup/$key"
    mount -t cgroup -o "$options" cgroup "$root/sys/fs/cgroup/$key"
  done
}

inside() {
  local root=/mnt/root cwd=$PWD mounts folder
  mounts=$(controllers)
  mount -t tmpfs -o mode=755 tmpfs /mnt
  mkdir /mnt/{upper,work,root}
  mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work $root
  show_other_mounts $root
  mount --rbind /dev $root/dev
  mount -t proc proc $root/proc
  mount -t sysfs sysfs $root/sys
  mount -t tmpfs -o mode=755 tmpfs $root/run
  mkdir -p $root/run/{netns,lock}
  IFS=: read -ra bound <<<"$WORLD_BIND"
  for folder in "${bound[@]}"; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
  done
  mount_groups "$mounts" $root
  mkdir -p $root/.old
  cd $root
  pivot_root . .old
  cd "$cwd"
  umount -l /.old
  rmdir /.old
  mount --make-rshared /
  chmod 711 /root # other users may reach an interpreter there
  # Where it is a mounted file, the overlay shows what is under it: often nothing.
  grep -qs localhost /etc/hosts || echo "127.0.0.1 localhost" >>/etc/hosts
  ip link set lo up
  ip link add world0 type bridge
  ip address add 10.89.0.1/24 dev world0
  ip link set world0 up
  export DASKFLEET_WORLD=1
  # Not where a pytest outside has its own: it ends what runs with its folder's name,
  # and sees the processes in here.
  export PYTEST_DEBUG_TEMPROOT=/run
  # Pods, Services and the node; nothing else can be reached from in here.
  export PYTEST_ADDOPTS="--allow-hosts=127.0.0.0/8,::1,10.0.0.0/8 ${PYTEST_ADDOPTS:-}"
  # This shell stays process 1 and reaps; the command's status is the world's.
  "$@" <&0 &
  wait $!
}

[ $# -gt 0 ] || die "usage: world.sh COMMAND..."
if [ "${DASKFLEET_WORLD:-}" = entering ]; then inside "$@"; else enter "$@"; fi
