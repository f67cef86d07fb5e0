package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"flanx/cmd/internal/config"
	"flanx/cmd/internal/wire"
	"flanx/control"
	"flanx/control/hostnet"
	"flanx/dataplane/xdpprog"
)

// exitCode is what the process ends with.
type exitCode int

// The codes. flanneld ends with 1 for whatever goes wrong at the start but for
// unknown flags, where both end with 2.
const (
	exitOK        exitCode = 0
	exitFailure   exitCode = 1
	exitUsage     exitCode = 2
	exitNetwork   exitCode = 3
	exitPrivilege exitCode = 4
	exitInUse     exitCode = 5
	exitLeaseLost exitCode = 6
)

// meanings is the manual's table.
var meanings = []struct {
	code    exitCode
	meaning string
}{
	{exitOK, "ended by SIGINT or SIGTERM, or printed what was asked for"},
	{exitFailure, "anything not below; `-subnet-lease-renew-margin` out of range, as with flanneld"},
	{exitUsage, "a flag or variable is wrong; trying again does not help"},
	{exitNetwork, "the network configuration cannot be served: unknown backend, MTU too small"},
	{exitPrivilege, "a capability or a kernel feature is missing, or the demanded `-io` cannot be had"},
	{exitInUse, "another instance, or another program, holds what the node needs: lock, device, port, network"},
	{exitLeaseLost, "the node's subnet belongs to another node now"},
}

// codes says which error ends in which code; the first that matches counts.
var codes = []struct {
	err  error
	code exitCode
}{
	{config.ErrMargin, exitFailure},
	{config.ErrUsage, exitUsage},
	{wire.ErrBackend, exitNetwork},
	{hostnet.ErrMTU, exitNetwork},
	{control.ErrBadConfig, exitNetwork},
	{control.ErrLeaseLost, exitLeaseLost},
	{hostnet.ErrLocked, exitInUse},
	{hostnet.ErrConflict, exitInUse},
	{xdpprog.ErrForeignProgram, exitInUse},
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
