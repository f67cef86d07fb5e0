package config

import (
	"flag"
	"fmt"
)

// kube holds flanneld's flags that mean nothing here. They are known, so that
// the answer can say why.
type kube struct {
	subnetMgr, networkUnavailable         bool
	apiURL, kubeconfig, prefix, netConfig string
	vmodule, backtrace                    string
}

// refusals say what stands in the way, by flag.
var refusals = map[string]string{
	"kube-subnet-mgr":              "flanxd reads leases from etcd, or from a file with -static-config; leave the flag out",
	"kube-api-url":                 "flanxd does not talk to Kubernetes; leave the flag out",
	"kubeconfig-file":              "flanxd does not talk to Kubernetes; leave the flag out",
	"kube-annotation-prefix":       "flanxd does not talk to Kubernetes; leave the flag out",
	"set-node-network-unavailable": "flanxd does not talk to Kubernetes; leave the flag out",
	"net-config-path":              "the network configuration is read from etcd, or from -static-config; leave the flag out",
	"vmodule":                      "log levels cannot be set by file; use -log-level",
	"log_backtrace_at":             "stack traces cannot be asked for by line; use -log-level debug",
}

func kubeFlags(fs *flag.FlagSet, k *kube) {
	fs.BoolVar(&k.subnetMgr, "kube-subnet-mgr", false, "flanneld's; not supported")
	fs.StringVar(&k.apiURL, "kube-api-url", "", "flanneld's; not supported")
	fs.StringVar(&k.kubeconfig, "kubeconfig-file", "", "flanneld's; not supported")
	fs.StringVar(&k.prefix, "kube-annotation-prefix", "flannel.alpha.coreos.com", "flanneld's; not supported")
	fs.BoolVar(&k.networkUnavailable, "set-node-network-unavailable", true, "flanneld's; not supported")
	fs.StringVar(&k.netConfig, "net-config-path", "/etc/kube-flannel/net-conf.json", "flanneld's; not supported")
	fs.StringVar(&k.vmodule, "vmodule", "", "flanneld's; not supported")
	fs.StringVar(&k.backtrace, "log_backtrace_at", "", "flanneld's; not supported")
}

// refuse answers a flag that was given another value than its default: what
// somebody's unit file spells out needlessly does no harm.
func refuse(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if why, ok := refusals[f.Name]; ok && f.Value.String() != f.DefValue && err == nil {
			err = fmt.Errorf("%w: -%s is not supported: %s", ErrUsage, f.Name, why)
		}
	})
	return err
}
