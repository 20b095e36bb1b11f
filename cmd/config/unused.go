package config

import (
	"slices"
	"strings"
)

// unusedPrefixes are families of Kafka's keys of which Skiff uses none.
var unusedPrefixes = []string{
	"authorizer.", "confluent.", "delegation.token.", "group.", "listener.name.", "metrics.", "offsets.", "password.encoder.",
	"principal.", "producer.id.", "remote.", "sasl.", "security.", "share.", "ssl.", "telemetry.", "transaction.", "zookeeper.",
}

// unusedKeys are Kafka's broker keys that Skiff does not use and that belong to none of unusedPrefixes. Families that Skiff
// uses in part stand here one by one, so that a slip of the pen in them is still found.
var unusedKeys = []string{
	"add.partitions.to.txn.retry.backoff.ms", "add.partitions.to.txn.retry.backoff.max.ms",
	"advertised.host.name", "advertised.port", "allow.everyone.if.no.acl.found",
	"alter.config.policy.class.name", "alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds",
	"auto.include.jmx.reporter", "auto.leader.rebalance.enable", "background.threads", "broker.id.generation.enable",
	"client.quota.callback.class", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
	"config.providers", "connection.failed.authentication.delay.ms", "connections.max.reauth.ms", "control.plane.listener.name",
	"controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms",
	"controller.performance.always.log.threshold.ms", "controller.performance.sample.period.ms", "controller.quota.window.num",
	"controller.quota.window.size.seconds", "controller.quorum.append.linger.ms", "controller.quorum.auto.join.enable",
	"controller.quorum.election.backoff.max.ms", "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
	"controller.quorum.fetch.max.bytes", "controller.quorum.fetch.snapshot.max.bytes", "controller.quorum.request.timeout.ms",
	"controller.quorum.retry.backoff.ms", "controller.quorum.voters", "controller.socket.timeout.ms",
	"create.topic.policy.class.name", "delete.records.purgatory.purge.interval.requests", "delete.topic.enable",
	"early.start.listeners", "eligible.leader.replicas.enable", "fetch.max.bytes", "fetch.purgatory.purge.interval.requests",
	"follower.fetch.last.tiered.offset.enable", "host.name", "inter.broker.protocol.version", "internal.log.cleaner.delete.max.segment.bytes",
	"kafka.metrics.polling.interval.secs", "kafka.metrics.reporters", "leader.imbalance.check.interval.seconds",
	"leader.imbalance.per.broker.percentage", "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size",
	"log.cleaner.delete.retention.ms", "log.cleaner.enable", "log.cleaner.hash.algorithm", "log.cleaner.io.buffer.load.factor",
	"log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms",
	"log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads", "log.cleanup.policy",
	"log.dir.failure.timeout.ms", "log.flush.interval.messages", "log.flush.interval.ms", "log.flush.offset.checkpoint.interval.ms",
	"log.flush.scheduler.interval.ms", "log.flush.start.offset.checkpoint.interval.ms", "log.index.interval.bytes",
	"log.index.size.max.bytes", "log.initial.task.delay.ms", "log.local.retention.bytes", "log.local.retention.ms",
	"log.message.downconversion.enable", "log.message.format.version", "log.message.timestamp.after.max.ms",
	"log.message.timestamp.before.max.ms", "log.message.timestamp.difference.max.ms", "log.preallocate", "log.roll.hours",
	"log.roll.jitter.hours", "log.roll.jitter.ms", "log.roll.ms", "log.segment.delete.delay.ms",
	"max.connection.creation.rate", "max.connections.per.ip", "max.connections.per.ip.overrides",
	"max.incremental.fetch.session.cache.slots", "max.request.partition.size.limit",
	"metadata.log.segment.bytes", "metadata.log.segment.min.bytes", "metadata.log.segment.ms", "metadata.max.idle.interval.ms",
	"metadata.max.retention.bytes", "metadata.max.retention.ms", "metric.reporters", "num.io.threads", "num.network.threads",
	"num.recovery.threads.per.data.dir", "num.replica.alter.log.dirs.threads", "num.replica.fetchers", "port",
	"producer.purgatory.purge.interval.requests", "queued.max.request.bytes", "queued.max.requests",
	"quota.consumer.default", "quota.producer.default", "quota.window.num", "quota.window.size.seconds",
	"replica.fetch.backoff.ms", "replica.fetch.max.bytes", "replica.fetch.min.bytes", "replica.fetch.response.max.bytes",
	"replica.high.watermark.checkpoint.interval.ms", "replica.selector.class", "replica.socket.receive.buffer.bytes",
	"replica.socket.timeout.ms", "replication.quota.window.num", "replication.quota.window.size.seconds",
	"request.timeout.ms", "reserved.broker.max.id", "server.max.startup.time.ms",
	"socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "socket.listen.backlog.size",
	"socket.receive.buffer.bytes", "socket.send.buffer.bytes", "super.users", "unclean.leader.election.interval.ms",
	"unstable.api.versions.enable", "unstable.feature.versions.enable",
}

// unusedKey tells whether key is one of Kafka's that Skiff does not use.
func unusedKey(key string) bool {
	if slices.Contains(unusedKeys, key) {
		return true
	}
	return slices.ContainsFunc(unusedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// unusedEnv tells whether a variable KAFKA_<name> is one of Kafka's keys that Skiff does not use, and gives the key.
func unusedEnv(name string) (key string, ok bool) {
	for _, key := range unusedKeys {
		if envName(key) == name {
			return key, true
		}
	}
	for _, prefix := range unusedPrefixes {
		if strings.HasPrefix(name, envName(prefix)) {
			return strings.ToLower(strings.ReplaceAll(name, "_", ".")), true
		}
	}
	return "", false
}
