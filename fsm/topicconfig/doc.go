// Package topicconfig knows the configuration of topics: which keys exist, which values they take, and which value is
// in force for a topic.
//
// It is pure: it reads an image and never holds one. The controller validates with it before a key is written; the
// broker looks up with it what a partition has to obey. Both therefore agree on every default.
//
// A value is looked for in the topic's own configuration, then in the cluster's default (the broker resource with an
// empty name), then in the static configuration of the process that asks, and last in the schema. Below the topic's own
// level a key goes by the name Kafka gives it on a broker, for example log.retention.ms for retention.ms.
//
// A key is in the schema only if setting it has an effect. What Kafka has besides is refused by name, rather than
// accepted and ignored.
package topicconfig
