package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// value of a key: it names the key at its start and its end, and its size differs from its neighbours'.
func value(n uint64) []byte {
	b := number(n)
	b = append(b, bytes.Repeat([]byte{byte(n)}, int(n*37%3000))...)
	if n%501 == 0 {
		b = append(b, make([]byte, 200_000)...)
	}
	return append(b, number(n)...)
}

// database opens a bbolt as hashicorp's raft-boltdb is opened.
func database(t testing.TB, path string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// store writes the keys from, …, to-1 in one transaction.
func store(db *bbolt.DB, from, to uint64) error {
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("logs"))
		if err != nil {
			return err
		}
		for n := from; n < to; n++ {
			if err := b.Put(number(n), value(n)); err != nil {
				return err
			}
		}
		small, err := tx.CreateBucketIfNotExists([]byte("conf"))
		if err != nil {
			return err
		}
		return small.Put([]byte("term"), number(to))
	})
}

func remove(db *bbolt.DB, from, to uint64) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for n := from; n < to; n++ {
			if err := tx.Bucket([]byte("logs")).Delete(number(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// scan reads the keys from one on and checks each value; it returns the first and the number of keys, which are dense.
func scan(t testing.TB, f *File, from uint64) (first, n uint64) {
	t.Helper()
	err := f.Each("logs", number(from), func(k, v []byte) error {
		key := binary.BigEndian.Uint64(k)
		if n == 0 {
			first = key
		}
		if key != first+n {
			return fmt.Errorf("key %d after %d", key, first+n-1)
		}
		if !bytes.Equal(v, value(key)) {
			return fmt.Errorf("key %d has the value of another", key)
		}
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return first, n
}

func TestFileIsReadWhileItIsLockedByItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := database(t, path)
	if err := store(db, 1, 3000); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if first, n := scan(t, f, 0); first != 1 || n != 2999 {
		t.Errorf("from 0: %d keys from %d", n, first)
	}
	if first, n := scan(t, f, 1500); first != 1500 || n != 1500 {
		t.Errorf("from 1500: %d keys from %d", n, first)
	}
	if _, n := scan(t, f, 3000); n != 0 {
		t.Errorf("beyond the end: %d keys", n)
	}
	if v, err := f.Get("conf", []byte("term")); err != nil || !bytes.Equal(v, number(3000)) {
		t.Errorf("a small bucket: %v, %v", v, err)
	}
	if v, err := f.Get("conf", []byte("nothing")); err != nil || v != nil {
		t.Errorf("a key that is not there: %v, %v", v, err)
	}
	if _, err := f.Get("nothing", nil); !errors.Is(err, ErrNoBucket) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	want := errors.New("enough")
	if err := f.Each("logs", nil, func(_, _ []byte) error { return want }); !errors.Is(err, want) {
		t.Errorf("the visitor's error: %v", err)
	}
}

// TestReaderBesideABusyWriter: a log that grows at its end and is cut at its head, with a commit every few microseconds. Every
// value that is read is the one that was written, and no key is missing.
func TestReaderBesideABusyWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := database(t, path)
	if err := store(db, 1, 500); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	wrote := make(chan error, 1)
	go func() {
		var err error
		for n := uint64(500); err == nil && !stop.Load(); n += 3 {
			if err = store(db, n, n+3); err == nil && n%60 == 20 {
				err = remove(db, max(n, 900)-900, n-400)
			}
		}
		wrote <- err
	}()
	f := open(t, path)
	scans := 0
	for deadline := time.Now().Add(500 * time.Millisecond); time.Now().Before(deadline); scans++ {
		scanGrowing(t, f)
	}
	stop.Store(true)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d scans beside the writer", scans)
}

// scanGrowing reads all keys; the head may be cut away under it, so only the order and the values are certain.
func scanGrowing(t *testing.T, f *File) {
	t.Helper()
	last := uint64(0)
	err := f.Each("logs", nil, func(k, v []byte) error {
		key := binary.BigEndian.Uint64(k)
		if key <= last {
			return fmt.Errorf("key %d after %d", key, last)
		}
		if !bytes.Equal(v, value(key)) {
			return fmt.Errorf("key %d has the value of another", key)
		}
		last = key
		return nil
	})
	if err != nil && !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
}

// TestDamageIsAnError: no damage makes it panic, hang, or read much memory. What it reads beside damage is not judged: bbolt
// has no checksums but on its meta pages.
func TestDamageIsAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	db := database(t, path)
	if err := store(db, 1, 60); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) error {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Each("logs", nil, func(_, _ []byte) error { return nil })
	}
	if err := read(sound); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 10, 4096, 4096 + 80, 2 * 4096, 3 * 4096} {
		if err := read(sound[:cut]); err == nil {
			t.Errorf("cut to %d bytes: no error", cut)
		}
	}
	found := 0
	for at := 0; at < len(sound); at += 5 * 4096 {
		for i := at; i < min(at+pageHeaderBytes+4*elementBytes, len(sound)); i++ {
			damaged := bytes.Clone(sound)
			damaged[i] ^= 0xff
			if read(damaged) != nil {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no damage to a page's head was found")
	}
	both := bytes.Clone(sound)
	both[20] ^= 1
	both[4096+20] ^= 1
	if err := read(both); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("both meta pages: %v", err)
	}
	one := bytes.Clone(sound)
	one[20] ^= 1
	if err := read(one); err != nil && !errors.Is(err, ErrNoBucket) {
		t.Errorf("one meta page: %v", err)
	}
}

// FuzzOpen: whatever the bytes are, it ends with an error or without.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "db")
	db := database(f, path)
	if err := store(db, 1, 4); err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound, uint32(16), byte(1))
	f.Add(sound[:9000], uint32(8200), byte(0xff))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, mask byte) {
		if len(data) > 0 {
			data[int(at)%len(data)] ^= mask
		}
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		last := []byte(nil)
		err = file.Each("logs", nil, func(k, _ []byte) error {
			if last != nil && bytes.Compare(k, last) <= 0 {
				return errors.New("out of order")
			}
			last = k
			return nil
		})
		if err != nil && err.Error() == "out of order" {
			t.Error(err)
		}
	})
}
