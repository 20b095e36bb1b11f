package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// fileBytesMax bounds a configuration file; Kafka's own example has 7 KB.
const fileBytesMax = 1 << 20

// readFile reads the settings of a configuration file. A file that was named and is missing, empty or without any key is refused:
// going on with defaults would start another cluster than the one that was meant.
func readFile(path string) ([]Setting, error) {
	if path == "" {
		return nil, Usage("name a file, or leave --config out", "--config is empty")
	}
	data, err := readBounded(path)
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Cause: fmt.Sprintf("configuration file: %v", err), Fix: "give --config the path of a readable file", Err: err}
	}
	settings, err := parseFile(path, data)
	if err != nil {
		return nil, &ExitError{Code: ExitUsage, Cause: err.Error(), Fix: "correct the file", Err: err}
	}
	if len(settings) == 0 {
		return nil, Usage("put the node's keys into it, or leave --config out", "configuration file %s has no keys", path)
	}
	return settings, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileBytesMax {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, fileBytesMax)
	}
	return data, nil
}

// parseFile chooses the format by the name: .yaml and .yml are YAML, everything else is a .properties file.
func parseFile(path string, data []byte) ([]Setting, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return parseYAML(path, data)
	}
	return parseProperties(path, data)
}
