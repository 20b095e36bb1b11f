package config

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// quorumFlags and brokerFlags are the least that a node needs.
func quorumFlags(more ...Setting) Input {
	return Input{Flags: append([]Setting{flagged("node.id", "101"), flagged("log.dirs", "/data")}, more...), Hostname: func() (string, error) { return "here.example", nil }}
}

func brokerFlags(more ...Setting) Input {
	in := quorumFlags(more...)
	in.Flags = append([]Setting{flagged("controller.quorum.bootstrap.servers", "a:9093")}, in.Flags...)
	return in
}

func TestDefaultsAreKafkasAndLoopback(t *testing.T) {
	b, err := LoadBroker(brokerFlags())
	if err != nil {
		t.Fatal(err)
	}
	if b.Listeners[0].Address() != "127.0.0.1:9092" || b.Advertised[0] != b.Listeners[0] || !slices.Equal(b.AdminListeners, []string{"127.0.0.1:9645"}) {
		t.Errorf("listeners %v, advertised %v, admin %v", b.Listeners, b.Advertised, b.AdminListeners)
	}
	if b.SessionTimeout != 9*time.Second || b.HeartbeatInterval != 1500*time.Millisecond || b.ReplicaLagMax != 30*time.Second {
		t.Errorf("session %v, heartbeat %v, lag %v", b.SessionTimeout, b.HeartbeatInterval, b.ReplicaLagMax)
	}
	if b.Topic.Retention != 7*24*time.Hour || b.Topic.SegmentBytes != 1<<30 || b.Topic.MessageBytesMax != 1048588 || b.InterBroker != "PLAINTEXT" {
		t.Errorf("got %+v, inter broker %q", b.Topic, b.InterBroker)
	}
	q, err := LoadQuorum(quorumFlags())
	if err != nil {
		t.Fatal(err)
	}
	if q.Listener.Address() != "127.0.0.1:9093" || !slices.Equal(q.AdminListeners, []string{"127.0.0.1:9644"}) || q.LogStore != "bolt" || q.Multiplier != 1 {
		t.Errorf("got %+v", q)
	}
}

func TestRetentionTakesTheFinestUnit(t *testing.T) {
	for _, c := range []struct {
		settings []Setting
		want     time.Duration
	}{
		{nil, 168 * time.Hour},
		{[]Setting{flagged("log.retention.hours", "1")}, time.Hour},
		{[]Setting{flagged("log.retention.hours", "1"), flagged("log.retention.minutes", "2")}, 2 * time.Minute},
		{[]Setting{flagged("log.retention.ms", "3"), flagged("log.retention.minutes", "2")}, 3 * time.Millisecond},
		{[]Setting{flagged("log.retention.ms", "-1")}, -time.Millisecond},
		{[]Setting{flagged("log.retention.hours", "-1")}, -time.Millisecond},
		{[]Setting{flagged("log.retention.hours", "2147483647")}, (1<<63 - 1) / time.Millisecond * time.Millisecond},
		{[]Setting{flagged("log.retention.ms", "9223372036854775807")}, (1<<63 - 1) / time.Millisecond * time.Millisecond},
	} {
		b, err := LoadBroker(brokerFlags(c.settings...))
		if err != nil {
			t.Fatal(err)
		}
		if b.Topic.Retention != c.want {
			t.Errorf("%v: retention %v, want %v", c.settings, b.Topic.Retention, c.want)
		}
	}
}

func TestQuorumIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		more  Setting
		words string
	}{
		"broker's file": {flagged("process.roles", "broker"), `quorumd is "controller"`},
		"combined":      {flagged("process.roles", "broker,controller"), "one process has one role"},
		"two listeners": {flagged("listeners", "A://:1,B://:2"), "exactly one listener, found 2"},
		"other name":    {flagged("controller.listener.names", "OTHER"), "found 0"},
		"tls":           {flagged("listener.security.protocol.map", "CONTROLLER:SSL"), "not supported yet"},
		"peer twice":    {flagged("controller.quorum.peers", "1@a:1,1@b:1"), "id@host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadQuorum(quorumFlags(c.more))
			refused(t, err, ExitUsage, c.words)
		})
	}
	_, err := LoadQuorum(Input{Flags: []Setting{flagged("log.dirs", "/data")}})
	refused(t, err, ExitUsage, "node.id is missing")
	_, err = LoadQuorum(Input{Flags: []Setting{flagged("node.id", "1")}})
	refused(t, err, ExitUsage, "log.dirs")
}

func TestBrokerIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		more  Setting
		words string
	}{
		"controller's file":   {flagged("process.roles", "controller"), `brokerd is "broker"`},
		"only the quorum's":   {flagged("controller.listener.names", "PLAINTEXT"), "controller.listener.names"},
		"unroutable":          {flagged("listeners", "PLAINTEXT://0.0.0.0:9092"), "0.0.0.0 cannot be advertised"},
		"unbound":             {flagged("advertised.listeners", "OTHER://a:1"), "OTHER is not bound"},
		"inter broker":        {flagged("inter.broker.listener.name", "OTHER"), "no such listener"},
		"directory twice":     {flagged("log.dirs", "/a,/a/"), "twice"},
		"heartbeat too slow":  {flagged("broker.heartbeat.interval.ms", "5000"), "at most half"},
		"sasl":                {flagged("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT"), "not supported yet"},
		"listener not mapped": {flagged("listener.security.protocol.map", "OTHER:PLAINTEXT"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadBroker(brokerFlags(c.more))
			if c.words == "" {
				if err != nil {
					t.Errorf("a name that is a protocol needs no map: %v", err)
				}
				return
			}
			refused(t, err, ExitUsage, c.words)
		})
	}
	_, err := LoadBroker(quorumFlags())
	refused(t, err, ExitUsage, "controller.quorum.bootstrap.servers is missing")
}

func TestEmptyHostIsAdvertisedByName(t *testing.T) {
	b, err := LoadBroker(brokerFlags(flagged("listeners", "PLAINTEXT://:0")))
	if err != nil {
		t.Fatal(err)
	}
	told := Advertise(b.Advertised, func(string) uint16 { return 4242 })
	if told[0].String() != "PLAINTEXT://here.example:4242" {
		t.Errorf("advertised %v", told)
	}
	in := brokerFlags(flagged("listeners", "PLAINTEXT://:0"))
	in.Hostname = func() (string, error) { return "", errors.New("no name") }
	_, err = LoadBroker(in)
	refused(t, err, ExitUsage, "no name")
}

func TestSeveralListenersKeepTheirAddresses(t *testing.T) {
	b, err := LoadBroker(brokerFlags(
		flagged("listeners", "INTERNAL://127.0.0.1:19092,EXTERNAL://0.0.0.0:9092,CONTROLLER://:9093"),
		flagged("advertised.listeners", "EXTERNAL://example.org:443"),
		flagged("listener.security.protocol.map", "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"),
		flagged("inter.broker.listener.name", "internal"), flagged("controller.listener.names", "CONTROLLER"),
	))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Listeners) != 2 || b.InterBroker != "INTERNAL" || len(b.Advertised) != 2 {
		t.Fatalf("listeners %v, inter broker %q, advertised %v", b.Listeners, b.InterBroker, b.Advertised)
	}
	if b.Advertised[0].String() != "INTERNAL://127.0.0.1:19092" || b.Advertised[1].String() != "EXTERNAL://example.org:443" {
		t.Errorf("advertised %v is not in the order of the listeners", b.Advertised)
	}
}

func TestAdminForAllTheWorldIsWarnedOf(t *testing.T) {
	q, err := LoadQuorum(quorumFlags(flagged("admin.listeners", "0.0.0.0:9644,localhost:1,[::1]:2")))
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Warnings) != 1 {
		t.Errorf("warnings %q", q.Warnings)
	}
}

// TestEveryKeyHasAType reads every key of each role through its typed configuration with every default, and finds that the table's
// own defaults are of the table's own kinds.
func TestEveryKeyHasAType(t *testing.T) {
	for _, role := range []Role{RoleQuorum, RoleBroker} {
		for _, k := range Keys(role) {
			if text := k.defaultFor(role); text != "" && !k.kind.ok(text) {
				t.Errorf("%s: default %q is not %s", k.Name, text, k.kind.want)
			}
			if k.Doc == "" {
				t.Errorf("%s is not described", k.Name)
			}
			if unusedKey(k.Name) {
				t.Errorf("%s is listed as unused too", k.Name)
			}
		}
	}
	if len(keysByName) < len(keys) {
		t.Error("a key stands twice in the table")
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"node.idd": "node.id", "advertised.listener": "advertised.listeners", "log.retention.hour": "log.retention.hours",
		"completely.different.and.much.longer.than.any": "", "x": "",
	} {
		if got := nearest(RoleBroker, name); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("distance = %d, want 3", d)
	}
}
