package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"flanx/cmd/internal/config"
	"flanx/cmd/internal/wire"
	"flanx/control"
	"flanx/control/hostnet"
)

// exitCode is what the process ends with. docs/flanxd.md lists them.
type exitCode int

const (
	exitOK        exitCode = 0 // ended by a signal, or printed what was asked for
	exitFailure   exitCode = 1 // anything not below
	exitUsage     exitCode = 2 // a flag or variable is wrong
	exitNetwork   exitCode = 3 // the network configuration cannot be served
	exitPrivilege exitCode = 4 // a capability or a kernel feature is missing
	exitInUse     exitCode = 5 // another instance, or another program, holds what we need
	exitLeaseLost exitCode = 6 // our subnet belongs to another node
)

// codes says which error ends in which code; the first that matches counts.
var codes = []struct {
	err  error
	code exitCode
}{
	{config.ErrUsage, exitUsage},
	{wire.ErrBackend, exitNetwork},
	{hostnet.ErrMTU, exitNetwork},
	{control.ErrLeaseLost, exitLeaseLost},
	{hostnet.ErrLocked, exitInUse},
	{hostnet.ErrConflict, exitInUse},
	{unix.EADDRINUSE, exitInUse},
	{unix.EBUSY, exitInUse},
	{hostnet.ErrNotSupported, exitPrivilege},
	{wire.ErrUnderlay, exitPrivilege},
	{errors.ErrUnsupported, exitPrivilege},
	{unix.EPERM, exitPrivilege},
	{unix.EACCES, exitPrivilege},
}

// codeOf returns the code for an error; nil is exitOK.
func codeOf(err error) exitCode {
	if err == nil {
		return exitOK
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return exitFailure
}
