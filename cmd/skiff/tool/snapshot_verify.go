package tool

import (
	"bufio"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// verified is one file in the output of verify.
type verified struct {
	File           string `json:"file"`
	OK             bool   `json:"ok"`
	ClusterID      string `json:"cluster_id"`
	Lineage        string `json:"lineage"`
	MetadataOffset int64  `json:"metadata_offset"`
	Digest         string `json:"digest"`
	Bytes          int64  `json:"bytes"`
	Trouble        string `json:"trouble"`
}

func (f *finder) snapshotVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check that snapshots are whole and sound",
		Long: `Reads each file to its end and checks all of it: format, checksums, order, counts, the digest, and every invariant of the metadata.
Nothing is changed. Exits with 0 when all are sound, with 1 when any is not; the output says what is wrong and where.`,
		Example: "  skiff snapshot verify /var/lib/skiff/archive/*.snapshot",
		Args:    some,
		RunE: func(cmd *cobra.Command, args []string) error {
			results := make([]verified, 0, len(args))
			table := output.Rows{Head: []string{"file", "ok", "lineage", "metadata offset", "digest", "bytes", "trouble"}}
			bad := 0
			for _, path := range args {
				v := verifyFile(path, cmd.ErrOrStderr())
				results = append(results, v)
				table.Add(v.File, v.OK, v.Lineage, v.MetadataOffset, shorten(v.Digest), v.Bytes, v.Trouble)
				bad += number(!v.OK)
			}
			if err := output.Print(cmd.OutOrStdout(), f.format, results, table); err != nil {
				return err
			}
			if bad > 0 {
				return config.Failed("take another file of the archive, or save a new one with skiff snapshot save", "%d of %d snapshots are not sound", bad, len(args))
			}
			return nil
		},
	}
}

func verifyFile(path string, stderr io.Writer) verified {
	v := verified{File: path}
	img, size, err := readCounted(path, newProgress(stderr, "verified"))
	v.Bytes = size
	if err != nil {
		v.Trouble = err.Error()
		return v
	}
	v.OK, v.ClusterID, v.Lineage, v.MetadataOffset, v.Digest = true, img.ClusterID(), img.Lineage().ID.String(), img.AppliedOffset(), img.Digest().String()
	return v
}

// readCounted reads a snapshot to its end and validates all of it. The error says at which byte.
func readCounted(path string, passed io.Writer) (img *fsm.Image, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	at := &countingReader{r: bufio.NewReaderSize(io.TeeReader(f, passed), 1<<16)}
	if img, err = fsm.ReadSnapshot(at); err != nil {
		return nil, at.n, errDamaged(at.n, err)
	}
	return img, at.n, nil
}

// countingReader counts the bytes that its reader took.
type countingReader struct {
	r io.Reader
	n int64
}

// Read passes the bytes on.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readSnapshotFile reads a snapshot and validates all of it; passed is told of the bytes.
func readSnapshotFile(path string, passed io.Writer) (*fsm.Image, error) {
	img, _, err := readCounted(path, passed)
	if os.IsNotExist(err) || os.IsPermission(err) {
		return nil, config.Failed("name a file that skiff snapshot save has written", "%v", err)
	}
	if err != nil {
		return nil, badSnapshot(path, err)
	}
	return img, nil
}
