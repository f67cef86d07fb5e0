package wire

import (
	"errors"
	"strings"
	"testing"

	"flanx/control"
)

func TestNoConditionHidesAnother(t *testing.T) {
	var got error
	c := newConditions(func(err error) { got = err })
	steps := []struct {
		do   func()
		says []string // nil: the node serves
	}{
		{func() { c.set("subnet file", errors.New("disk full")) }, []string{"start", "disk full"}},
		{func() { c.set("start", nil) }, []string{"disk full"}},
		{func() { c.set("address", errors.New("gone")) }, []string{"gone", "disk full"}},
		{func() { c.set("address", nil) }, []string{"disk full"}},
		{func() { c.setter("subnet file")(nil) }, nil},
		{func() { c.agent(control.Status{State: control.Stale, Reason: "etcd is away"}) }, []string{"cluster", "etcd is away"}},
		{func() { c.agent(control.Status{State: control.Running}) }, nil},
	}
	for i, s := range steps {
		s.do()
		if (got == nil) != (s.says == nil) {
			t.Errorf("step %d: %v, want %v", i, got, s.says)
		}
		for _, want := range s.says {
			if got != nil && !strings.Contains(got.Error(), want) {
				t.Errorf("step %d: %v does not say %q", i, got, want)
			}
		}
	}
}
