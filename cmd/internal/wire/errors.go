package wire

import "errors"

// Errors that the daemon maps to exit codes.
var (
	// ErrBackend: the network configuration asks for a backend that flanxd does
	// not have, or configures it wrongly.
	ErrBackend = errors.New("unusable backend in the network configuration")
	// ErrUnderlay: a way onto the wire was demanded and cannot be had.
	ErrUnderlay = errors.New("way on the wire not available")
)
