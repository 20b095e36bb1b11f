package powercut_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/powercut"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/archive"
)

// asProcess makes this test binary do one piece of work and end: its name, and its arguments separated by spaces.
const asProcess = "SKIFF_TEST_AS"

// work is what the test binary can be.
var work = map[string]func(args []string) error{
	"archive": func(args []string) error { return keepArchive(args[0], args[1]) },
}

func TestMain(m *testing.M) {
	name, args, _ := strings.Cut(os.Getenv(asProcess), " ")
	if name == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // calls are counted by thread
	if err := work[name](strings.Fields(args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is this test binary, doing a piece of work.
func process(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+name+" "+strings.Join(args, " "))
	return cmd
}

// kept is how many files the archive of these tests keeps.
const kept = 3

// archiveImage is an image with some topics, so that it takes several writes.
func archiveImage(offset int64) (*fsm.Image, error) {
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{9}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{1}}.Proto(), NextMetadataOffset: offset,
	})
	if err != nil {
		return nil, err
	}
	value := strings.Repeat("x", 30_000)
	var records []*metadatav1.Record
	for i := range 30 {
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: "key." + strconv.Itoa(i), Value: &value,
		}}})
	}
	img, _, err = fsm.FoldBatches(img, []*metadatav1.Batch{{
		TimeMs: 1, RequestId: make([]byte, 16), Cause: &metadatav1.Cause{Principal: "test"}, Reason: &metadatav1.Reason{Code: "test"}, Records: records,
	}}, 1)
	return img, err
}

// keepArchive keeps the image at an offset in the archive in dir.
func keepArchive(dir, offset string) error {
	n, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return err
	}
	a := archive.New(archive.Config{
		Dir: filepath.Join(dir, "archive"), NodeID: 101, Interval: time.Hour, RetentionCount: kept,
		Image: func() (*fsm.Image, error) { return archiveImage(n) },
	})
	return a.Keep(time.Now())
}

// archived are the sound files of the archive; a damaged or foreign one fails the test.
func archived(t testing.TB, dir string, unfinished int) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			if unfinished--; unfinished < 0 {
				t.Errorf("%s was left", e.Name())
			}
			continue
		}
		f, err := os.Open(filepath.Join(dir, "archive", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		img, err := fsm.ReadSnapshot(f)
		f.Close()
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		files = append(files, strconv.FormatInt(img.AppliedOffset(), 10))
	}
	return files
}

// TestArchiveIsWholeWhereverItsWriterIsKilled: the archive is full, so a run writes a file and removes the oldest. Whatever it is
// killed at, every file under a name is sound and the newest old one is there; the next run writes the new one and keeps three.
func TestArchiveIsWholeWhereverItsWriterIsKilled(t *testing.T) {
	offset := func(n int) string { return strconv.Itoa(100 * n) }
	applied := func(n int) string { return strconv.Itoa(100*n + 29) }
	powercut.Scenario{
		Prepare: func(t testing.TB, dir string) {
			for n := 1; n <= kept; n++ {
				if err := keepArchive(dir, offset(n)); err != nil {
					t.Fatal(err)
				}
			}
		},
		Command: func(dir string) *exec.Cmd { return process("archive", dir, offset(kept+1)) },
		Check: func(t testing.TB, dir string, at powercut.Cut) {
			files := archived(t, dir, 1)
			if len(files) < kept || !slices.Contains(files, applied(kept)) {
				t.Errorf("the kill left %q", files)
			}
			if err := keepArchive(dir, offset(kept+1)); err != nil {
				t.Errorf("the next run: %v", err)
			}
			if files, want := archived(t, dir, 0), []string{applied(2), applied(3), applied(4)}; !slices.Equal(files, want) {
				t.Errorf("after the next run: %q, want %q", files, want)
			}
		},
	}.Run(t)
}
