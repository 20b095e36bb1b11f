package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skiffmq/skiff/fsm"
)

// wordPartitionChange says what is another in a partition's state.
func wordPartitionChange(old, now *fsm.Partition) string {
	var parts []string
	if old.Leader != now.Leader || old.LeaderEpoch != now.LeaderEpoch {
		parts = append(parts, fmt.Sprintf("leader %s -> %s (leader epoch %d -> %d)", wordLeader(old.Leader), wordLeader(now.Leader), old.LeaderEpoch, now.LeaderEpoch))
	}
	for _, l := range []struct {
		name     string
		old, now []int32
	}{
		{"ISR", old.ISR, now.ISR},
		{"replicas", old.Replicas, now.Replicas},
		{"adding", old.Adding, now.Adding},
		{"removing", old.Removing, now.Removing},
		{"eligible leader replicas", old.ELR, now.ELR},
	} {
		if !slices.Equal(l.old, l.now) {
			parts = append(parts, fmt.Sprintf("%s %v -> %v", l.name, l.old, l.now))
		}
	}
	if old.AwaitingInventory != now.AwaitingInventory {
		parts = append(parts, map[bool]string{true: "awaits inventories", false: "no longer awaits inventories"}[now.AwaitingInventory])
	}
	if old.Recovering != now.Recovering {
		parts = append(parts, map[bool]string{true: "its leader recovers", false: "its leader has recovered"}[now.Recovering])
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("partition epoch %d -> %d", old.PartitionEpoch, now.PartitionEpoch))
	}
	return strings.Join(parts, ", ")
}

func wordLeader(id int32) string {
	if id < 0 {
		return "none"
	}
	return fmt.Sprint(id)
}

func wordConfigs(entries []fsm.ConfigEntry) string {
	words := make([]string, 0, len(entries))
	for _, e := range entries {
		words = append(words, e.Key+"="+e.Value)
	}
	return strings.Join(words, " ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
