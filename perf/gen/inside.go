package gen

// Inside runs a function with its thread in the network namespace where an end's
// sockets shall be opened: the Do of a lab's host, or Here.
type Inside func(fn func() error) error

// Here opens sockets in the program's own namespace.
func Here(fn func() error) error { return fn() }
