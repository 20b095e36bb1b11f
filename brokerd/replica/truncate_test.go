package replica

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelLog is a log as a list of leader epochs, one for each record.
type modelLog []int32

// endOffsetFor is where the records of epoch, or of the greatest epoch below, end; an epoch below all of the log's
// ends where the log starts, and one above all is not known (Kafka's LeaderEpochFileCache).
func (l modelLog) endOffsetFor(epoch int32) (int32, int64) {
	if len(l) == 0 || epoch > l[len(l)-1] {
		return noEpoch, -1
	}
	found, end := epoch, int64(0)
	for i, e := range l {
		if e <= epoch {
			found, end = e, int64(i)+1
		}
	}
	return found, end
}

// TestTruncationEndsAtTheCommonPrefix gives two logs that part somewhere and lets the follower ask and cut as often
// as it needs: what stays is exactly the common prefix, and it comes to an end.
func TestTruncationEndsAtTheCommonPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs := func(label string, from int32) []int32 {
			list := rapid.SliceOfN(rapid.Int32Range(from, from+8), 0, 12).Draw(t, label)
			slices.Sort(list)
			return list
		}
		common := epochs("common", 0)
		// Two leaders never share an epoch, so that what comes after the common part is odd here and even there.
		own, theirs := epochs("own", 10), epochs("theirs", 10)
		for i := range own {
			own[i] = own[i]*2 + 1
		}
		for i := range theirs {
			theirs[i] *= 2
		}
		follower := append(slices.Clone(common), own...)
		leader := append(slices.Clone(common), theirs...)
		leader = append(leader, 1000) // the new leader's own epoch is above all
		for round := 0; ; round++ {
			if round > 30 {
				t.Fatalf("does not end: leader %v, follower %v", leader, follower)
			}
			if len(follower) == 0 {
				break
			}
			last := follower[len(follower)-1]
			epoch, end := modelLog(leader).endOffsetFor(last)
			if epoch == last && end >= int64(len(follower)) {
				break
			}
			follower = follower[:truncationPoint(EpochEnd{Epoch: epoch, EndOffset: end}, modelLog(follower).endOffsetFor, int64(len(follower)))]
		}
		if !slices.Equal(follower, common) && !slices.Equal(follower, leader[:len(follower)]) {
			t.Fatalf("I17: follower keeps %v, leader has %v", follower, leader)
		}
		if len(follower) < len(common) {
			t.Fatalf("I17: common prefix %v was cut to %v", common, follower)
		}
	})
}
