package up

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// tailBytes of a log are read to word how a process ended.
const tailBytes = 8 << 10

// lastWords finds what a process wrote last: the line of cause that the binaries end with, or else the last line.
func lastWords(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return err.Error()
	}
	last := "(nothing in " + path + ")"
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "fix: ") {
			continue
		}
		last = text
	}
	return last
}
