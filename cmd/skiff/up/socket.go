package up

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/cmd/config"
)

// socketPathMax is the longest path that every system takes for a unix socket (104 bytes with the final zero on macOS).
const socketPathMax = 100

// socketPath is DATA/up.sock, or, where that is too long for a socket, a name in the temporary directory that DATA alone decides.
func socketPath(data string) (string, error) {
	dir, err := filepath.Abs(data)
	if err != nil {
		return "", config.Failed("", "%v", err)
	}
	path := filepath.Join(dir, "up.sock")
	if len(path) <= socketPathMax {
		return path, nil
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(os.TempDir(), fmt.Sprintf("skiff-%d-%x.sock", os.Getuid(), sum[:8])), nil
}
