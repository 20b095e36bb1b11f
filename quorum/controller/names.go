package controller

import "strings"

// clusterMetadataTopic is the name under which Kafka's own tools know the metadata log.
const clusterMetadataTopic = "__cluster_metadata"

// metricName is what a topic is called in metrics, where '.' and '_' are one.
func metricName(name string) string { return strings.ReplaceAll(name, ".", "_") }
