package quorum

import "testing"

func TestLowHasAWidth(t *testing.T) {
	const low = 100
	for _, c := range []struct {
		was  bool
		free int64
		is   bool
	}{
		{false, low, false}, {false, low - 1, true}, {true, low, true}, {true, 2*low - 1, true}, {true, 2 * low, false},
	} {
		if got := isLow(c.was, c.free, low); got != c.is {
			t.Errorf("%+v: %t", c, got)
		}
	}
	if got := roomLow(DefaultFreeBytesLow, 160<<20); got != 10<<20 {
		t.Errorf("on a disk of 160 MiB %d bytes are low", got)
	}
}

func TestSpaceOfADirectory(t *testing.T) {
	free, total, err := space(t.TempDir())
	if err != nil || free < 0 || total <= 0 || free > total {
		t.Errorf("%d of %d, %v", free, total, err)
	}
	if _, _, err := space("/no/such/directory"); err == nil {
		t.Error("a directory that is not there has space")
	}
}
