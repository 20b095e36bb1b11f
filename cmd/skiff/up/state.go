package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skiffmq/skiff/cmd/config"
)

// stateVersion of up.json.
const stateVersion = 1

// State is up.json: what makes a later `up` continue the same cluster.
type State struct {
	// Version of the file.
	Version int `json:"version"`
	// Base is the port that was asked for; 0 means that free ones were picked.
	Base int `json:"base"`
	// Initialised tells that the quorum has been initialised.
	Initialised bool `json:"initialised"`
	// Network is the number of the cluster's network, if its nodes have namespaces of their own.
	Network *int `json:"network,omitempty"`
	// Nodes in the order in which they are started.
	Nodes []Spec `json:"nodes"`
}

// ReadState reads which nodes the cluster in a directory has. The error wraps os.ErrNotExist when there is none.
func ReadState(data string) (State, error) {
	state, ok, err := readState(layout{dir: data}.state())
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", layout{dir: data}.state(), fs.ErrNotExist)
	}
	return state, err
}

// Addresses are host:port of the nodes of a role.
func (s State) Addresses(role string) []string { return addresses(ofRole(s.Nodes, role)) }

// readState reads up.json; ok is false when there is none.
func readState(path string) (state State, ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, config.Failed("", "%v", err)
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return State{}, false, config.Failed("move the directory away, or restore the file", "%s: %v", path, err)
	}
	if state.Version != stateVersion {
		return State{}, false, &config.ExitError{
			Code: config.ExitRefused, Cause: fmt.Sprintf("%s has version %d, this skiff knows %d", path, state.Version, stateVersion),
			Fix: "use the skiff that wrote it, or another --data",
		}
	}
	return state, true, nil
}

func (s State) write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return config.Failed("", "%s: %v", path, err)
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile replaces a file in one step, so that a reader sees the old one or the new one.
func writeFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return config.Failed("choose a directory that can be written", "%v", err)
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return config.Failed("choose a directory that can be written", "write %s: %v", path, errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}

// plan makes the state of a new cluster, or fits the options to that of an old one.
func (o Options) plan(old State, exists bool) (State, error) {
	if exists {
		return o.extend(old)
	}
	controllers, brokers, base := o.Controllers, o.Brokers, o.Port
	if controllers == Unset {
		controllers = 3
	}
	if brokers == Unset {
		brokers = 3
	}
	if base == Unset {
		base = 9092
	}
	if err := checkSizes(controllers, brokers, base); err != nil {
		return State{}, err
	}
	state := State{Version: stateVersion, Base: base, Nodes: specs(controllers, brokers, base)}
	if base == 0 {
		return state, freePorts(state.Nodes)
	}
	return state, nil
}

func checkSizes(controllers, brokers, base int) error {
	switch {
	case controllers < 1 || controllers > controllersMax:
		return config.Usage("3 is right for nearly everybody", "--controllers %d: want 1 to %d", controllers, controllersMax)
	case brokers < 0 || brokers > brokersMax:
		return config.Usage("", "--brokers %d: want 0 to %d", brokers, brokersMax)
	case base != 0 && (base < 1024 || base+adminBroker+portStep*max(controllers, brokers) > 65_535):
		return config.Usage("0 picks free ports", "--port %d: the cluster needs ports from 1024 to 65535", base)
	}
	return nil
}

// extend continues an old cluster. Brokers may be added; everything else stays as it is.
func (o Options) extend(old State) (State, error) {
	controllers, brokers := len(ofRole(old.Nodes, Quorum)), len(ofRole(old.Nodes, Broker))
	fix := "leave the flag out to continue the cluster, or choose another --data"
	switch {
	case o.Controllers != Unset && o.Controllers != controllers:
		return State{}, config.Usage(fix, "--controllers %d: the cluster in %s has %d", o.Controllers, o.Data, controllers)
	case o.Brokers != Unset && o.Brokers < brokers:
		return State{}, config.Usage(fix, "--brokers %d: the cluster in %s has %d already", o.Brokers, o.Data, brokers)
	case o.Port != Unset && o.Port != old.Base:
		return State{}, config.Usage(fix, "--port %d: the cluster in %s has base %d", o.Port, o.Data, old.Base)
	case o.Namespaces && old.Network == nil:
		return State{}, config.Usage(fix, "--network-namespaces: the nodes in %s have none", o.Data)
	case o.Brokers == Unset || o.Brokers == brokers:
		return old, nil
	}
	if err := checkSizes(controllers, o.Brokers, old.Base); err != nil {
		return State{}, err
	}
	added := brokerSpecs(brokers, o.Brokers, old.Base)
	if old.Base == 0 {
		if err := freePorts(added); err != nil {
			return State{}, err
		}
	}
	old.Nodes = slices.Concat(old.Nodes, added)
	return old, nil
}
