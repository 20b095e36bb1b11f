package up

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/skiffmq/skiff/cmd/config"
)

// Ports for --port 0 are drawn below the range from which the system takes ports of outgoing connections: a port of that range
// could be taken while a node is down, and the node could not come back on it.
const (
	freePortLeast   = 15_000
	freePortTries   = 1_000
	freePortDefault = 32_000
)

// freePorts gives every node ports that nothing listens on.
func freePorts(list []Spec) error {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	most := ephemeralLeast()
	pick := func() (int, error) {
		for range freePortTries {
			port := freePortLeast + rand.IntN(most-freePortLeast)
			l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
			if err == nil {
				held = append(held, l)
				return port, nil
			}
		}
		return 0, config.Failed("give a base with --port", "no free port found from %d to %d", freePortLeast, most)
	}
	for i := range list {
		var err error
		if list[i].Port, err = pick(); err != nil {
			return err
		}
		if list[i].AdminPort, err = pick(); err != nil {
			return err
		}
	}
	return nil
}

// ephemeralLeast is the least port that the system takes for outgoing connections.
func ephemeralLeast() int {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return freePortDefault
	}
	fields := strings.Fields(string(data))
	if len(fields) != 2 {
		return freePortDefault
	}
	least, err := strconv.Atoi(fields[0])
	if err != nil || least < freePortLeast+1_000 || least > 65_535 {
		return freePortDefault
	}
	return least
}

// checkPorts binds every port of the cluster once and lets it go again, so that a taken one is found before anything is started.
func checkPorts(list []Spec) error {
	var taken []string
	for _, s := range list {
		if s.Host != "" {
			continue // its ports are its own
		}
		for _, address := range []string{s.Address(), s.Admin()} {
			l, err := net.Listen("tcp", address)
			switch {
			case errors.Is(err, syscall.EADDRINUSE):
				taken = append(taken, fmt.Sprintf("%s (%s)", address, s.Name))
			case err != nil:
				return config.Failed("choose another base with --port", "%s (%s): %v", address, s.Name, err)
			default:
				if err := l.Close(); err != nil {
					return config.Failed("", "%s: %v", address, err)
				}
			}
		}
	}
	if taken == nil {
		return nil
	}
	return config.Failed("stop what listens there, or choose other ports with --port (0 picks free ones)", "ports in use: %s; nothing was started", strings.Join(taken, ", "))
}
