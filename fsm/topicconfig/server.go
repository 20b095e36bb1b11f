package topicconfig

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// LookupServer finds a key by its name in a broker's configuration; Name of the result is that name.
func LookupServer(name string) (Key, bool) {
	for _, k := range schema {
		if k.ServerName == name {
			k.Name = name
			return k, true
		}
	}
	return Key{}, false
}

// ValidateServer tells whether the cluster's default, or a broker, may be given value for the key name. The error says
// what would be accepted; for an unknown key it names the nearest known one.
func ValidateServer(name, value string) error {
	key, ok := LookupServer(name)
	if !ok {
		return unknownServerKey(name)
	}
	return key.Validate(value)
}

func unknownServerKey(name string) error {
	if k, ok := Lookup(name); ok {
		return fmt.Errorf("%s is the key of a topic; brokers call it %s", name, k.ServerName)
	}
	if slices.Contains(kafkaOnly, name) {
		return fmt.Errorf("%s is a configuration of Kafka that this version does not support; leave it out", name)
	}
	if near := nearestOf(name, func(k Key) string { return k.ServerName }); near != "" {
		return fmt.Errorf("%.60q is not a configuration that brokers change while they run; did you mean %s?", name, near)
	}
	return fmt.Errorf("%.60q is not a configuration that brokers change while they run", name)
}

// Server lists the keys of brokers by name, each with where it has a value, from the one in force on down to the default.
// static says which broker is meant.
func Server(img *fsm.Image, static Static) [][]Value {
	lists := make([][]Value, 0, len(schema))
	for _, k := range schema {
		list := k.serverChain(img, static)
		for i := range list {
			list[i].Key.Name = k.ServerName
		}
		lists = append(lists, list)
	}
	slices.SortFunc(lists, func(a, b []Value) int { return cmp.Compare(a[0].Key.Name, b[0].Key.Name) })
	return lists
}
