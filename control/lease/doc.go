// Package lease is flannel's vocabulary: the network configuration, the leases
// of the nodes, and their exact form as keys and JSON in the store.
//
// The forms are those of flannel's etcd v3 schema. Everything parsed here may
// have been written by anybody: parsing bounds what it takes and returns errors
// that name the key or field.
package lease
