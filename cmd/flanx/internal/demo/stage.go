package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"flanx/perf/lab"
)

// How long things may take on a slow machine before they count as failed.
const (
	etcdWait  = 60 * time.Second
	lookAgain = 20 * time.Millisecond
)

// stage is what all combinations play on.
type stage struct {
	lab      *lab.Lab
	nodes    []*node
	endpoint string // of etcd, reachable from every host
	flanxd   string
}

// node is one host with its pod.
type node struct {
	host *lab.Host
	pod  *lab.Pod
}

// build makes the hosts and starts etcd, which then holds every combination's
// network configuration under its prefix.
func build(ctx context.Context, c Config, configs map[string]string) (*stage, error) {
	flanxd, err := c.findFlanxd()
	if err != nil {
		return nil, err
	}
	var opts lab.Options
	if c.Keep {
		opts.Name = keptName
	}
	// The lab must outlive ctx by the orderly end that we give it ourselves.
	l, err := lab.New(context.WithoutCancel(ctx), opts)
	if errors.Is(err, lab.ErrExists) {
		return nil, fmt.Errorf("%w: remove it with \"flanx demo --clean\"", err)
	}
	if err != nil {
		return nil, err
	}
	s := &stage{lab: l, flanxd: flanxd}
	if err := s.furnish(ctx, c, configs); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

func (s *stage) furnish(ctx context.Context, c Config, configs map[string]string) error {
	var hosts []*lab.Host
	for i := range c.Hosts {
		host, err := s.lab.Host(fmt.Sprintf("host%d", i+1))
		if err != nil {
			return err
		}
		pod, err := host.Pod("pod")
		if err != nil {
			return err
		}
		hosts = append(hosts, host)
		s.nodes = append(s.nodes, &node{host: host, pod: pod})
	}
	store, err := s.lab.Host("etcd")
	if err != nil {
		return err
	}
	if err := s.lab.Connect(lab.Wire{}, append(hosts, store)...); err != nil {
		return err
	}
	return s.startEtcd(ctx, store, c.Etcd, configs)
}

// startEtcd runs etcd as a process of its own: it must live inside the lab's
// network, and, when the demo is kept, longer than we do.
func (s *stage) startEtcd(ctx context.Context, host *lab.Host, command []string, configs map[string]string) error {
	s.endpoint = fmt.Sprintf("http://%s:2379", host.Addr())
	ready := filepath.Join(s.lab.Dir(), "etcd.ready")
	args := []string{"--listen", s.endpoint, "--dir", filepath.Join(s.lab.Dir(), "etcd"), "--ready", ready}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		args = append(args, "--put", key+"="+configs[key])
	}
	log, err := os.Create(filepath.Join(s.lab.Dir(), "etcd.log"))
	if err != nil {
		return fmt.Errorf("make log of etcd: %w", err)
	}
	defer log.Close()
	p, err := host.Start(context.WithoutCancel(ctx), lab.Spec{
		Path: command[0], Args: slices.Concat(command[1:], args), Stdout: log, Stderr: log,
		Env: []string{"TMPDIR=" + s.lab.Dir()}, // goes with the lab, though etcd is killed
	})
	if err != nil {
		return err
	}
	err = await(ctx, etcdWait, p.Done(), func() error { _, err := os.Stat(ready); return err })
	if err != nil {
		return fmt.Errorf("start etcd: %w\n%s", err, lines(tail(readLines(log.Name()))))
	}
	return nil
}

var errEnded = errors.New("the process has ended")

// await looks until check finds nothing to complain of. It gives up with the last
// complaint when the time is over, ended is closed, or waiting cannot help.
func await(ctx context.Context, limit time.Duration, ended <-chan struct{}, check func() error) error {
	over := time.After(limit)
	for {
		err := check()
		if err == nil || errors.Is(err, errSubnetFile) {
			return err
		}
		select {
		case <-ended:
			return fmt.Errorf("%w: %w", errEnded, err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-over:
			return fmt.Errorf("gave up after %s: %w", limit.Round(time.Millisecond), err)
		case <-time.After(lookAgain):
		}
	}
}

// Clean removes what a run with Config.Keep left. found says whether there was
// anything.
func Clean() (found bool, err error) { return lab.Remove(keptName) }
