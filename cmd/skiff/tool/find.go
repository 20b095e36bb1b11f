package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// finder finds the cluster that a command is about: by --bootstrap-server and --controllers, else by the directory of an `up`
// cluster, else by a node's configuration file.
type finder struct {
	bootstrap   []string
	controllers []string
	data        string
	dataGiven   func() bool
	config      string
	timeout     time.Duration
	format      output.Format
	asOf        string // the moment that a reading command looks at; empty for now
}

// errNoCluster is returned when nothing says which cluster is meant.
var errNoCluster = config.Usage("name it with --bootstrap-server, --controllers, --data (or SKIFF_DATA) or --config", "no cluster is named, and there is none in %s", dataDefault())

// addFinder adds the flags that name a cluster to a group of commands.
func addFinder(cmd *cobra.Command) *finder {
	f := &finder{format: output.Table}
	flags := cmd.PersistentFlags()
	flags.StringSliceVar(&f.bootstrap, "bootstrap-server", nil, "brokers, `host:port,...`")
	flags.StringSliceVar(&f.controllers, "controllers", nil, "quorum nodes, `host:port,...`")
	flags.StringVar(&f.data, "data", dataDefault(), "`DIRECTORY` of a cluster of `skiff up` (SKIFF_DATA)")
	flags.StringVarP(&f.config, "config", "c", "", "configuration `FILE` of a node, for its bootstrap servers")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "longest time for the whole command")
	flags.VarP(&f.format, "output", "o", "format of the result")
	f.dataGiven = func() bool { return flags.Changed("data") || os.Getenv("SKIFF_DATA") != "" }
	return f
}

// addresses are where a cluster is reached; either list may be empty.
type addresses struct{ brokers, controllers []string }

// find returns the addresses of the cluster.
func (f *finder) find() (addresses, error) {
	if len(f.bootstrap) > 0 || len(f.controllers) > 0 {
		return addresses{brokers: f.bootstrap, controllers: f.controllers}, nil
	}
	if f.config != "" {
		return f.fromConfig()
	}
	state, err := up.ReadState(f.data)
	if err == nil {
		return addresses{brokers: state.Addresses(up.Broker), controllers: state.Addresses(up.Quorum)}, nil
	}
	if errors.Is(err, os.ErrNotExist) && !f.dataGiven() {
		return addresses{}, errNoCluster
	}
	if errors.Is(err, os.ErrNotExist) {
		return addresses{}, config.Usage("start one with `skiff up --data`, or name another directory", "there is no cluster in %s", f.data)
	}
	return addresses{}, err
}

// fromConfig takes the quorum's addresses from a node's file. The file is of either role, so only this one key is judged.
func (f *finder) fromConfig() (addresses, error) {
	var first error
	for _, role := range []config.Role{config.RoleBroker, config.RoleQuorum} {
		values, err := config.Load(role, config.Input{File: f.config, FileGiven: true, Env: os.Environ()})
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		if servers := values.BootstrapServers(); len(servers) > 0 {
			return addresses{controllers: servers}, nil
		}
		return addresses{}, config.Usage("add it, or use --controllers", "%s has no controller.quorum.bootstrap.servers", f.config)
	}
	return addresses{}, first
}

// within bounds a command by --timeout.
func (f *finder) within(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeout(cmd.Context(), f.timeout)
}

// quorum returns a client of the quorum and the addresses it starts from.
func (f *finder) quorum() (*client.Client, []string, error) {
	found, err := f.find()
	if err != nil {
		return nil, nil, err
	}
	if len(found.controllers) == 0 {
		return nil, nil, config.Usage("name the quorum with --controllers", "this command asks the quorum, and only brokers are named")
	}
	c, err := client.New(client.Config{Controllers: found.controllers})
	if err != nil {
		return nil, nil, config.Failed("", "%v", err)
	}
	return c, found.controllers, nil
}

// image asks the quorum for its present state: a follower without a past is sent a snapshot first.
func image(ctx context.Context, c *client.Client, controllers []string) (*fsm.Image, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var img *fsm.Image
	err := c.Follow(ctx, client.FollowConfig{
		Name:     "skiff",
		Position: func() (fsm.LineageID, int64) { return fsm.LineageID{}, 0 },
		Snapshot: func(i *fsm.Image) error {
			if img == nil {
				img = i
			}
			cancel()
			return nil
		},
		Entry: func(*controllerv1.EntryApplied) error { return nil },
	})
	if img != nil {
		return img, nil
	}
	return nil, config.Failed("are they up? `skiff quorum status` asks each", "no answer from the quorum at %s: %v", strings.Join(controllers, ", "), err)
}

// brokers returns bootstrap servers: those that were named, or else those that the quorum knows.
func (f *finder) brokers(ctx context.Context) ([]string, error) {
	found, err := f.find()
	if err != nil {
		return nil, err
	}
	if len(found.brokers) > 0 {
		return found.brokers, nil
	}
	c, controllers, err := f.quorum()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	img, err := image(ctx, c, controllers)
	if err != nil {
		return nil, err
	}
	var servers []string
	for b := range img.Brokers() {
		if !b.Fenced && len(b.Listeners) > 0 {
			servers = append(servers, b.Listeners[0].Address())
		}
	}
	if len(servers) == 0 {
		return nil, config.Failed("start a broker first", "the quorum at %s knows no live broker", strings.Join(controllers, ", "))
	}
	return slices.Clip(servers), nil
}

// refusedBy words an error of the quorum's client.
func refusedBy(what string, err error) error {
	var exit *config.ExitError
	if errors.As(err, &exit) {
		return err
	}
	var refused *client.Error
	if errors.As(err, &refused) {
		return &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("%s: %s", what, refused.Message), Err: err}
	}
	return &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("%s: %v", what, err), Err: err}
}
