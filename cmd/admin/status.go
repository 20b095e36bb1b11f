package admin

// Status is what /status says. Fields of the other role are left out.
type Status struct {
	// Role is quorum or broker.
	Role string `json:"role"`
	// NodeID of the node.
	NodeID int32 `json:"node_id"`
	// PID of the process that answers.
	PID int `json:"pid"`
	// ClusterID, empty as long as the node belongs to none.
	ClusterID string `json:"cluster_id"`
	// Lineage of the image.
	Lineage Lineage `json:"lineage"`
	// MetadataOffset is the applied one: the offset of the last record in the image, 0 before the first.
	MetadataOffset int64 `json:"metadata_offset"`
	// ControllerEpoch of the image, 0 before the first claim.
	ControllerEpoch int64 `json:"controller_epoch"`
	// Digest of the image in hexadecimal; equal at equal (lineage, metadata offset) on every node (I1).
	Digest string `json:"digest"`
	// Ready tells that the node serves.
	Ready bool `json:"ready"`
	// NotReadyReason is a sentence, empty when the node is ready.
	NotReadyReason string `json:"not_ready_reason"`
	// Version of the binary.
	Version string `json:"version"`

	*QuorumStatus
	*BrokerStatus
}

// Lineage of an image.
type Lineage struct {
	// Number of the lineage, 0 before the first.
	Number uint64 `json:"number"`
	// UUID of the lineage in 22 characters.
	UUID string `json:"uuid"`
}

// QuorumStatus is what a quorum node adds.
type QuorumStatus struct {
	// RaftState is Follower, Candidate, Leader or Shutdown; empty before init.
	RaftState string `json:"raft_state"`
	// Term of Raft.
	Term uint64 `json:"term"`
	// LeaderID is the node id of the Raft leader, -1 if unknown.
	LeaderID int32 `json:"leader_id"`
	// Active tells that this node holds an open claim.
	Active bool `json:"active"`
	// ActiveController is host:port of the active controller, if known.
	ActiveController string `json:"active_controller"`
	// Frozen tells why the image is frozen, empty if it is not.
	Frozen string `json:"frozen"`
	// Unconfirmed tells that the lineage was restored and refuses its users' changes until it is confirmed. The node is ready all the same.
	Unconfirmed bool `json:"unconfirmed"`
	// SnapshotArchive is left out where none is kept.
	SnapshotArchive *SnapshotArchive `json:"snapshot_archive,omitempty"`
}

// SnapshotArchive is how the archive of snapshots does. Times are RFC 3339, empty for never since the process started.
type SnapshotArchive struct {
	// Dir of the archive.
	Dir string `json:"dir"`
	// LastSuccess is when the archive last held all there was to hold, LastWritten when a file was last written.
	LastSuccess string `json:"last_success"`
	LastWritten string `json:"last_written"`
	// LastFile is the newest file of the present lineage.
	LastFile string `json:"last_file"`
	// LastError is why the last attempt that failed did; it stays after a success. Failing tells that it was the last.
	LastError   string `json:"last_error"`
	LastErrorAt string `json:"last_error_at"`
	Failing     bool   `json:"failing"`
}

// BrokerStatus is what a broker adds.
type BrokerStatus struct {
	// BrokerEpoch of the registration, -1 before it.
	BrokerEpoch int64 `json:"broker_epoch"`
	// State of the broker's life: STARTING, RECOVERY, RUNNING, ….
	State string `json:"state"`
	// Fenced as the broker's image has it.
	Fenced bool `json:"fenced"`
	// Partitions with a replica on this broker.
	Partitions int `json:"partitions"`
	// Led partitions.
	Led int `json:"led"`
}
