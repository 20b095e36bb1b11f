package controller

import (
	"math/rand/v2"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Env is everything a decision may know besides the image and the request.
type Env struct {
	// Now is the controller's wall clock at the decision.
	Now time.Time
	// Rand is where topic ids and placements come from.
	Rand *rand.Rand
	// Limits bound what one request may ask for.
	Limits Limits
	// Defaults are the controller's static configuration.
	Defaults Defaults
	// Cause says who asked; it goes into every batch. Nil stands for the controller's own duties.
	Cause *metadatav1.Cause
	// RequestID is the same in every attempt at one request; it goes into every batch.
	RequestID fsm.UUID
	// Liveness is the soft state about brokers. Decisions read it and never write it.
	Liveness *Liveness
	// Inventories is what brokers reported of their logs. Decisions read it and never write it; nil is empty.
	Inventories *Inventories
}

// Limits bound what one decision may write (I20).
type Limits struct {
	// MaxRecordsPerBatch is the number of records that one batch may hold.
	MaxRecordsPerBatch int
	// MaxBatchBytes is the encoded size of one batch. It leaves room for the envelope in an entry of 1 MiB.
	MaxBatchBytes int
	// MaxPartitionsPerRequest is the number of partitions that one CreateTopics request may ask for.
	MaxPartitionsPerRequest int64
	// MaxElectionsPerRun is the number of leaders that one run of a periodic duty may move.
	MaxElectionsPerRun int
	// MaxRecoveriesPerRun is the number of leaders that one run elects from inventories. After a restore every partition
	// waits for one, and the next run follows at once.
	MaxRecoveriesPerRun int
	// RecoveryElectionWait is recovery.election.wait.ms: how long an operator who wants leaders elected without all
	// inventories is asked to wait for them, counted from the claim.
	RecoveryElectionWait time.Duration
}

// DefaultRecoveryElectionWait is enough for a broker to start and to look at its logs.
const DefaultRecoveryElectionWait = time.Minute

// DefaultLimits are the limits of the log format and of Kafka.
func DefaultLimits() Limits {
	return Limits{
		MaxRecordsPerBatch:      10_000,
		MaxBatchBytes:           1<<20 - 4096,
		MaxPartitionsPerRequest: 10_000,
		MaxElectionsPerRun:      1_000,
		MaxRecoveriesPerRun:     10_000,
		RecoveryElectionWait:    DefaultRecoveryElectionWait,
	}
}

// Defaults are the values that a request leaves open.
type Defaults struct {
	// NumPartitions is num.partitions.
	NumPartitions int32
	// ReplicationFactor is default.replication.factor.
	ReplicationFactor int32
	// Topics are the static values of topic configurations, such as min.insync.replicas.
	Topics topicconfig.Static
	// AutoLeaderRebalance is auto.leader.rebalance.enable.
	AutoLeaderRebalance bool
	// TopicDeletion is delete.topic.enable.
	TopicDeletion bool
}

// KafkaDefaults are Kafka's own defaults.
func KafkaDefaults() Defaults {
	return Defaults{NumPartitions: 1, ReplicationFactor: 1, AutoLeaderRebalance: true, TopicDeletion: true}
}
