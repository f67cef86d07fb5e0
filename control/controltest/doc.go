// Package controltest is what every store must do: one suite for sources, one for
// leasers, and the means to make a store fail.
//
// A store's tests fill a [World], by which the suite writes behind the store's
// back, and call [Sources] and [Leasers]. [StartProcess] runs a real etcd beside
// the test, [NewProxy] stands between a client and a server and breaks the line.
package controltest
