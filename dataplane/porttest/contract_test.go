package porttest_test

import (
	"flanx/dataplane"
	"flanx/dataplane/porttest"
)

// The suite's Port and the worker's are one contract.
var (
	_ dataplane.Port = porttest.Port(nil)
	_ porttest.Port  = dataplane.Port(nil)
)
