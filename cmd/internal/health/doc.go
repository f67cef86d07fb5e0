// Package health answers whether the daemon is alive and whether the node
// serves, over HTTP as flanneld does and to systemd.
//
// A [Health] is told by the node whenever it begins or ceases to serve; anybody
// may ask it at any time. It looks at nothing by itself.
package health
