package wire

// The versions in which brokers speak to each other. They are higher than what clients are offered, because what a replica
// must say does not fit into the older ones.
const (
	// ReplicaFetchVersion is the version of the Fetch that replicates a partition. A follower sets ReplicaState{ID, Epoch}
	// to its broker id and broker epoch (KIP-903), names topics by id (TopicID; Topic stays empty), and sends SessionID 0
	// and SessionEpoch -1: there are no fetch sessions. A Fetch below version 15 that names a replica is refused, since it
	// cannot carry the broker epoch without which a stale follower could not be told apart (I19).
	ReplicaFetchVersion int16 = 17
	// ReplicaEpochVersion is the version of the OffsetForLeaderEpoch that a follower sends.
	ReplicaEpochVersion int16 = 4
)

// VersionRange is a range of versions of one API, both ends included.
type VersionRange struct {
	Min, Max int16
}

// Contains tells whether v is in the range.
func (r VersionRange) Contains(v int16) bool { return r.Min <= v && v <= r.Max }
