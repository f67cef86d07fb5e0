package config

import (
	"errors"
	"net/netip"
	"time"

	"flanx/dataplane/host"
)

// Errors of Parse. Help is answered with flag.ErrHelp.
var (
	// ErrUsage says that the command line or the environment asks for something
	// that cannot be: the message names the flag, its value and the cure.
	ErrUsage = errors.New("usage")
	// ErrMargin is the one wrong value for which flanneld ends with another code
	// than for other wrong flags, on which scripts may rely.
	ErrMargin = errors.New("lease renewal margin out of range")
)

// DefaultTUNName is the overlay's device unless told otherwise: flanneld's, too.
const DefaultTUNName = "flannel0"

// Daemon is everything that flanxd can be told, checked and with defaults
// filled in.
type Daemon struct {
	Version  bool     // print the version and exit
	Warnings []string // what was asked for and has no effect, or is unwise

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
	TUNOffload  bool // whole runs of a flow to and from the kernel, where it can
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
