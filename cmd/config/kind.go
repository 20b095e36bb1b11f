package config

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a key's value: what is accepted, and how the expectation is worded.
type kind struct {
	want string
	ok   func(string) bool
}

// whole accepts whole numbers from least to most.
func whole(least, most int64) kind {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt64 {
		want = fmt.Sprintf("a whole number of at least %d", least)
	}
	return kind{want: want, ok: func(s string) bool {
		n, err := strconv.ParseInt(s, 10, 64)
		return err == nil && n >= least && n <= most
	}}
}

// oneOf accepts the given words, in any case.
func oneOf(words ...string) kind {
	return kind{want: "one of " + strings.Join(words, ", "), ok: func(s string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, s) })
	}}
}

// rolesOf accepts a list of Kafka's process roles.
var rolesOf = kind{want: "broker or controller", ok: func(s string) bool {
	list := splitList(s)
	for _, role := range list {
		if role != "broker" && role != "controller" {
			return false
		}
	}
	return len(list) > 0
}}

var (
	boolean  = oneOf("true", "false")
	anyText  = kind{want: "text", ok: func(string) bool { return true }}
	someText = kind{want: "text that is not empty", ok: func(s string) bool { return s != "" }}
	anyList  = kind{want: "a comma-separated list", ok: func(string) bool { return true }}

	listenerList = kind{want: "a list of NAME://host:port", ok: func(s string) bool {
		list, err := ParseListeners(s)
		return err == nil && len(list) > 0
	}}
	addressList = kind{want: "a list of host:port", ok: func(s string) bool {
		for _, a := range splitList(s) {
			if !isAddress(a) {
				return false
			}
		}
		return true
	}}
	peerList = kind{want: "a list of id@host:port", ok: func(s string) bool {
		_, err := parsePeers(s)
		return err == nil
	}}
	protocolMap = kind{want: "a list of NAME:PROTOCOL, of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", ok: func(s string) bool {
		_, err := parseProtocols(s)
		return err == nil
	}}
)

// splitList splits at commas and drops white space and empty items, as Kafka does.
func splitList(s string) []string {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// isAddress tells whether s is host:port with a port from 0 to 65535.
func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// parsePeers reads id@host:port, ….
func parsePeers(s string) (map[int32]string, error) {
	peers := make(map[int32]string)
	for _, item := range splitList(s) {
		id, address, found := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !found || err != nil || n < 0 || !isAddress(address) {
			return nil, fmt.Errorf("peer %q is not id@host:port", item)
		}
		if _, twice := peers[int32(n)]; twice {
			return nil, fmt.Errorf("peer %d is given twice", n)
		}
		peers[int32(n)] = address
	}
	return peers, nil
}
