// Package control knows what the cluster looks like and holds our place in it.
//
// A [Source] tells the leases of all nodes; a [Leaser] acquires and keeps our
// own. The [Agent] runs both and hands every change to one apply function; it
// never sees the packet half. Everything read from a store is hostile input.
package control
