package tool

import (
	"crypto/rand"
	"os/user"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// operator says to the controller who asks: the user of this machine, so that the history of the cluster can tell. The
// request id is the same in every attempt at the request.
func operator(kind string) *controllerv1.RequestContext {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the process instead
	who := "operator"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return &controllerv1.RequestContext{RequestId: id, Cause: &metadatav1.Cause{Principal: "Operator:" + who, RequestKind: kind}}
}
