package quorumcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/version"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Command returns the command quorumd. Its errors carry exit codes.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "quorumd",
		Short:         "Run one quorum node",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := config.AddFlags(cmd.Flags(), config.RoleQuorum)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := flags.Input()
		if err != nil {
			return err
		}
		cfg, err := config.LoadQuorum(in)
		if err != nil {
			return err
		}
		logger := cfg.Logging.Logger(cmd.ErrOrStderr(), "quorumd").With("node", cfg.NodeID)
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return exitError(run(ctx, cfg, logger))
	}
	return cmd
}

// run is the life of the process: port, node, admin server, and the end in the opposite order.
func run(ctx context.Context, cfg *config.Quorum, logger hclog.Logger) error {
	for _, warning := range cfg.Warnings {
		logger.Warn(warning)
	}
	listener, err := net.Listen("tcp", cfg.Listener.Address())
	if err != nil {
		return config.Failed("stop the process that has the port, or set listeners to another", "listen for the quorum: %v", err)
	}
	admins, err := admin.Listen(cfg.AdminListeners)
	if err != nil {
		listener.Close()
		return config.Failed("stop the process that has the port, or set admin.listeners to another", "%v", err)
	}
	registry := newRegistry()
	if err := quorum.CollectRaftMetrics(registry); err != nil {
		return err
	}
	node, err := quorum.Open(nodeConfig(cfg, logger, registry), listener)
	if err != nil {
		for _, l := range admins {
			l.Close()
		}
		return err
	}
	stopAdmin := serveAdmin(admins, node, registry, logger)
	defer stopAdmin()
	logger.Info("quorumd runs", "version", version.String(), "address", node.Addr().String(),
		"admin", addressesOf(admins), "data", cfg.DataDir)
	return node.Run(ctx)
}

// addressesOf lists where listeners are bound.
func addressesOf(listeners []net.Listener) string {
	bound := make([]string, len(listeners))
	for i, l := range listeners {
		bound[i] = l.Addr().String()
	}
	return strings.Join(bound, ",")
}

// nodeConfig translates the configuration of the process into the node's.
func nodeConfig(cfg *config.Quorum, logger hclog.Logger, registry *prometheus.Registry) quorum.Config {
	return quorum.Config{
		NodeID:           cfg.NodeID,
		DataDir:          cfg.DataDir,
		Advertised:       quorum.Endpoint{Name: cfg.Advertised.Name, Host: cfg.Advertised.Host, Port: cfg.Advertised.Port},
		Peers:            cfg.Peers,
		Bootstrap:        cfg.BootstrapServers,
		LogStore:         quorum.StoreKind(cfg.LogStore),
		Multiplier:       cfg.Multiplier,
		SnapshotBytes:    cfg.SnapshotBytes,
		SnapshotInterval: cfg.SnapshotInterval,
		Archive:          quorum.ArchiveConfig(cfg.Archive),
		History:          quorum.HistoryConfig(cfg.History),
		FreeBytesLow:     quorum.DefaultFreeBytesLow,
		SessionTimeout:   cfg.SessionTimeout,
		RecoveryWait:     cfg.RecoveryElectionWait,
		Defaults:         defaults(cfg),
		Logger:           logger,
		Registerer:       registry,
	}
}

// defaults are what requests leave open: the process's own configuration before Kafka's defaults.
func defaults(cfg *config.Quorum) controller.Defaults {
	d := controller.KafkaDefaults()
	d.NumPartitions = cfg.Topic.NumPartitions
	d.ReplicationFactor = int32(cfg.Topic.ReplicationFactor)
	d.Topics = topicconfig.Static{}
	values := make(map[string]string)
	for _, v := range cfg.Values.All() {
		values[v.Key.Name] = v.Text
	}
	for _, key := range topicconfig.Keys() {
		if value, ok := values[key.ServerName]; ok && value != "" {
			d.Topics[key.ServerName] = value
		}
	}
	return d
}

// exitError gives the code of the node's own end to the process.
func exitError(err error) error {
	var stop *quorum.StopError
	switch {
	case errors.As(err, &stop):
		return &config.ExitError{Code: stop.Code, Cause: stop.Cause, Fix: stop.Fix, Err: err}
	case errors.Is(err, quorum.ErrDirectoryInUse):
		return config.Failed("stop the other process, or give this one another directory", "%v", err)
	case err == nil:
		return nil
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return &config.ExitError{Code: config.ExitFailed, Cause: err.Error(), Fix: "check that the data directory exists and that this user may write to it", Err: err}
	}
	var exit *config.ExitError
	if errors.As(err, &exit) {
		return exit
	}
	return fmt.Errorf("quorumd: %w", err)
}
