// Command flanx is the companion of flanxd, for people: it shows the overlay at
// work on this machine. "flanx help" lists what it can do.
//
// It ends with exit status 0 when all went well, 1 when something failed (for
// the demo: when any row did), and 2 when it was called wrongly. Replay also has 3
// for a capture that is cut off or damaged, and 4 for a difference that --verify
// found.
//
// Each subcommand has a file of its own here, which only reads the command line;
// the work is done below internal and in the other folders.
package main
