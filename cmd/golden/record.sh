#!/usr/bin/env bash
# Records what a real Apache Kafka answers to the steps of this package into testdata: one KRaft controller and three
# brokers, from Kafka's own jars, on loopback. It needs java 17 or later, mvn and Go, and ends only what it started.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
pids=()
finish() {
	# Their data goes with them, and a broker whose controller is gone takes minutes over its farewell.
	for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap finish EXIT

mvn -q -B -f testdata/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/libs"
printf 'rootLogger.level = WARN\nrootLogger.appenderRef.out.ref = OUT\nappender.out.type = Console\nappender.out.name = OUT\n' >"$work/log4j2.properties"
jvm=(java -Xmx384m -Dlog4j2.configurationFile="$work/log4j2.properties" -cp "$work/libs/*")
cluster=$("${jvm[@]}" kafka.tools.StorageTool random-uuid)
base=${PORT:-29092}

config() { # config ID ROLE
	cat <<-END
		node.id=$1
		process.roles=$2
		controller.quorum.voters=100@localhost:$((base - 1))
		controller.listener.names=CONTROLLER
		log.dirs=$work/data-$1
		num.partitions=1
		default.replication.factor=1
		offsets.topic.replication.factor=1
		auto.create.topics.enable=false
		leader.imbalance.check.interval.seconds=3600
		group.initial.rebalance.delay.ms=0
	END
	if [[ $2 == controller ]]; then
		echo "listeners=CONTROLLER://localhost:$((base - 1))"
	else
		echo "listeners=PLAINTEXT://localhost:$((base + $1))"
	fi
}

for node in 100:controller 1:broker 2:broker 3:broker; do
	id=${node%%:*}
	config "$id" "${node#*:}" >"$work/$id.properties"
	"${jvm[@]}" kafka.tools.StorageTool format -t "$cluster" -c "$work/$id.properties" >/dev/null
	"${jvm[@]}" kafka.Kafka "$work/$id.properties" >"$work/$id.log" 2>&1 &
	pids+=($!)
done
go test -count=1 -v -timeout 5m -run 'TestRecord$' . -args -record "localhost:$((base + 1)),localhost:$((base + 2)),localhost:$((base + 3))" || {
	tail -n 20 "$work"/*.log
	exit 1
}
