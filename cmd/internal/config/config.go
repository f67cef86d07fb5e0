package config

import (
	"errors"
	"net/netip"
	"time"

	"flanx/dataplane/host"
)

// ErrUsage says that the command line or the environment asks for something
// that cannot be: the message names the flag, its value and the cure.
var ErrUsage = errors.New("usage")

// Daemon is everything that flanxd can be told, checked and with defaults
// filled in.
type Daemon struct {
	Version bool // print the version and exit

	// The store.
	EtcdEndpoints []string
	EtcdPrefix    string
	EtcdCAFile    string
	EtcdCertFile  string
	EtcdKeyFile   string
	EtcdUsername  string
	EtcdPassword  string
	StaticConfig  string        // a file in place of etcd; empty: etcd
	RenewMargin   time.Duration // before the lease ends
	StateFile     string        // the last known table; empty: not kept

	// The underlay.
	Ifaces     []string
	Regexes    []string
	CanReach   netip.Addr
	PublicIP   netip.Addr
	PublicIPv6 netip.Addr

	// The host.
	SubnetFile        string
	TUNName           string
	ForwardRules      bool
	RulesResync       time.Duration
	IPMasq            bool
	SequentialPorts   bool // -ip-masq-fully-random-disable
	BlackholeRoute    bool
	KeepFlannelDevice bool

	// The data path.
	IO          host.Rung
	TUNOffload  bool
	Workers     int
	Spin        time.Duration
	Batch       int
	Frames      int
	SourceCheck bool

	// What others see.
	HealthzIP   netip.Addr
	HealthzPort int // 0: off
	LogLevel    string
	LogFormat   string
}
