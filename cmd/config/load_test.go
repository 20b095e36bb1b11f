package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write puts a configuration file into a temporary directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fromFile is the input of a node with a file and nothing else.
func fromFile(path string, env ...string) Input {
	return Input{File: path, FileGiven: true, Env: env, Hostname: func() (string, error) { return "here.example", nil }}
}

func flagged(key, value string) Setting {
	return Setting{Key: key, Value: value, Source: Source{Kind: SourceFlag, Name: "--set " + key}}
}

// refused checks that err is an exit with a code whose cause has every one of the words, and returns its fix.
func refused(t *testing.T, err error, code int, words ...string) (fix string) {
	t.Helper()
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("want an exit with %d, got %v", code, err)
	}
	if exit.Code != code {
		t.Errorf("exit code %d, want %d (%s)", exit.Code, code, exit.Cause)
	}
	for _, w := range words {
		if !strings.Contains(exit.Cause, w) {
			t.Errorf("cause %q does not say %q", exit.Cause, w)
		}
	}
	return exit.Fix
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	path := write(t, "server.properties", "node.id=1\nnum.partitions=2\nmin.insync.replicas=2\n")
	in := fromFile(path, "KAFKA_NUM_PARTITIONS=3", "SKIFF_MIN_INSYNC_REPLICAS=4", "KAFKA_MIN_INSYNC_REPLICAS=5")
	in.Flags = []Setting{flagged("num.partitions", "6")}
	v, err := Load(RoleBroker, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ key, text, source string }{
		{"node.id", "1", path + ":1"},
		{"num.partitions", "6", "flag --set num.partitions"},
		{"min.insync.replicas", "4", "env SKIFF_MIN_INSYNC_REPLICAS"},
		{"default.replication.factor", "1", "default"},
	} {
		if got := v.get(want.key); got.Text != want.text || got.Source.String() != want.source {
			t.Errorf("%s = %q (%s), want %q (%s)", want.key, got.Text, got.Source, want.text, want.source)
		}
	}
}

func TestEnvironmentOverlaysTheFile(t *testing.T) {
	path := write(t, "server.properties", "node.id=1\nbroker.rack=a\nlog.dirs=/data\ncontroller.quorum.bootstrap.servers=a:9093\n")
	b, err := LoadBroker(fromFile(path, "KAFKA_BROKER_RACK=b"))
	if err != nil {
		t.Fatal(err)
	}
	if b.Rack != "b" || !b.HasRack || b.NodeID != 1 || !slices.Equal(b.LogDirs, []string{"/data"}) {
		t.Errorf("got rack %q, node %d, directories %v", b.Rack, b.NodeID, b.LogDirs)
	}
}

func TestKafkasOwnFileIsTakenUnchanged(t *testing.T) {
	b, err := LoadBroker(fromFile("testdata/kafka-broker.properties"))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Warnings) != 1 || strings.Contains(b.Warnings[0], "num.partitions") || !strings.Contains(b.Warnings[0], "num.io.threads (testdata/kafka-broker.properties:") {
		t.Errorf("want one warning that lists unused keys with their places, got %q", b.Warnings)
	}
	if b.NodeID != 2 || b.Advertised[0].String() != "PLAINTEXT://localhost:9092" || b.Listeners[0].Host != "" {
		t.Errorf("got node %d, listeners %v, advertised %v", b.NodeID, b.Listeners, b.Advertised)
	}
	q, err := LoadQuorum(fromFile("testdata/kafka-controller.properties"))
	if err != nil {
		t.Fatal(err)
	}
	if q.NodeID != 1 || q.Listener.String() != "CONTROLLER://:9093" || q.Advertised.String() != "CONTROLLER://localhost:9093" || q.DataDir != "/tmp/kraft-controller-logs" {
		t.Errorf("got %d %v %v %s", q.NodeID, q.Listener, q.Advertised, q.DataDir)
	}
}

