package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestSealedRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta")
	for _, payload := range []string{"", "{}", "a longer payload than before"} {
		if err := WriteSealed(path, "TEST", 7, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		version, got, err := ReadSealed(path, "TEST", int64(len(payload)))
		if err != nil || version != 7 || string(got) != payload {
			t.Fatalf("version %d, %q, %v", version, got, err)
		}
	}
	if _, _, err := ReadSealed(path, "TEST", 3); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if _, _, err := ReadSealed(path, "ELSE", 100); !errors.Is(err, ErrNotThisKind) {
		t.Fatalf("got %v", err)
	}
	if _, _, err := ReadSealed(path+"x", "TEST", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	if err := WriteSealed(path, "LONGER", 1, nil); err == nil {
		t.Fatal("a magic of 6 bytes was written")
	}
	if err := WriteSealed(filepath.Join(path, "x"), "TEST", 1, nil); err == nil {
		t.Fatal("a file was written below a file")
	}
}

// TestSealedDamageIsFound flips every byte and cuts at every byte.
func TestSealedDamageIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta")
	if err := WriteSealed(path, "TEST", 1, []byte(`{"node_id": 101}`)); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	refused := func(damaged []byte) {
		t.Helper()
		cases++
		if _, _, err := Unseal("TEST", damaged); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotThisKind) {
			t.Fatalf("%q: %v", damaged, err)
		}
	}
	for i := range file {
		for _, mask := range []byte{0x01, 0xff} {
			damaged := bytes.Clone(file)
			damaged[i] ^= mask
			refused(damaged)
		}
		refused(file[:i])
	}
	refused(append(bytes.Clone(file), 0))
	t.Logf("%d damaged files of %d bytes", cases, len(file))
}

// FuzzUnseal demands that what is accepted is exactly what sealing gives.
func FuzzUnseal(f *testing.F) {
	for _, payload := range []string{"", "x", "a payload"} {
		file, err := Seal("TEST", 3, []byte(payload))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		version, payload, err := Unseal("TEST", file)
		if err != nil {
			return
		}
		again, err := Seal("TEST", version, payload)
		if err != nil || !bytes.Equal(again, file) {
			t.Fatalf("%v: sealed again %q, want %q", err, again, file)
		}
	})
}
