// Package config reads the configuration of the binaries.
//
// Keys are Kafka's own where Kafka has the key, so that a server.properties file can be handed over unchanged. A value comes from
// the first of these that has it:
//
//	flag         --set key=value, or a flag that stands for a key (--node-id)
//	environment  SKIFF_NODE_ID, then KAFKA_NODE_ID, for node.id
//	file         .properties, or YAML with the same keys
//	default
//
// The environment lies over the file key by key and never replaces it. Every value remembers its source: each refusal names key,
// source and expectation, and `skiff config print` shows them all. Keys of Kafka that Skiff does not use are gathered in one warning;
// a key that nobody knows is refused with the nearest match.
//
// [Load] reads and checks the keys, [LoadQuorum] and [LoadBroker] give them types. The package starts nothing and keeps no state;
// what it is not told (a host name, the environment) it takes from [Input].
package config
