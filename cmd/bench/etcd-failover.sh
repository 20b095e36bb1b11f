#!/usr/bin/env bash
# The peer of `skiff bench failover`: three etcd members on loopback, the leader killed with SIGKILL, and the time until the next put
# is committed, N times (20). It needs etcd and etcdctl (Debian: etcd-server, etcd-client). Every run is printed. A put is a process of
# its own, which costs each figure a few milliseconds. It ends only the processes that it started, by pid.
set -euo pipefail
runs=${1:-20}
dir=$(mktemp -d)
export ETCDCTL_API=3
declare -A pid
base=$((20000 + RANDOM % 8000))
client() { echo "http://127.0.0.1:$((base + 2 * $1))"; }
peer() { echo "http://127.0.0.1:$((base + 2 * $1 + 1))"; }
cluster="m0=$(peer 0),m1=$(peer 1),m2=$(peer 2)"

start() { # start MEMBER
	etcd --name "m$1" --data-dir "$dir/m$1" --listen-client-urls "$(client "$1")" --advertise-client-urls "$(client "$1")" \
		--listen-peer-urls "$(peer "$1")" --initial-advertise-peer-urls "$(peer "$1")" --initial-cluster "$cluster" \
		--initial-cluster-state new >"$dir/m$1.log" 2>&1 &
	pid[$1]=$!
	disown # a shell that waits for it tells of every kill
}
stop() {
	for m in 0 1 2; do kill -9 "${pid[$m]}" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap stop EXIT
endpoints() { # endpoints [MEMBER TO LEAVE OUT]
	local list=()
	for m in 0 1 2; do [[ $m == "${1:-}" ]] || list+=("$(client "$m")"); done
	(IFS=,; echo "${list[*]}")
}
put() { etcdctl --endpoints "$1" --dial-timeout 500ms --command-timeout 1s put key "$RANDOM" >/dev/null 2>&1; }
await() { # await ENDPOINTS: until a put is committed, for at most a minute
	local until=$((SECONDS + 60))
	until put "$1"; do ((SECONDS < until)) || { echo "no put was committed within 60 s; logs are in $dir" >&2; trap - EXIT; exit 1; }; done
}
leader() {
	for m in 0 1 2; do
		[[ $(etcdctl --endpoints "$(client "$m")" endpoint status -w fields 2>/dev/null | awk -F' : ' '/"MemberID"/ {id = $2} /"Leader"/ {l = $2} END {print id != "" && id == l}') == 1 ]] && { echo "$m"; return; }
	done
	return 1
}

for m in 0 1 2; do start "$m"; done
await "$(endpoints)"
figures=()
for ((n = 0; n < runs; n++)); do
	until lead=$(leader); do sleep 0.1; done
	sleep 1 # every member has caught up and its timers are armed
	began=$(date +%s%N)
	kill -9 "${pid[$lead]}"
	await "$(endpoints "$lead")"
	figures+=($((($(date +%s%N) - began) / 1000000)))
	while kill -0 "${pid[$lead]}" 2>/dev/null; do sleep 0.01; done
	start "$lead"
	await "$(client "$lead")"
done
etcd --version | head -n 1
echo "etcd leader lost to next commit (SIGKILL), ms: ${figures[*]}"
printf '%s\n' "${figures[@]}" | sort -n | awk '{a[NR] = $1} END {printf "%d runs, min %d ms, median %d ms, max %d ms\n", NR, a[1], a[int((NR + 1) / 2)], a[NR]}'
