package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
)

// strayReplica is one stray in the output of purge.
type strayReplica struct {
	Stray   string `json:"stray"`
	Topic   string `json:"topic"`
	Since   string `json:"since"`
	AgeMs   int64  `json:"age_ms"`
	Bytes   int64  `json:"bytes"`
	End     int64  `json:"log_end_offset"`
	Removed bool   `json:"removed"`
}

// purging is one run of purge.
type purging struct {
	f                *finder
	dir, metadataDir string
	topic            string
	olderThan        time.Duration
	yes, force       bool
}

func (f *finder) brokerPurge() *cobra.Command {
	p := &purging{f: f}
	cmd := &cobra.Command{
		Use:   "purge --data-dir DIR",
		Short: "List the replicas that a broker has put away, and remove them for good",
		Long: `A replica that the metadata no longer gives to a broker is put away for log.stray.retention.ms, or until space is low. This lists them,
and with --yes removes them at once. It works on the broker's data directory, whether the broker runs or not.

While a restored cluster is not confirmed, what it put away may be the only copy of what the snapshot did not know: then nothing is
removed without --force.`,
		Example: "  skiff broker purge --data-dir /var/lib/skiff/b1\n  skiff broker purge --data-dir /var/lib/skiff/b1 --older-than 2h --yes",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&p.dir, "data-dir", "", "the broker's data `DIRECTORY` (log.dirs)")
	flags.StringVar(&p.metadataDir, "metadata-dir", "", "the broker's metadata.log.dir, if it is not in its data directory")
	flags.StringVar(&p.topic, "topic", "", "only strays of this topic, `NAME` or id")
	flags.DurationVar(&p.olderThan, "older-than", 0, "only strays that were put away so long ago")
	flags.BoolVar(&p.yes, "yes", false, "remove them for good")
	flags.BoolVar(&p.force, "force", false, "also while the metadata is not confirmed")
	return cmd
}

func (p *purging) run(cmd *cobra.Command) error {
	if p.dir == "" {
		return config.Usage(cmd.CommandPath()+" --help", "name the broker's data directory with --data-dir")
	}
	if _, err := os.Stat(filepath.Join(p.dir, stray.Dir)); err != nil {
		return config.Failed("name the directory that has log.dirs of the broker", "%s is no broker's data directory: %v", p.dir, err)
	}
	if p.yes && !p.force {
		if err := p.confirmed(); err != nil {
			return err
		}
	}
	store, err := stray.Open(p.dir, nil)
	if err != nil {
		return config.Failed("", "%v", err)
	}
	list, err := p.purge(store)
	if err != nil {
		return err
	}
	table := output.Rows{Head: []string{"stray", "topic", "since", "bytes", "removed"}}
	for _, r := range list {
		table.Add(r.Stray, r.Topic, r.Since, r.Bytes, r.Removed)
	}
	if err := output.Print(cmd.OutOrStdout(), p.f.format, list, table); err != nil {
		return err
	}
	if !p.yes && len(list) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was removed; with --yes these are removed for good")
	}
	return nil
}

// confirmed refuses while the metadata that the broker has followed is not confirmed (I22).
func (p *purging) confirmed() error {
	dir := p.metadataDir
	if dir == "" {
		dir = filepath.Join(p.dir, "metadata")
	}
	img, _, err := metadata.ReadImage(dir)
	if err != nil {
		return config.Failed("name it with --metadata-dir, or give --force", "the broker's metadata cannot be read, so nobody knows whether it is confirmed: %v", err)
	}
	if !img.Confirmed() {
		return config.Failed("look at skiff topic undelete --list and skiff quorum confirm first, or give --force",
			"lineage %s is not confirmed: what was put away may be the only copy of what the snapshot did not know", img.Lineage().ID)
	}
	return nil
}

// purge lists the strays that are meant, and removes them if that was asked for.
func (p *purging) purge(store *stray.Store) ([]strayReplica, error) {
	strays, err := store.List()
	if err != nil {
		return nil, config.Failed("", "%v", err)
	}
	list := []strayReplica{}
	for _, st := range strays {
		age := time.Since(st.Counted)
		if age < p.olderThan || p.topic != "" && p.topic != st.Topic.Name && p.topic != st.ID.Topic.String() {
			continue
		}
		r := strayReplica{Stray: st.String(), Topic: st.Topic.Name, Since: st.Since.UTC().Format(time.RFC3339), AgeMs: age.Milliseconds()}
		if s, err := store.Inspect(st.Name); err == nil {
			r.Bytes, r.End = s.SizeBytes, s.EndOffset
		}
		if p.yes {
			if err := store.Remove(st.Name); err != nil {
				return nil, config.Failed("look at the disk and repeat the command", "%v", err)
			}
			r.Removed = true
		}
		list = append(list, r)
	}
	return list, nil
}
