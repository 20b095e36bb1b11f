// Package golden asks a cluster the same admin requests that a real Apache Kafka was asked, so that the answers can be
// compared.
//
// Steps are the requests, good and bad, in their order: each finds what the earlier ones left. Ask sends them and makes
// of each answer a text without what differs from cluster to cluster by right: addresses, ids, times, sizes and the words
// of a message. testdata holds what Kafka answered; record.sh makes it anew from Kafka's jars.
package golden
