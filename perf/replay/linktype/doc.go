// Package linktype finds the IP packet in a captured frame, whatever kind of
// link it was captured on.
//
// Ethernet (with VLAN tags, stacked or not, and PPPoE), raw IP, BSD loopback,
// Linux cooked capture of both versions, PPP and NFLOG are known. Everything
// else is refused by name.
//
// The functions keep no state, allocate nothing, and are safe on any bytes.
// They read link headers only: whether the IP packet is sound is for others.
package linktype
