package config

import (
	"path/filepath"
	"slices"
	"time"
)

// Quorum is the configuration of quorumd.
type Quorum struct {
	Node

	// Listener is the one socket of Raft and gRPC.
	Listener Listener
	// Advertised is its address as other nodes reach it; port 0 means the bound one.
	Advertised Listener
	// DataDir is absolute.
	DataDir string
	// Peers are addresses of quorum nodes that go before every other knowledge, by node id.
	Peers map[int32]string
	// LogStore is bolt or wal.
	LogStore string
	// Multiplier on Raft's timeouts, at least 1.
	Multiplier int
	// SnapshotBytes of log after which a snapshot is taken.
	SnapshotBytes int64
	// SnapshotInterval after which one is taken if anything changed; 0 for never.
	SnapshotInterval time.Duration
	// RecoveryElectionWait for inventories that are missing after a restore.
	RecoveryElectionWait time.Duration
	// Archive of snapshots.
	Archive Archive
	// History of the metadata.
	History History
}

// History is how much of what happened a node keeps.
type History struct {
	// MaxBytes of it, negative for none.
	MaxBytes int64
	// MaxAge of it.
	MaxAge time.Duration
}

// Archive is where and how long snapshots are archived.
type Archive struct {
	// Dir is absolute; empty for no archive.
	Dir string
	// Interval between two files.
	Interval time.Duration
	// RetentionCount of files that stay, negative for all.
	RetentionCount int
	// RetentionAge of files that stay, negative for ever.
	RetentionAge time.Duration
}

// LoadQuorum reads the configuration of quorumd. The error is an [*ExitError].
func LoadQuorum(in Input) (*Quorum, error) {
	v, err := Load(RoleQuorum, in)
	if err != nil {
		return nil, err
	}
	return v.quorum()
}

func (v *Values) quorum() (*Quorum, error) {
	node, err := v.node()
	if err != nil {
		return nil, err
	}
	q := &Quorum{
		Node:             node,
		LogStore:         v.word("raft.log.store"),
		Multiplier:       int(v.int32("raft.multiplier")),
		SnapshotBytes:    v.int64("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotInterval: v.millis("metadata.log.max.snapshot.interval.ms"),

		RecoveryElectionWait: v.millis("recovery.election.wait.ms"),
	}
	if q.Peers, err = parsePeers(v.text("controller.quorum.peers")); err != nil {
		return nil, v.problem("controller.quorum.peers", "write id@host:port", "%v", err)
	}
	q.History = History{MaxBytes: v.int64("metadata.history.retention.bytes"), MaxAge: v.millis("metadata.history.retention.ms")}
	if q.Archive, err = v.archive(); err != nil {
		return nil, err
	}
	if q.DataDir, err = v.metadataDirectory(); err != nil {
		return nil, err
	}
	if q.Listener, q.Advertised, err = v.quorumListener(); err != nil {
		return nil, err
	}
	return q, nil
}

// archive reads the keys of the archive. 0 files would be none at all, which is refused.
func (v *Values) archive() (Archive, error) {
	a := Archive{
		Interval:       v.millis("snapshot.archive.interval.ms"),
		RetentionCount: int(v.int32("snapshot.archive.retention.count")),
		RetentionAge:   v.millis("snapshot.archive.retention.ms"),
	}
	if a.RetentionCount == 0 {
		return a, v.problem("snapshot.archive.retention.count", "set 1 or more, or -1 for all", "an archive keeps at least one file")
	}
	if dir := v.text("snapshot.archive.dir"); dir != "" {
		path, err := filepath.Abs(dir)
		if err != nil {
			return a, v.problem("snapshot.archive.dir", "give an absolute path", "%v", err)
		}
		a.Dir = path
	}
	return a, nil
}

// quorumListener finds the quorum's listener among listeners.
func (v *Values) quorumListener() (bound, advertised Listener, err error) {
	all, err := v.listeners()
	if err != nil {
		return bound, advertised, err
	}
	names := v.list("controller.listener.names")
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(l Listener) bool { return !slices.Contains(names, l.Name) })
	}
	if len(all) != 1 {
		return bound, advertised, v.problem("listeners", "give quorumd one listener, or name it in controller.listener.names", "the quorum has exactly one listener, found %d", len(all))
	}
	told, err := v.advertised(all)
	if err != nil {
		return bound, advertised, err
	}
	return all[0], told[0], nil
}

// metadataDirectory is metadata.log.dir, or else the first of log.dirs.
func (v *Values) metadataDirectory() (string, error) {
	if dir := v.text("metadata.log.dir"); dir != "" {
		path, err := filepath.Abs(dir)
		if err != nil {
			return "", v.problem("metadata.log.dir", "give an absolute path", "%v", err)
		}
		return path, nil
	}
	dirs, err := v.directories()
	if err != nil {
		return "", err
	}
	if len(dirs) == 0 {
		return "", Usage("set log.dirs (or --data)", "configuration: neither metadata.log.dir nor log.dirs names a directory")
	}
	return dirs[0], nil
}
