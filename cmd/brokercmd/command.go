package brokercmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/brokerd/kafka"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/version"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// Command returns the command brokerd. Its errors carry exit codes.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "brokerd",
		Short:         "Run one broker",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := config.AddFlags(cmd.Flags(), config.RoleBroker)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := flags.Input()
		if err != nil {
			return err
		}
		cfg, err := config.LoadBroker(in)
		if err != nil {
			return err
		}
		logger := cfg.Logging.Logger(cmd.ErrOrStderr(), "brokerd")
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal ends the process as it would without us
		return exitError(run(ctx, cfg, logger))
	}
	return cmd
}

// run is the life of the process: admin server, broker, and the end in the opposite order.
func run(ctx context.Context, cfg *config.Broker, logger hclog.Logger) error {
	for _, warning := range cfg.Warnings {
		logger.Warn(warning)
	}
	if len(cfg.LogDirs) > 1 {
		return config.Usage("give one directory", "log.dirs has %d directories, this version uses one", len(cfg.LogDirs))
	}
	admins, err := admin.Listen(cfg.AdminListeners)
	if err != nil {
		return config.Failed("stop the process that has the port, or set admin.listeners to another", "%v", err)
	}
	broker, err := brokerd.Open(brokerConfig(cfg, logger))
	if err != nil {
		for _, l := range admins {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	stopAdmin := serveAdmin(admins, broker, logger)
	defer stopAdmin()
	logger.Info("brokerd runs", "version", version.String(), "node-id", cfg.NodeID, "address", broker.Addr(0), "data", cfg.LogDirs[0])
	return broker.Run(ctx)
}

// brokerConfig translates the configuration of the process into the broker's.
func brokerConfig(cfg *config.Broker, logger hclog.Logger) brokerd.Config {
	out := brokerd.Config{
		NodeID: cfg.NodeID, Dir: cfg.LogDirs[0], Controllers: cfg.BootstrapServers,
		InterBroker: cfg.InterBroker, Rack: cfg.Rack, HasRack: cfg.HasRack,
		HeartbeatInterval: givenHeartbeat(cfg), RegistrationTimeout: cfg.RegistrationTimeout,
		ControlledShutdown: cfg.ControlledShutdown, ControlledShutdownTimeout: cfg.ControlledShutdownTimeout,
		LagMax: cfg.ReplicaLagMax, FetchWaitMax: cfg.ReplicaFetchWait, RetentionInterval: cfg.RetentionCheck,
		StrayAge: cfg.StrayRetention, StrayFreeBytesMin: freeBytesMin(cfg),
		Topics: topicDefaults(cfg), AutoCreateTopics: cfg.AutoCreateTopics,
		Limits: kafka.Limits{ConnectionsMax: int(cfg.ConnectionsMax), RequestBytesMax: int(cfg.RequestBytesMax), IdleTimeout: cfg.ConnectionIdleMax},
		Logger: logger,
	}
	if cfg.MetadataDir != cfg.LogDirs[0] {
		out.MetadataDir = cfg.MetadataDir // else a directory of its own in the data directory
	}
	for i, l := range cfg.Listeners {
		out.Listeners = append(out.Listeners, brokerd.Listener{
			Name: l.Name, Address: l.Address(), SecurityProtocol: l.ProtocolID(),
			AdvertisedHost: cfg.Advertised[i].Host, AdvertisedPort: cfg.Advertised[i].Port,
		})
	}
	return out
}

// freeBytesMin is negative for never.
func freeBytesMin(cfg *config.Broker) int64 {
	if cfg.StrayFreeBytesMin == 0 {
		return -1
	}
	return cfg.StrayFreeBytesMin
}

// givenHeartbeat is 0 unless the interval was set: the controller's session timeout then decides.
func givenHeartbeat(cfg *config.Broker) time.Duration {
	if cfg.HeartbeatInterval == cfg.SessionTimeout/6 {
		return 0
	}
	return cfg.HeartbeatInterval
}

// topicDefaults are the values of topic configs that the process was given, by the names that brokers give them. A value
// that nobody gave is a default, and told as one.
func topicDefaults(cfg *config.Broker) topicconfig.Static {
	values := make(map[string]string)
	for _, v := range cfg.Values.All() {
		if v.Source.Kind != config.SourceDefault {
			values[v.Key.Name] = v.Text
		}
	}
	defaults := topicconfig.Static{}
	for _, key := range topicconfig.Keys() {
		if value := values[key.ServerName]; value != "" {
			defaults[key.ServerName] = value
		}
	}
	return defaults
}

// exitError gives the code of the broker's own end to the process.
func exitError(err error) error {
	var exit *config.ExitError
	var refused *brokerd.RefusedError
	var network *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return exit
	case errors.As(err, &refused):
		return &config.ExitError{Code: config.ExitRefused, Cause: refused.Cause, Fix: refused.Fix, Err: err}
	case errors.As(err, &network) && network.Op == "listen":
		return &config.ExitError{Code: config.ExitFailed, Cause: err.Error(), Fix: "stop the process that has the port, or set listeners to another", Err: err}
	case errors.Is(err, replica.ErrStorage):
		return &config.ExitError{Code: config.ExitBroken, Cause: err.Error(), Fix: "look at the disk; the broker recovers its logs when it starts again", Err: err}
	default:
		return fmt.Errorf("brokerd: %w", err)
	}
}
