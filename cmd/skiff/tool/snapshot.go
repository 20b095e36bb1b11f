package tool

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
)

// snapshotTimeout is the default of --timeout for commands that move whole snapshots.
const snapshotTimeout = 10 * time.Minute

func snapshotCommand() *cobra.Command {
	cmd := group("snapshot", "Save, look at and compare snapshots of the metadata")
	f := addFinder(cmd)
	f.timeout = snapshotTimeout
	cmd.PersistentFlags().Lookup("timeout").DefValue = snapshotTimeout.String()
	cmd.AddCommand(f.snapshotSave(), f.snapshotInspect(), f.snapshotTop(), f.snapshotVerify(), f.snapshotDiff(), f.snapshotRestore())
	return cmd
}

// heartbeatOfProgress is how often a long command says how far it is.
const heartbeatOfProgress = time.Second

// progress tells on stderr how far a command is, if it takes long.
type progress struct {
	w     io.Writer
	verb  string
	start time.Time
	last  time.Time
	bytes int64
}

func newProgress(w io.Writer, verb string) *progress {
	now := time.Now()
	return &progress{w: w, verb: verb, start: now, last: now}
}

// Write counts bytes that have passed.
func (p *progress) Write(b []byte) (int, error) {
	p.bytes += int64(len(b))
	if now := time.Now(); now.Sub(p.last) >= heartbeatOfProgress {
		p.last = now
		fmt.Fprintf(p.w, "%s %s, %s\n", p.verb, sizeText(p.bytes), now.Sub(p.start).Round(100*time.Millisecond))
	}
	return len(b), nil
}

// sizeText words a number of bytes for a person.
func sizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// position words where in history an image is.
func position(lineage fsm.LineageID, offset int64) string {
	return fmt.Sprintf("lineage %s, metadata offset %d", lineage, offset)
}

// badSnapshot words that a file is no sound snapshot.
func badSnapshot(path string, err error) error {
	var newer *fsm.NewerSnapshotError
	if errors.As(err, &newer) {
		return &config.ExitError{
			Code: config.ExitFailed, Cause: fmt.Sprintf("%s was written by a newer version: %v", path, newer),
			Fix: "use the version that wrote it, or a newer one", Err: err,
		}
	}
	return &config.ExitError{
		Code: config.ExitFailed, Cause: fmt.Sprintf("%s is no whole and sound snapshot: %v", path, err),
		Fix: "take another file of the archive, or save a new one with skiff snapshot save", Err: err,
	}
}
