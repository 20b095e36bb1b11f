package kafka

import (
	"errors"
	"iter"

	"github.com/skiffmq/skiff/fsm"
)

// errNotReady is returned before the broker has its first image.
var errNotReady = errors.New("no metadata yet")

// Operations that Kafka's AclOperation numbers, as the bits that answers carry.
const (
	opRead            = 1 << 3
	opWrite           = 1 << 4
	opCreate          = 1 << 5
	opDelete          = 1 << 6
	opAlter           = 1 << 7
	opDescribe        = 1 << 8
	opClusterAction   = 1 << 9
	opDescribeConfigs = 1 << 10
	opAlterConfigs    = 1 << 11
	opIdempotentWrite = 1 << 12
)

// What everybody may do while there are no ACLs, as Kafka answers it without an authorizer.
const (
	clusterOperations int32 = opCreate | opAlter | opDescribe | opClusterAction | opDescribeConfigs | opAlterConfigs | opIdempotentWrite
	topicOperations   int32 = opRead | opWrite | opCreate | opDelete | opAlter | opDescribe | opDescribeConfigs | opAlterConfigs
)

// image returns the metadata for one request.
func (s *Server) image() (*fsm.Image, error) {
	img := s.config.Image()
	if img == nil {
		return nil, errNotReady
	}
	return img, nil
}

// offeredBrokers yields the brokers that clients of a listener are told of, with their address there: those that are not
// fenced and advertise it.
func offeredBrokers(img *fsm.Image, listener string) iter.Seq2[*fsm.Broker, fsm.Listener] {
	return func(yield func(*fsm.Broker, fsm.Listener) bool) {
		for b := range img.Brokers() {
			if b.Fenced {
				continue
			}
			if l, ok := b.Listener(listener); ok && !yield(b, l) {
				return
			}
		}
	}
}

// adminBroker is the broker that clients are told is the controller: this one, which saves them a connection, or any
// other that is offered; -1 if there is none. Every broker takes admin requests to the active controller.
func (s *Server) adminBroker(img *fsm.Image, listener string) int32 {
	chosen := int32(-1)
	for b := range offeredBrokers(img, listener) {
		if b.ID == s.config.NodeID {
			return b.ID
		}
		if chosen < 0 {
			chosen = b.ID
		}
	}
	return chosen
}

// rackOf returns the rack in the form of the answers: nil for none.
func rackOf(b *fsm.Broker) *string {
	if !b.HasRack {
		return nil
	}
	rack := b.Rack
	return &rack
}

// isInternalTopic tells whether a topic holds the cluster's own records.
func isInternalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state"
}

// notNil returns list, or an empty list for nil, which the protocol would write as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
