package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum"
)

func logCommand() *cobra.Command {
	cmd := group("log", "Look at the metadata log on a node's disk")
	cmd.AddCommand(logDump())
	return cmd
}

// dump prints the entries of one log as they are read, so that a long one needs no memory.
type dump struct {
	w       io.Writer
	json    bool
	from    int64       // metadata offset
	to      int64       // metadata offset; 0 for the end
	topic   *topicWatch // nil for all entries
	limit   int         // entries; 0 for all
	printed int
}

// errEnough ends reading when the limit or the last offset is reached.
var errEnough = errors.New("enough")

func logDump() *cobra.Command {
	format := output.Table
	data := dataDefault()
	d := &dump{}
	var topic string
	cmd := &cobra.Command{
		Use:   "dump NODE|DIRECTORY",
		Short: "Print the entries of a node's metadata log",
		Long: `Prints the Raft log of a quorum node or the metadata log of a broker: what was decided, when, by whom and why. NODE is a name of a
cluster of ` + "`skiff up`" + ` (c1, b1), DIRECTORY any node's data directory. The disk is only read, without a lock: the node may run and does
not notice. Entries of a Raft log need not be committed, and an entry that is not may be replaced while the log is read.

With --topic only entries that concern one topic are printed. A name is known from the entry that created the topic on; for a
topic whose creation is no longer in the log, give its id.`,
		Example: "  skiff log dump c1 --from 20\n  skiff log dump b1 --topic orders\n  skiff log dump /var/lib/skiff/quorum -o json",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.w, d.json = cmd.OutOrStdout(), format == output.JSON
			if format == output.YAML {
				return config.Usage("use table or json", "log dump does not print YAML")
			}
			if d.to > 0 && d.to < d.from {
				return config.Usage("give --to an offset that is not before --from", "--from %d is after --to %d", d.from, d.to)
			}
			if topic != "" {
				d.topic = newTopicWatch(topic)
			}
			err := d.directory(nodeDirectory(args[0], data))
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", data, "`DIRECTORY` of a cluster of `skiff up` (SKIFF_DATA)")
	f.Int64Var(&d.from, "from", 0, "first metadata `OFFSET`")
	f.Int64Var(&d.to, "to", 0, "last metadata `OFFSET`; 0 for the end")
	f.StringVar(&topic, "topic", "", "`NAME` or id of the topic to print the entries of")
	f.IntVar(&d.limit, "limit", 0, "number of entries; 0 for all")
	f.VarP(&format, "output", "o", "format of the result: table, or json with one entry a line")
	return cmd
}

// nodeDirectory finds what is meant: a path that exists, or a node of an `up` cluster.
func nodeDirectory(arg, data string) string {
	if !strings.ContainsRune(arg, filepath.Separator) {
		if named := filepath.Join(data, arg); isDirectory(named) {
			return named
		}
	}
	return arg
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// directory prints the log that a data directory holds, of whichever role.
func (d *dump) directory(dir string) error {
	if !isDirectory(dir) {
		return config.Usage("name a node (c1, b1) or its data directory", "%s is no directory", dir)
	}
	err := quorum.ReadLog(dir, 0, d.raftEntry)
	if !errors.Is(err, quorum.ErrNoRaftLog) {
		return d.verdict(err)
	}
	for _, sub := range []string{"metadata", "."} {
		logs, err := filepath.Glob(filepath.Join(dir, sub, "*.log"))
		if err == nil && len(logs) > 0 {
			return d.verdict(metadata.ReadLog(filepath.Join(dir, sub), d.brokerEntry))
		}
	}
	return config.Failed("name the data directory of a quorum node or of a broker", "%s holds neither a raft log nor a metadata log", dir)
}

func (d *dump) verdict(err error) error {
	if err == nil || errors.Is(err, errEnough) {
		return err
	}
	return &config.ExitError{Code: config.ExitFailed, Cause: err.Error(), Fix: "what could be read is printed above", Err: err}
}

// dumped is one entry in the output.
type dumped struct {
	Index           uint64          `json:"index,omitempty"`
	Term            uint64          `json:"term,omitempty"`
	Kind            string          `json:"kind"`
	ControllerEpoch int64           `json:"controller_epoch,omitempty"`
	FirstOffset     int64           `json:"first_metadata_offset,omitempty"`
	Time            string          `json:"time,omitempty"`
	Envelope        json.RawMessage `json:"envelope,omitempty"`
	Trouble         string          `json:"trouble,omitempty"`
	batches         []*metadatav1.Batch
}

func (d *dump) raftEntry(e quorum.LogEntry) error {
	out := dumped{Index: e.Index, Term: e.Term, Kind: e.Kind}
	if !e.AppendedAt.IsZero() {
		out.Time = e.AppendedAt.UTC().Format(time.RFC3339Nano)
	}
	if len(e.Data) > 0 && e.Kind == "LogCommand" {
		out.decode(e.Data)
	}
	return d.print(out)
}

func (d *dump) brokerEntry(_ string, e *controllerv1.EntryApplied) error {
	out := dumped{Kind: "applied"}
	out.decode(e.GetEnvelope())
	out.ControllerEpoch, out.FirstOffset = e.GetControllerEpoch(), e.GetFirstMetadataOffset()
	return d.print(out)
}

// decode reads an envelope. One that does not decode is shown as such: this is a tool for bad days.
func (o *dumped) decode(data []byte) {
	envelope, err := fsm.DecodeEnvelope(data)
	if err != nil {
		o.Trouble = err.Error()
		return
	}
	o.ControllerEpoch, o.FirstOffset = envelope.GetControllerEpoch(), envelope.GetFirstMetadataOffset()
	o.batches = envelope.GetBatches()
	if o.Envelope, err = protojson.Marshal(envelope); err != nil {
		o.Trouble = err.Error()
	}
}

// last is the metadata offset of the entry's last record, or -1 where the entry does not tell offsets (a claim).
func (o *dumped) last() int64 {
	if o.FirstOffset == 0 {
		return -1
	}
	records := 0
	for _, b := range o.batches {
		records += len(b.GetRecords())
	}
	return o.FirstOffset + int64(records) - 1
}

func (d *dump) print(o dumped) error {
	switch {
	case d.topic != nil && !d.topic.concerns(o.batches):
		return nil
	case d.from > 0 && o.last() < d.from:
		return nil
	case d.to > 0 && o.FirstOffset > d.to:
		return errEnough
	}
	if d.limit > 0 && d.printed >= d.limit {
		return errEnough
	}
	d.printed++
	if d.json {
		return d.failed(json.NewEncoder(d.w).Encode(o))
	}
	return d.failed(o.text(d.w))
}

func (d *dump) failed(err error) error {
	if err != nil {
		return config.Failed("", "print: %v", err)
	}
	return nil
}

// text writes the entry for a person: one line of its own, one a batch, one a record.
func (o *dumped) text(w io.Writer) error {
	var b strings.Builder
	if o.Index > 0 {
		fmt.Fprintf(&b, "index %d term %d ", o.Index, o.Term)
	}
	fmt.Fprintf(&b, "%s", o.Kind)
	if o.ControllerEpoch > 0 {
		fmt.Fprintf(&b, " controller epoch %d", o.ControllerEpoch)
	}
	if o.Time != "" {
		fmt.Fprintf(&b, " %s", o.Time)
	}
	if o.Trouble != "" {
		fmt.Fprintf(&b, " TROUBLE: %s", o.Trouble)
	}
	b.WriteByte('\n')
	offset := o.FirstOffset
	for _, batch := range o.batches {
		cause, reason := batch.GetCause(), batch.GetReason()
		fmt.Fprintf(&b, "  %s %s by %s %s: %s %s\n", time.UnixMilli(batch.GetTimeMs()).UTC().Format(time.RFC3339Nano), cause.GetRequestKind(), cause.GetPrincipal(), cause.GetClientAddress(), reason.GetCode(), reason.GetText())
		for _, r := range batch.GetRecords() {
			if offset > 0 {
				fmt.Fprintf(&b, "    %d ", offset)
				offset++
			} else {
				b.WriteString("    ? ")
			}
			fmt.Fprintf(&b, "%s\n", recordText(r))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// recordText is the record as compact JSON: its one field is its kind.
func recordText(r *metadatav1.Record) string {
	data, err := protojson.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
