package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"flanx/control"
)

// errStarting is why a node does not serve before it has joined.
var errStarting = errors.New("not joined yet")

// conditions are what has to be well for the node to serve. Each is set by the
// part that knows, and none can hide another.
type conditions struct {
	tell func(error)

	mu  sync.Mutex
	bad map[string]error
}

// newConditions returns conditions of which "start" is bad until it is set.
func newConditions(tell func(error)) *conditions {
	return &conditions{tell: tell, bad: map[string]error{"start": errStarting}}
}

// set says whether one condition is well, and tells what follows.
func (c *conditions) set(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.bad, name)
	} else {
		c.bad[name] = err
	}
	var all []error
	for _, n := range slices.Sorted(maps.Keys(c.bad)) {
		all = append(all, fmt.Errorf("%s: %w", n, c.bad[n]))
	}
	c.tell(errors.Join(all...))
}

// setter is set with the name given.
func (c *conditions) setter(name string) func(error) {
	return func(err error) { c.set(name, err) }
}

// agent says whether our lease is held and the table fresh.
func (c *conditions) agent(st control.Status) {
	if st.State == control.Running {
		c.set("cluster", nil)
		return
	}
	c.set("cluster", fmt.Errorf("%s: %s", st.State, st.Reason))
}
