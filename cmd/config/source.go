package config

import "fmt"

// SourceKind tells where a value comes from; a greater kind wins.
type SourceKind int

// The kinds in ascending precedence.
const (
	SourceDefault SourceKind = iota
	SourceFile
	SourceEnv
	SourceFlag
)

// Source is where one value was found.
type Source struct {
	// Kind of the source.
	Kind SourceKind
	// Name is the file, the variable or the flag.
	Name string
	// Line in the file, from 1; 0 elsewhere.
	Line int
}

// String names the source as a person finds it: "server.properties:12", "env KAFKA_NODE_ID", "flag --node-id", "default".
func (s Source) String() string {
	switch s.Kind {
	case SourceFile:
		return fmt.Sprintf("%s:%d", s.Name, s.Line)
	case SourceEnv:
		return "env " + s.Name
	case SourceFlag:
		return "flag " + s.Name
	case SourceDefault:
		return "default"
	}
	return "default"
}

// Setting is one key with a value, as found in one source.
type Setting struct {
	// Key as written, for the environment already turned into a key.
	Key string
	// Value as written, without surrounding white space.
	Value string
	// Source of the setting.
	Source Source
}
