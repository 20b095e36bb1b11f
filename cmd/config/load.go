package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Input is everything that a configuration is made of.
type Input struct {
	// File is the configuration file; it counts only when FileGiven.
	File string
	// FileGiven tells that a file was named, even by an empty name.
	FileGiven bool
	// Env is the environment as os.Environ gives it.
	Env []string
	// Flags are the settings of the command line.
	Flags []Setting
	// Hostname names this machine, for an advertised address that nothing else gives; nil means os.Hostname.
	Hostname func() (string, error)
}

// Value is what one key came to.
type Value struct {
	// Key is the key.
	Key Key
	// Text is the value as written, or the default.
	Text string
	// Source of the value.
	Source Source
}

// Values are the values of every key of a role, each checked by itself.
type Values struct {
	role     Role
	values   map[string]Value
	warnings []string
	hostname func() (string, error)
}

// Load finds the value of every key of a role. The error is an [*ExitError] with [ExitUsage] that names every key that is wrong.
func Load(role Role, in Input) (*Values, error) {
	v := &Values{role: role, values: make(map[string]Value), hostname: in.Hostname}
	if v.hostname == nil {
		v.hostname = os.Hostname
	}
	for _, k := range Keys(role) {
		v.values[k.Name] = Value{Key: k, Text: k.defaultFor(role)}
	}
	var file []Setting
	if in.FileGiven {
		var err error
		if file, err = readFile(in.File); err != nil {
			return nil, err
		}
	}
	env := readEnv(in.Env)
	var l layers
	l.take(v, file)
	l.take(v, env.settings)
	l.unused = append(l.unused, env.unused...)
	l.takeUnknownEnv(env.unknown)
	l.take(v, in.Flags)
	if err := l.verdict(v); err != nil {
		return nil, err
	}
	v.warnings = l.warnings()
	v.settleRetention()
	return v, nil
}

// settleRetention gives log.retention.ms its value from the coarser keys where it has none of its own, as Kafka does. Whoever reads
// it then needs to know only this one key; its source is that of the key that decided.
func (v *Values) settleRetention() {
	ms := v.get("log.retention.ms")
	if ms.Source.Kind != SourceDefault {
		return
	}
	from, unit := v.get("log.retention.hours"), time.Hour
	if v.given("log.retention.minutes") {
		from, unit = v.get("log.retention.minutes"), time.Minute
	}
	ms.Text, ms.Source = "-1", from.Source
	if n := v.int64(from.Key.Name); n >= 0 {
		ms.Text = strconv.FormatInt(n*int64(unit/time.Millisecond), 10)
	}
	v.values[ms.Key.Name] = ms
}

// layers lays the sources over each other, the weakest first, and gathers what does not fit.
type layers struct {
	unused  []Setting // known, but not used by this process
	unknown []Setting // nobody's: refused
	stray   []Setting // variables KAFKA_… that are no key: warned of
	twice   []string  // a key given more than once in one source
}

func (l *layers) take(v *Values, settings []Setting) {
	for _, s := range settings {
		key, known := keysByName[s.Key]
		switch {
		case known && key.roles&v.role != 0:
			l.set(v, *key, s)
		case known || unusedKey(s.Key):
			l.unused = append(l.unused, s)
		default:
			l.unknown = append(l.unknown, s)
		}
	}
}

// set gives a key its value. Within one source the key's own name wins over an alias, and otherwise the last one wins.
func (l *layers) set(v *Values, key Key, s Setting) {
	before := v.values[key.Name]
	if before.Source.Kind == s.Source.Kind && s.Source.Kind != SourceDefault {
		if s.Key != key.Name && before.Source.Name == s.Source.Name {
			return
		}
		if before.Text != s.Value && s.Source.Kind == SourceFile && s.Key == key.Name {
			l.twice = append(l.twice, fmt.Sprintf("%s (%s and %s)", key.Name, before.Source, s.Source))
		}
	}
	v.values[key.Name] = Value{Key: key, Text: s.Value, Source: s.Source}
}

// takeUnknownEnv judges variables that are no key: SKIFF_… is meant for us and refused; KAFKA_… may be meant for another program.
func (l *layers) takeUnknownEnv(settings []Setting) {
	for _, s := range settings {
		if strings.HasPrefix(s.Source.Name, "SKIFF_") {
			l.unknown = append(l.unknown, s)
		} else {
			l.stray = append(l.stray, s)
		}
	}
}

// verdict refuses unknown keys and bad values, all in one error.
func (l *layers) verdict(v *Values) error {
	var wrong []string
	fix := ""
	for _, s := range l.unknown {
		wrong = append(wrong, fmt.Sprintf("unknown key %q (%s)", s.Key, s.Source))
		if near := nearest(v.role, s.Key); near != "" && fix == "" {
			fix = fmt.Sprintf("did you mean %s?", near)
		}
	}
	for _, k := range Keys(v.role) {
		value := v.values[k.Name]
		if value.Source.Kind == SourceDefault || k.kind.ok(value.Text) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s = %q (%s): want %s", k.Name, value.Text, value.Source, k.kind.want))
		if fix == "" {
			fix = fmt.Sprintf("correct %s", k.Name)
		}
	}
	if wrong == nil {
		return nil
	}
	if fix == "" {
		fix = "`skiff config print` lists the keys"
	}
	return Usage(fix, "configuration: %s", strings.Join(wrong, "; "))
}

// warnings words what was passed over, at most one line a reason.
func (l *layers) warnings() []string {
	var lines []string
	if len(l.unused) > 0 {
		lines = append(lines, "keys of Kafka that this process does not use: "+sourced(l.unused))
	}
	if len(l.stray) > 0 {
		lines = append(lines, "variables that are no key: "+sourced(l.stray))
	}
	if len(l.twice) > 0 {
		lines = append(lines, "keys given more than once, the last one counts: "+strings.Join(l.twice, ", "))
	}
	return lines
}

// sourced lists settings with their sources, sorted and once each.
func sourced(settings []Setting) string {
	names := make([]string, 0, len(settings))
	for _, s := range settings {
		if s.Source.Kind == SourceEnv {
			names = append(names, s.Source.Name)
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", s.Key, s.Source))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// All returns the values in the order of [Keys].
func (v *Values) All() []Value {
	list := make([]Value, 0, len(v.values))
	for _, k := range Keys(v.role) {
		list = append(list, v.values[k.Name])
	}
	return list
}

// Warnings are lines for the log: what was passed over, and why.
func (v *Values) Warnings() []string { return v.warnings }

// BootstrapServers are host:port of the quorum nodes.
func (v *Values) BootstrapServers() []string { return v.list("controller.quorum.bootstrap.servers") }

// Source tells where the value of a key came from.
func (v *Values) Source(key string) Source { return v.get(key).Source }
