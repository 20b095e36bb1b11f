package fsm

import (
	"fmt"
	"net"
	"strconv"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Bounds of a registration (I20). They keep every object small enough for one frame of a snapshot.
const (
	maxListeners   = 64
	maxFeatures    = 256
	maxDirectories = 1024
	// maxStringBytes is the limit of Kafka for a config value, used for every free string.
	maxStringBytes = 32767
)

// Listener is an endpoint that a process advertises.
type Listener struct {
	// Name of the listener, for example "PLAINTEXT".
	Name string
	// Host as advertised, verbatim.
	Host string
	// Port from 1 to 65535.
	Port uint16
	// SecurityProtocol as Kafka numbers it: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
	SecurityProtocol int32
}

// Address returns host:port, ready to dial.
func (l Listener) Address() string {
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// Feature is a range of levels that a process supports.
type Feature struct {
	// Name of the feature, for example "skiff.version".
	Name string
	// Min and Max are the lowest and highest supported level.
	Min, Max int32
}

// Broker is a registration. It is immutable.
type Broker struct {
	// ID is the broker's node id.
	ID int32
	// Epoch is the metadata offset of the RegisterBroker record of this incarnation.
	// Invariant: a broker has caught up with its registration once it has applied this offset.
	Epoch int64
	// IncarnationID is new for each start of the process.
	IncarnationID UUID
	// Listeners in the order in which the broker named them.
	Listeners []Listener
	// Features that the broker supports.
	Features []Feature
	// Rack is meaningful only when HasRack is set: an empty rack is not no rack.
	Rack    string
	HasRack bool
	// Fenced brokers lead nothing and are not offered to clients. Invariant: I7.
	Fenced bool
	// InControlledShutdown is set while the broker hands over its leaderships.
	InControlledShutdown bool
	// Directories are the uuids of the log directories that are online.
	Directories []UUID
}

// Active reports whether the broker may lead and join an ISR: unfenced and not in controlled shutdown.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// Listener returns the endpoint with this name.
func (b *Broker) Listener(name string) (Listener, bool) { return findListener(b.Listeners, name) }

// Record returns the registration as the record that states it.
func (b *Broker) Record() *metadatav1.RegisterBroker {
	r := &metadatav1.RegisterBroker{
		BrokerId:             b.ID,
		IncarnationId:        b.IncarnationID.Bytes(),
		BrokerEpoch:          b.Epoch,
		Listeners:            ListenersProto(b.Listeners),
		Features:             FeaturesProto(b.Features),
		Fenced:               b.Fenced,
		InControlledShutdown: b.InControlledShutdown,
		Directories:          uuidBytes(b.Directories),
	}
	if b.HasRack {
		rack := b.Rack
		r.Rack = &rack
	}
	return r
}

// brokerFromRecord reads the record without judging whether it may follow on what was before.
func brokerFromRecord(r *metadatav1.RegisterBroker) (*Broker, error) {
	b := &Broker{
		ID:                   r.GetBrokerId(),
		Epoch:                r.GetBrokerEpoch(),
		HasRack:              r.Rack != nil,
		Rack:                 r.GetRack(),
		Fenced:               r.GetFenced(),
		InControlledShutdown: r.GetInControlledShutdown(),
	}
	if b.ID < 0 {
		return nil, fmt.Errorf("broker id %d is negative", b.ID)
	}
	if len(b.Rack) > maxStringBytes {
		return nil, fmt.Errorf("rack has %d bytes, at most %d", len(b.Rack), maxStringBytes)
	}
	var err error
	if b.IncarnationID, err = requireUUID("incarnation id", r.GetIncarnationId()); err != nil {
		return nil, err
	}
	if b.Listeners, err = ListenersFromProto(r.GetListeners()); err != nil {
		return nil, err
	}
	if b.Features, err = FeaturesFromProto(r.GetFeatures()); err != nil {
		return nil, err
	}
	if b.Directories, err = directoriesFromProto(r.GetDirectories()); err != nil {
		return nil, err
	}
	return b, nil
}

// directoriesFromProto reads the log directories of a registration: each names something, none twice.
func directoriesFromProto(raw [][]byte) ([]UUID, error) {
	if len(raw) > maxDirectories {
		return nil, fmt.Errorf("%d directories, at most %d", len(raw), maxDirectories)
	}
	list, err := uuidList("directory", raw)
	if err != nil {
		return nil, err
	}
	seen := make(map[UUID]bool, len(list))
	for _, u := range list {
		if u.IsZero() || seen[u] {
			return nil, fmt.Errorf("directory %s is zero or named twice", u)
		}
		seen[u] = true
	}
	return list, nil
}

// ListenersFromProto reads listeners: names are unique and not empty, ports are real.
func ListenersFromProto(list []*metadatav1.Listener) ([]Listener, error) {
	if len(list) > maxListeners {
		return nil, fmt.Errorf("%d listeners, at most %d", len(list), maxListeners)
	}
	var out []Listener
	for _, p := range list {
		l := Listener{Name: p.GetName(), Host: p.GetHost(), Port: uint16(p.GetPort()), SecurityProtocol: p.GetSecurityProtocol()}
		if p.GetPort() == 0 || p.GetPort() > 65535 {
			return nil, fmt.Errorf("listener %q: port %d is not in 1..65535", l.Name, p.GetPort())
		}
		if l.Name == "" || len(l.Name) > maxStringBytes || len(l.Host) > maxStringBytes {
			return nil, fmt.Errorf("listener name has %d bytes and host %d, want a name and at most %d", len(l.Name), len(l.Host), maxStringBytes)
		}
		if _, twice := findListener(out, l.Name); twice {
			return nil, fmt.Errorf("listener %q is named twice", l.Name)
		}
		out = append(out, l)
	}
	return out, nil
}

// ListenersProto is the reverse of ListenersFromProto.
func ListenersProto(list []Listener) []*metadatav1.Listener {
	var out []*metadatav1.Listener
	for _, l := range list {
		out = append(out, &metadatav1.Listener{Name: l.Name, Host: l.Host, Port: uint32(l.Port), SecurityProtocol: l.SecurityProtocol})
	}
	return out
}

// FeaturesFromProto reads feature ranges: names are unique and not empty, no range is empty.
func FeaturesFromProto(list []*metadatav1.Feature) ([]Feature, error) {
	if len(list) > maxFeatures {
		return nil, fmt.Errorf("%d features, at most %d", len(list), maxFeatures)
	}
	var out []Feature
	seen := make(map[string]bool, len(list))
	for _, p := range list {
		f := Feature{Name: p.GetName(), Min: p.GetMinLevel(), Max: p.GetMaxLevel()}
		if f.Name == "" || len(f.Name) > maxStringBytes || seen[f.Name] {
			return nil, fmt.Errorf("feature name %.40q is empty, too long or named twice", f.Name)
		}
		if f.Min < 0 || f.Max < f.Min {
			return nil, fmt.Errorf("feature %q: levels %d..%d are no range", f.Name, f.Min, f.Max)
		}
		seen[f.Name] = true
		out = append(out, f)
	}
	return out, nil
}

// FeaturesProto is the reverse of FeaturesFromProto.
func FeaturesProto(list []Feature) []*metadatav1.Feature {
	var out []*metadatav1.Feature
	for _, f := range list {
		out = append(out, &metadatav1.Feature{Name: f.Name, MinLevel: f.Min, MaxLevel: f.Max})
	}
	return out
}

func findListener(list []Listener, name string) (Listener, bool) {
	for _, l := range list {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}
