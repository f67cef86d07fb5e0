// Package lease is flannel's vocabulary: the network configuration, the leases
// of the nodes, and their exact form as keys and JSON in the store.
//
// The forms are those of flannel's etcd v3 schema, byte for byte, so that a
// flanneld and ours read each other. Everything parsed here may have been
// written by anybody: parsing bounds what it takes, never panics, and returns
// errors that name the key or field and what to do about it.
//
// The types are plain values; nothing here starts a goroutine, does I/O, or
// knows a store. What is safe to share is said at each type.
package lease
