package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Listener is one socket, as Kafka writes it: NAME://host:port.
type Listener struct {
	// Name of the listener, in upper case: PLAINTEXT, CONTROLLER, INTERNAL, ….
	Name string
	// Host to bind or to advertise; empty means every interface.
	Host string
	// Port to bind; 0 lets the system choose. In an advertised listener 0 means: the bound one.
	Port uint16
	// Protocol is the security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	Protocol string
}

// protocolIDs are Kafka's numbers of the security protocols.
var protocolIDs = map[string]int32{"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

// Address returns host:port.
func (l Listener) Address() string {
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// String returns NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// ProtocolID returns Kafka's number of the security protocol.
func (l Listener) ProtocolID() int32 { return protocolIDs[l.Protocol] }

// wildcard tells whether the listener binds every interface.
func (l Listener) wildcard() bool {
	ip := net.ParseIP(l.Host)
	return l.Host == "" || ip != nil && ip.IsUnspecified()
}

// ParseListeners reads a comma-separated list of NAME://host:port. Names and ports (but 0) are unique in it.
// The security protocol is left empty: it depends on another key.
func ParseListeners(s string) ([]Listener, error) {
	var list []Listener
	for _, item := range splitList(s) {
		l, err := parseListener(item)
		if err != nil {
			return nil, err
		}
		for _, other := range list {
			if other.Name == l.Name {
				return nil, fmt.Errorf("listener %s is given twice", l.Name)
			}
		}
		list = append(list, l)
	}
	return list, nil
}

func parseListener(item string) (Listener, error) {
	name, address, found := strings.Cut(item, "://")
	if !found || name == "" {
		return Listener{}, fmt.Errorf("listener %q is not NAME://host:port", item)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Listener{}, fmt.Errorf("listener %q: %w", item, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("listener %q: port %q is not a number from 0 to 65535", item, port)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: uint16(n)}, nil
}

// parseProtocols reads listener.security.protocol.map.
func parseProtocols(s string) (map[string]string, error) {
	protocols := make(map[string]string)
	for _, item := range splitList(s) {
		name, protocol, found := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if _, known := protocolIDs[protocol]; !found || name == "" || !known {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL", item)
		}
		protocols[name] = protocol
	}
	return protocols, nil
}

// Advertise fills the ports that were left to the system: bound tells the port that the listener of a name got.
func Advertise(advertised []Listener, bound func(name string) uint16) []Listener {
	list := make([]Listener, len(advertised))
	for i, l := range advertised {
		if l.Port == 0 {
			l.Port = bound(l.Name)
		}
		list[i] = l
	}
	return list
}
