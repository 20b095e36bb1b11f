package partlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
)

func TestBudgetClosesWhatIsNotUsed(t *testing.T) {
	const limit = 10
	budget, dir := NewFileBudget(limit), t.TempDir()
	handles := make([]*handle, 40)
	for i := range handles {
		handles[i] = newHandle(OSFS{}, budget, fmt.Sprintf("%s/%d", dir, i), true)
	}
	for round := range 3 {
		for i, h := range handles {
			file, err := h.acquire()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteAt([]byte{byte(i)}, int64(round)); err != nil {
				t.Fatal(err)
			}
			h.release()
			if n := budget.Open(); n > limit {
				t.Fatalf("%d files are open", n)
			}
		}
	}
	for i, h := range handles {
		file, err := h.acquire()
		if err != nil {
			t.Fatal(err)
		}
		if size, err := file.Size(); size != 3 || err != nil {
			t.Fatalf("file %d: %d bytes, %v", i, size, err)
		}
		if err := errors.Join(h.drop()); err != nil {
			t.Fatal(err)
		}
		// In use, it stays open; then it is gone for good.
		if _, err := file.Size(); err != nil {
			t.Fatal(err)
		}
		h.release()
		if _, err := h.acquire(); !errors.Is(err, fs.ErrClosed) {
			t.Fatal(err)
		}
	}
	if n := budget.Open(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
}

func TestBudgetNeverClosesWhatIsInUse(t *testing.T) {
	budget, dir := NewFileBudget(minOpenFiles), t.TempDir()
	var held []*handle
	for i := range 3 * minOpenFiles {
		h := newHandle(OSFS{}, budget, fmt.Sprintf("%s/%d", dir, i), true)
		if _, err := h.acquire(); err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	for _, h := range held {
		if h.file == nil {
			t.Fatal("a file in use was closed")
		}
		h.release()
	}
	one := newHandle(OSFS{}, budget, dir+"/one", true)
	if _, err := one.acquire(); err != nil {
		t.Fatal(err)
	}
	one.release()
	if n := budget.Open(); n > minOpenFiles {
		t.Fatalf("%d files are open", n)
	}
}

func TestBudgetUnderContention(t *testing.T) {
	budget, dir := NewFileBudget(minOpenFiles), t.TempDir()
	handles := make([]*handle, 30)
	for i := range handles {
		handles[i] = newHandle(OSFS{}, budget, fmt.Sprintf("%s/%d", dir, i), true)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				h := handles[(i*7+worker*11)%len(handles)]
				file, err := h.acquire()
				if err == nil {
					_, err = file.Size()
					h.release()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := budget.Open(); n > minOpenFiles+4 {
		t.Fatalf("%d files are open", n)
	}
	for _, h := range handles {
		if err := h.drop(); err != nil {
			t.Fatal(err)
		}
	}
	if n := budget.Open(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
}

func TestProcessLimitIsHalved(t *testing.T) {
	if got := NewFileBudget(0).limit; got != max(processFileLimit()/2, minOpenFiles) {
		t.Fatalf("a budget of %d", got)
	}
}
