package config

import (
	"flag"
	"fmt"
)

// dropped holds flanneld's flags that mean nothing here. They are known, so that
// an old unit file starts, or is told why it cannot.
type dropped struct {
	subnetMgr, networkUnavailable         bool
	apiURL, kubeconfig, prefix, netConfig string
	toStderr, alsoToStderr                bool
	vmodule, backtrace, threshold         string
}

const noKubernetes = "flanxd does not talk to Kubernetes: leave the flag out"

// refusals say what stands in the way, by flag. Without its Kubernetes flags a
// node would come up as another one than asked for.
var refusals = map[string]string{
	"kube-subnet-mgr":              "flanxd reads leases from etcd, or with -static-config from a file: leave the flag out",
	"kube-api-url":                 noKubernetes,
	"kubeconfig-file":              noKubernetes,
	"kube-annotation-prefix":       noKubernetes,
	"set-node-network-unavailable": noKubernetes,
	"net-config-path":              "the network configuration is read from etcd, or from -static-config: leave the flag out",
}

func refusedFlags(fs *flag.FlagSet, r *raw) {
	k := &r.dropped
	fs.BoolVar(&k.subnetMgr, "kube-subnet-mgr", false, "lease subnets from Kubernetes")
	fs.StringVar(&k.apiURL, "kube-api-url", "", "`URL` of the Kubernetes API")
	fs.StringVar(&k.kubeconfig, "kubeconfig-file", "", "`file` to reach Kubernetes with")
	fs.StringVar(&k.prefix, "kube-annotation-prefix", "flannel.alpha.coreos.com", "`prefix` of node annotations")
	fs.BoolVar(&k.networkUnavailable, "set-node-network-unavailable", true, "set the node's NetworkUnavailable condition")
	fs.StringVar(&k.netConfig, "net-config-path", "/etc/kube-flannel/net-conf.json", "`file` with the network configuration")
}

// ignored are flags of flanneld's logging; all its other flags have their
// meaning. The log always goes to standard error.
var ignored = map[string]bool{
	"vmodule": true, "log_backtrace_at": true,
	"logtostderr": true, "alsologtostderr": true, "stderrthreshold": true,
}

func ignoredFlags(fs *flag.FlagSet, r *raw) {
	k := &r.dropped
	fs.StringVar(&k.vmodule, "vmodule", "", "log `levels` by source file")
	fs.StringVar(&k.backtrace, "log_backtrace_at", "", "stack traces at a `line`")
	fs.BoolVar(&k.toStderr, "logtostderr", true, "log to standard error")
	fs.BoolVar(&k.alsoToStderr, "alsologtostderr", false, "log to standard error too")
	fs.StringVar(&k.threshold, "stderrthreshold", "", "lowest `level` for standard error")
}

// checkDropped answers flags that were given another value than their default:
// what a unit file spells out needlessly does no harm.
func (r *raw) checkDropped(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if f.Value.String() == f.DefValue {
			return
		}
		if why, ok := refusals[f.Name]; ok && err == nil {
			err = fmt.Errorf("%w: -%s %q is not supported: %s", ErrUsage, f.Name, f.Value, why)
		}
		if ignored[f.Name] {
			r.warn("-%s has no effect: the log goes to standard error, -log-level sets how much of it", f.Name)
		}
	})
	return err
}

func (r *raw) warn(format string, args ...any) {
	r.d.Warnings = append(r.d.Warnings, fmt.Sprintf(format, args...))
}