func TestUnknownKeyNamesTheNearest(t *testing.T) {
	path := write(t, "server.properties", "node.id=1\n\nnum.partition=3\n")
	_, err := Load(RoleBroker, fromFile(path))
	if fix := refused(t, err, ExitUsage, `"num.partition"`, path+":3"); fix != "did you mean num.partitions?" {
		t.Errorf("fix: %q", fix)
	}
}

func TestUnknownVariableOfOursIsRefusedAndOfOthersListed(t *testing.T) {
	_, err := Load(RoleBroker, Input{Env: []string{"SKIFF_NODE_IDD=1"}})
	if fix := refused(t, err, ExitUsage, "SKIFF_NODE_IDD"); fix != "did you mean node.id?" {
		t.Errorf("fix: %q", fix)
	}
	v, err := Load(RoleBroker, Input{Env: []string{
		"KAFKA_BROKERS=a:1", "KAFKA_NUM_IO_THREADS=8", "KAFKA_SSL_KEYSTORE_LOCATION=/k", "KAFKA_HEAP_OPTS=-Xmx1g",
		"SKIFF_DATA=/d", "SKIFF_PORT=tcp://10.0.0.1:9092", "SKIFF_PORT_9092_TCP_ADDR=10.0.0.1", "KAFKA_SERVICE_HOST=10.0.0.1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"keys of Kafka that this process does not use: KAFKA_NUM_IO_THREADS, KAFKA_SSL_KEYSTORE_LOCATION",
		"variables that are no key: KAFKA_BROKERS",
	}
	if !slices.Equal(v.Warnings(), want) {
		t.Errorf("warnings %q, want %q", v.Warnings(), want)
	}
}

func TestBadValueNamesKeySourceAndExpectation(t *testing.T) {
	for name, c := range map[string]struct {
		setting Setting
		words   []string
	}{
		"no number":    {flagged("node.id", "one"), []string{"node.id", `"one"`, "--set node.id", "whole number"}},
		"negative":     {flagged("node.id", "-1"), []string{"node.id", "from 0 to 2147483647"}},
		"too large":    {flagged("num.partitions", "10001"), []string{"from 1 to 10000"}},
		"no boolean":   {flagged("auto.create.topics.enable", "yes"), []string{"true, false"}},
		"empty number": {flagged("node.id", ""), []string{"node.id", "whole number"}},
		"no listener":  {flagged("listeners", "9092"), []string{"NAME://host:port"}},
		"same name":    {flagged("listeners", "A://:1,A://:2"), []string{"NAME://host:port"}},
		"no listeners": {flagged("listeners", ","), []string{"NAME://host:port"}},
		"bad port":     {flagged("controller.quorum.bootstrap.servers", "a:65536"), []string{"host:port"}},
		"bad role":     {flagged("process.roles", "zookeeper"), []string{"broker or controller"}},
		"bad protocol": {flagged("listener.security.protocol.map", "A:TLS"), []string{"PLAINTEXT, SSL"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(RoleBroker, Input{Flags: []Setting{c.setting}})
			refused(t, err, ExitUsage, c.words...)
		})
	}
}

func TestEveryMistakeIsNamedAtOnce(t *testing.T) {
	_, err := Load(RoleBroker, Input{Flags: []Setting{flagged("foo.bar", "1"), flagged("node.id", "x"), flagged("num.partitions", "y")}})
	if fix := refused(t, err, ExitUsage, "foo.bar", "node.id", "num.partitions"); fix == "" {
		t.Error("no fix")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the cause is not one line: %q", err)
	}
}

func TestNamedFileMustSaySomething(t *testing.T) {
	for name, path := range map[string]string{
		"no name":       "",
		"missing":       filepath.Join(t.TempDir(), "none.properties"),
		"empty":         write(t, "empty.properties", ""),
		"only comments": write(t, "comments.properties", "# node.id=1\n\n"),
		"empty yaml":    write(t, "empty.yaml", "---\n"),
		"null yaml":     write(t, "null.yml", "~\n"),
		"directory":     t.TempDir(),
		"too large":     write(t, "large.properties", strings.Repeat("# comment\n", fileBytesMax/10+1)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(RoleBroker, fromFile(path))
			if fix := refused(t, err, ExitUsage); fix == "" {
				t.Error("no fix")
			}
		})
	}
}

func TestAliasesMeanTheSameKey(t *testing.T) {
	path := write(t, "server.properties", "broker.id=7\nlog.dir=/one\nlog.dirs=/two\n")
	v, err := Load(RoleBroker, fromFile(path))
	if err != nil {
		t.Fatal(err)
	}
	if v.text("node.id") != "7" || v.text("log.dirs") != "/two" {
		t.Errorf("node.id %q, log.dirs %q", v.text("node.id"), v.text("log.dirs"))
	}
	path = write(t, "server.properties", "log.dirs=/two\nlog.dir=/one\n")
	if v, err = Load(RoleBroker, fromFile(path)); err != nil || v.text("log.dirs") != "/two" {
		t.Errorf("log.dirs %q, %v: the key's own name wins", v.text("log.dirs"), err)
	}
}

func TestKeyGivenTwiceIsWarnedOf(t *testing.T) {
	path := write(t, "server.properties", "num.partitions=1\nnum.partitions=2\n")
	v, err := Load(RoleBroker, fromFile(path))
	if err != nil {
		t.Fatal(err)
	}
	if v.text("num.partitions") != "2" || len(v.Warnings()) != 1 || !strings.Contains(v.Warnings()[0], "num.partitions") {
		t.Errorf("num.partitions %q, warnings %q", v.text("num.partitions"), v.Warnings())
	}
}

func TestYAMLHasTheSameKeys(t *testing.T) {
	path := write(t, "node.yaml", `
node: {id: 4}
log.dirs: [/a, /b]
controller.quorum:
  bootstrap:
    servers: ["c1:9093", c2:9093]
broker.rack: "1"
auto.create.topics.enable: false
inter.broker.listener.name: ~
`)
	b, err := LoadBroker(fromFile(path))
	if err != nil {
		t.Fatal(err)
	}
	if b.NodeID != 4 || !slices.Equal(b.LogDirs, []string{"/a", "/b"}) || b.Rack != "1" || b.AutoCreateTopics ||
		!slices.Equal(b.BootstrapServers, []string{"c1:9093", "c2:9093"}) || b.Values.Source("controller.quorum.bootstrap.servers").Line != 6 {
		t.Errorf("got %+v", b)
	}
}

func TestYAMLIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"list":        "- a\n",
		"scalar":      "node.id\n",
		"twice":       "node.id: 1\nnode: {id: 2}\n",
		"anchor":      "a: &x {b: 1}\nnode: *x\n",
		"merge":       "a: &x {b: 1}\nnode: {<<: *x}\n",
		"documents":   "node.id: 1\n---\nnode.id: 2\n",
		"nested list": "log.dirs: [[/a]]\n",
		"deep":        strings.Repeat("{a: ", yamlDepthMax+2) + "1" + strings.Repeat("}", yamlDepthMax+2),
		"broken":      "a: [",
		"key":         "[a, b]: 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(RoleBroker, fromFile(write(t, "node.yaml", text)))
			refused(t, err, ExitUsage, "node.yaml")
		})
	}
}

func TestReportPrintsOneLineOfCauseAndOneOfFix(t *testing.T) {
	var b strings.Builder
	if code := Report(&b, "skiff", errors.Join(Usage("do that", "wrong"), errors.New("and more"))); code != ExitUsage {
		t.Errorf("code %d", code)
	}
	if got, want := b.String(), "skiff: wrong; and more\nfix: do that\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if code := Report(&b, "skiff", nil); code != ExitOK {
		t.Errorf("code %d for success", code)
	}
	if code := Report(&b, "skiff", errors.New("plain")); code != ExitFailed {
		t.Errorf("code %d for a plain error", code)
	}
}
