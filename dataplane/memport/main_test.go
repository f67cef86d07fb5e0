package memport_test

import (
	"testing"

	"flanx/dataplane/porttest"
)

func TestMain(m *testing.M) { porttest.Main(m) }
