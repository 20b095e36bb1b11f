package config

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the flags of a command that starts or checks a node.
type Flags struct {
	set       *pflag.FlagSet
	file      string
	settings  []string
	shortcuts []shortcut
}

// shortcut is a flag that stands for a key.
type shortcut struct {
	flag, key string
	value     *string
}

// AddFlags adds --config, --set and the shortcuts of a role to the flags of a command.
func AddFlags(set *pflag.FlagSet, role Role) *Flags {
	f := &Flags{set: set}
	set.StringVarP(&f.file, "config", "c", "", "configuration `FILE`: Kafka's .properties, or YAML with the same keys")
	set.StringArrayVar(&f.settings, "set", nil, "`KEY=VALUE` of the configuration, may be repeated")
	f.add("node-id", "node.id", "`ID` of the node")
	f.add("listeners", "listeners", "sockets to bind, `NAME://host:port`")
	f.add("advertised-listeners", "advertised.listeners", "addresses that others are told, `NAME://host:port`")
	f.add("controllers", "controller.quorum.bootstrap.servers", "quorum nodes, `host:port,...`")
	f.add("admin", "admin.listeners", "`host:port` of the admin HTTP server")
	f.add("log-format", "log.format", "text or json")
	f.add("log-level", "log.level", "trace, debug, info, warn or error")
	if role == RoleQuorum {
		f.add("data", "metadata.log.dir", "data `DIRECTORY`")
		f.add("peer", "controller.quorum.peers", "addresses of quorum nodes, `id@host:port,...`, before any other knowledge")
		return f
	}
	f.add("data", "log.dirs", "data `DIRECTORY`")
	f.add("rack", "broker.rack", "`RACK` of the broker")
	return f
}

func (f *Flags) add(flag, key, usage string) {
	value := f.set.String(flag, "", usage+" ("+key+")")
	f.shortcuts = append(f.shortcuts, shortcut{flag: flag, key: key, value: value})
}

// Input gathers the command line and this process's environment.
func (f *Flags) Input() (Input, error) {
	in := Input{File: f.file, FileGiven: f.set.Changed("config"), Env: os.Environ()}
	seen := make(map[string]string)
	for _, text := range f.settings {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return Input{}, Usage("write --set key=value", "--set %q is not key=value", text)
		}
		in.Flags = append(in.Flags, Setting{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Source: Source{Kind: SourceFlag, Name: "--set " + key}})
		seen[strings.TrimSpace(key)] = "--set " + key
	}
	for _, s := range f.shortcuts {
		if !f.set.Changed(s.flag) {
			continue
		}
		if other, twice := seen[s.key]; twice {
			return Input{}, Usage("give it once", "%s is given by --%s and by %s", s.key, s.flag, other)
		}
		in.Flags = append(in.Flags, Setting{Key: s.key, Value: strings.TrimSpace(*s.value), Source: Source{Kind: SourceFlag, Name: "--" + s.flag}})
	}
	return in, nil
}
