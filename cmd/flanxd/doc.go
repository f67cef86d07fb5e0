// Command flanxd makes a host a node of a flannel-compatible overlay network.
// It takes flanneld's place: its flags, variables and files. docs/flanxd.md is
// its manual.
package main
