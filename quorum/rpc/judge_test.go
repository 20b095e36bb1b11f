package rpc

import (
	"testing"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func TestCourseByPosition(t *testing.T) {
	own, ancestor := fsm.LineageID{Number: 3, UUID: fsm.UUID{3}}, fsm.LineageID{Number: 1, UUID: fsm.UUID{1}}
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{9}.String(), Lineage: own.Proto(), NextMetadataOffset: 100,
		Ancestors: []*metadatav1.LineageAncestor{{Uuid: ancestor.UUID.Bytes(), ForkOffset: 50}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		at   position
		want course
	}{
		"no lineage yet":           {position{}, courseSnapshot},
		"behind":                   {position{own, 7}, courseStream},
		"caught up":                {position{own, 100}, courseStream},
		"ahead":                    {position{own, 101}, courseHold},
		"of an ancestor":           {position{ancestor, 40}, courseSnapshot},
		"of an ancestor, far":      {position{ancestor, 4000}, courseSnapshot},
		"of a stranger":            {position{fsm.LineageID{Number: 2, UUID: fsm.UUID{2}}, 7}, courseRefuse},
		"of a descendant":          {position{fsm.LineageID{Number: 4, UUID: fsm.UUID{4}}, 7}, courseRefuse},
		"same number, other birth": {position{fsm.LineageID{Number: 3, UUID: fsm.UUID{4}}, 7}, courseRefuse},
	} {
		if got := judge(img, tc.at); got != tc.want {
			t.Errorf("%s: course %d, want %d", name, got, tc.want)
		}
	}
}
