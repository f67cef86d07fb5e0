//go:build !race

package etcd_test

const parallel = "4"
