package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestPropertiesAreReadAsJavaReadsThem(t *testing.T) {
	text := "a=1\nb : 2\nc 3\n  d\t=\t4  \n# e=5\n! f=6\ng=\n" +
		"h=one,\\\n   two\ni\\ j=\\u0041\\t\\\\\r\nk=v=w\rl\nm=a\\=b\nn\\:o=1\np=end\\"
	got, err := parseProperties("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 a=1", "2 b=2", "3 c=3", "4 d=4", "7 g=", "8 h=one,two", "10 i j=A\t\\", "11 k=v=w", "12 l=", "13 m=a=b", "14 n:o=1", "15 p=end",
	}
	var lines []string
	for _, s := range got {
		lines = append(lines, fmt.Sprintf("%d %s=%s", s.Source.Line, s.Key, s.Value))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
}

func TestPropertiesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no key": "=value\n", "short escape": "a=\\u12\n", "bad escape": "a=\\u12xy\n", "no text": "a=\xff\n",
	} {
		if _, err := parseProperties("f", []byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestFlagsStandForKeys(t *testing.T) {
	set := pflag.NewFlagSet("brokerd", pflag.ContinueOnError)
	f := AddFlags(set, RoleBroker)
	if err := set.Parse([]string{"--node-id", "3", "--data", "/d", "--controllers", "a:1,b:2", "--set", "broker.rack = r1", "--set", "num.partitions=4"}); err != nil {
		t.Fatal(err)
	}
	in, err := f.Input()
	if err != nil {
		t.Fatal(err)
	}
	in.Env = nil
	b, err := LoadBroker(in)
	if err != nil {
		t.Fatal(err)
	}
	if b.NodeID != 3 || b.Rack != "r1" || b.Topic.NumPartitions != 4 || !slices.Equal(b.BootstrapServers, []string{"a:1", "b:2"}) {
		t.Errorf("got %+v", b)
	}
	if got := b.Values.Source("node.id").String(); got != "flag --node-id" {
		t.Errorf("source %q", got)
	}
}

func TestFlagsAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"no value": {"--set", "node.id"},
		"no key":   {"--set", "=1"},
		"twice":    {"--set", "node.id=1", "--node-id", "2"},
	} {
		set := pflag.NewFlagSet("quorumd", pflag.ContinueOnError)
		f := AddFlags(set, RoleQuorum)
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Input(); ExitCode(err) != ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseProperties: what was read is written down again in the plainest form, and that reads the same.
func FuzzParseProperties(f *testing.F) {
	for _, text := range []string{"a=1\n", "a\\ b : c\\\n d", "#\n!\n\\u0041=\\u0042", "a", "=", "a=\\", "k=\\uD800\n", "a\f=b"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := parseProperties("f", data)
		if err != nil {
			return
		}
		var plain strings.Builder
		for _, s := range first {
			plain.WriteString(plainProperty(s.Key) + "=" + plainProperty(s.Value) + "\n")
		}
		second, err := parseProperties("f", []byte(plain.String()))
		if err != nil {
			t.Fatalf("%v\n%q", err, plain.String())
		}
		compareSettings(t, first, second)
	})
}

// plainProperty escapes everything but small letters and what an escape cannot hold.
func plainProperty(s string) string {
	var b strings.Builder
	for _, r := range s {
		if 'a' <= r && r <= 'z' || r >= 0x10000 {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// FuzzParseYAML: the settings, written one key a line, read the same.
func FuzzParseYAML(f *testing.F) {
	for _, text := range []string{"a: 1\n", "a: {b: [1, 2]}\nc.d: x", "---\n~\n", "a: &x 1\nb: *x", "? a\n: b", "{a: {a: {a: 1}}}", "a: |\n  text\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := parseYAML("f", data)
		if err != nil {
			return
		}
		var plain strings.Builder
		for _, s := range first {
			fmt.Fprintf(&plain, "%s: %s\n", quoteYAML(s.Key), quoteYAML(s.Value))
		}
		second, err := parseYAML("f", []byte(plain.String()))
		if err != nil {
			t.Fatalf("%v\n%q", err, plain.String())
		}
		compareSettings(t, first, second)
	})
}

// quoteYAML writes every character as an escape.
func quoteYAML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		fmt.Fprintf(&b, `\U%08x`, r)
	}
	b.WriteByte('"')
	return b.String()
}

func compareSettings(t *testing.T, first, second []Setting) {
	t.Helper()
	same := func(a, b Setting) bool { return a.Key == b.Key && a.Value == b.Value }
	if !slices.EqualFunc(first, second, same) {
		t.Fatalf("first  %q\nsecond %q", first, second)
	}
}
