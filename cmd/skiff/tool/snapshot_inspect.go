package tool

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// inspected is what inspect prints.
type inspected struct {
	File            string             `json:"file"`
	Bytes           int64              `json:"bytes"`
	Format          uint32             `json:"format"`
	FeatureLevel    int32              `json:"feature_level"`
	ClusterID       string             `json:"cluster_id"`
	Lineage         string             `json:"lineage"`
	Ancestors       []ancestor         `json:"ancestors"`
	Confirmed       bool               `json:"confirmed"`
	MetadataOffset  int64              `json:"metadata_offset"`
	ControllerEpoch int64              `json:"controller_epoch"`
	EpochBase       int64              `json:"epoch_base"`
	ClaimOffset     int64              `json:"claim_offset"`
	ClaimedBy       int32              `json:"claimed_by"`
	LastChange      string             `json:"last_change"`
	NextProducerID  int64              `json:"next_producer_id"`
	Digest          string             `json:"digest"`
	Kinds           []kindUsage        `json:"kinds"`
	Topics          []inspectedTopic   `json:"topics,omitempty"`
	Brokers         []inspectedBroker  `json:"brokers,omitempty"`
	ControllerNodes []inspectedQuorumd `json:"quorum_nodes,omitempty"`
}

// ancestor is a lineage that this one continues.
type ancestor struct {
	UUID       string `json:"uuid"`
	ForkOffset int64  `json:"fork_offset"`
}

// kindUsage is what the records of one kind take.
type kindUsage struct {
	Kind    string `json:"kind"`
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
}

func (f *finder) snapshotInspect() *cobra.Command {
	var topics, brokers bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what a snapshot holds",
		Long: `Says which cluster a snapshot is of, where in its history, when it last changed and who was the active controller, and how many records of each
kind it has and what they take. The file is read to its end and verified. --topics and --brokers list them too.`,
		Example: "  skiff snapshot inspect nightly.snapshot\n  skiff snapshot inspect nightly.snapshot --topics --brokers -o json",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := inspectFile(args[0], 0, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			v := inspectedOf(args[0], info)
			if topics || brokers {
				img, err := readSnapshotFile(args[0], newProgress(cmd.ErrOrStderr(), "read"))
				if err != nil {
					return err
				}
				v.list(img, topics, brokers)
			}
			return v.print(cmd.OutOrStdout(), f.format)
		},
	}
	cmd.Flags().BoolVar(&topics, "topics", false, "list the topics")
	cmd.Flags().BoolVar(&brokers, "brokers", false, "list the brokers and quorum nodes")
	return cmd
}

// inspectFile reads a snapshot to its end, verifies it, and adds up what it holds.
func inspectFile(path string, top int, stderr io.Writer) (*fsm.SnapshotInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, config.Failed("name a file that skiff snapshot save has written", "%v", err)
	}
	defer f.Close()
	info, err := fsm.InspectSnapshot(bufio.NewReaderSize(io.TeeReader(f, newProgress(stderr, "read")), 1<<16), top)
	switch {
	case err == nil:
		return info, nil
	case info == nil:
		return nil, badSnapshot(path, err)
	}
	return nil, badSnapshot(path, errDamaged(info.Bytes, err))
}

func inspectedOf(path string, info *fsm.SnapshotInfo) *inspected {
	v := &inspected{
		File: path, Bytes: info.Bytes, Format: info.Format, FeatureLevel: info.FeatureLevel, ClusterID: info.ClusterID,
		Lineage: info.Lineage.ID.String(), Ancestors: []ancestor{}, Confirmed: info.Confirmed, MetadataOffset: info.NextOffset - 1,
		ControllerEpoch: info.ControllerEpoch, EpochBase: info.EpochBase, ClaimOffset: info.ClaimOffset, ClaimedBy: -1,
		NextProducerID: info.NextProducerID, Digest: hex.EncodeToString(info.Digest[:]), Kinds: []kindUsage{},
	}
	if info.ClaimOffset >= 0 {
		v.ClaimedBy = info.Claim.NodeID
	}
	if info.LastBatchTimeMs > 0 {
		v.LastChange = time.UnixMilli(info.LastBatchTimeMs).UTC().Format(time.RFC3339)
	}
	for _, a := range info.Lineage.Ancestors {
		v.Ancestors = append(v.Ancestors, ancestor{UUID: a.UUID.String(), ForkOffset: a.ForkOffset})
	}
	for _, k := range info.Kinds {
		v.Kinds = append(v.Kinds, kindUsage{Kind: k.Name, Records: k.Records, Bytes: k.Bytes})
	}
	return v
}

// print writes the result: for a person a list of values, then a table for each list.
func (v *inspected) print(w io.Writer, format output.Format) error {
	if format != output.Table {
		return output.Print(w, format, v, output.Rows{})
	}
	for i, table := range []output.Rows{v.summary(), v.kinds(), v.brokerTable(), v.quorumTable(), v.topicTable()} {
		if len(table.Lines) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := output.Print(w, format, v, table); err != nil {
			return err
		}
	}
	return nil
}

func (v *inspected) summary() output.Rows {
	var t output.Rows
	t.Add("file", fmt.Sprintf("%s (%s)", v.File, sizeText(v.Bytes)))
	t.Add("format", fmt.Sprintf("%d, feature level %d", v.Format, v.FeatureLevel))
	t.Add("cluster id", v.ClusterID)
	t.Add("lineage", v.Lineage)
	ancestors := make([]string, 0, len(v.Ancestors))
	for _, a := range v.Ancestors {
		ancestors = append(ancestors, fmt.Sprintf("%s forked at %d", a.UUID, a.ForkOffset))
	}
	t.Add("ancestors", strings.Join(ancestors, ", "))
	t.Add("confirmed", v.Confirmed)
	t.Add("metadata offset", v.MetadataOffset)
	t.Add("last change", v.LastChange)
	t.Add("controller epoch", fmt.Sprintf("%d, base %d", v.ControllerEpoch, v.EpochBase))
	claim := "none"
	if v.ClaimOffset >= 0 {
		claim = fmt.Sprintf("at %d by node %d", v.ClaimOffset, v.ClaimedBy)
	}
	t.Add("last claim", claim)
	t.Add("next producer id", v.NextProducerID)
	t.Add("digest", v.Digest)
	return t
}

func (v *inspected) kinds() output.Rows {
	t := output.Rows{Head: []string{"kind", "records", "bytes"}}
	for _, k := range v.Kinds {
		t.Add(k.Kind, k.Records, k.Bytes)
	}
	return t
}
