package packet

import "errors"

// ErrPortGone says that a port's device or socket is gone for good (deleted,
// bound to a removed interface): the port must be closed and opened anew.
var ErrPortGone = errors.New("port is gone")
