// Package version says which build a binary is.
package version

import (
	"runtime"
	"runtime/debug"
)

// release is set by the linker (make build); it is empty in a plain go build.
var release string

// Info is what `skiff version` prints.
type Info struct {
	// Version is the release, or "dev".
	Version string `json:"version" yaml:"version"`
	// Revision of the source, empty if unknown; "+" at the end means that the work tree was changed.
	Revision string `json:"revision" yaml:"revision"`
	// Go is the toolchain.
	Go string `json:"go" yaml:"go"`
	// Platform is os/arch.
	Platform string `json:"platform" yaml:"platform"`
}

// Get reads what the toolchain wrote into the binary.
func Get() Info {
	info := Info{Version: String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	changed := ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if info.Revision != "" {
		info.Revision += changed
	}
	return info
}

// String is the release, or "dev" for a build without one.
func String() string {
	if release == "" {
		return "dev"
	}
	return release
}
