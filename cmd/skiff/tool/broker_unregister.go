package tool

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// brokerUnregister forgets a broker.
func (f *finder) brokerUnregister() *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: "unregister ID", Short: "Forget a broker, alive or not", Args: one,
		Long: `The broker leaves every ISR and leads nothing any more. It stays in the replica lists: move its replicas first, with
skiff reassign plan --exclude-broker ID. A process that still lives registers again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return config.Usage("skiff broker list", "%q is no broker id", args[0])
			}
			return f.mutate(cmd, dryRun, mutation{verb: "unregister", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
				answer, err := c.UnregisterBroker(ctx, &controllerv1.UnregisterBrokerRequest{Context: operator("UnregisterBroker"), BrokerId: int32(id), ValidateOnly: dryRun})
				return outcome{items: []itemOutcome{item(fmt.Sprintf("broker %d", id), answer.GetError())}, rehearsal: answer.GetRehearsal()}, err
			}})
		},
	}
	return dryRunFlag(cmd, &dryRun)
}
