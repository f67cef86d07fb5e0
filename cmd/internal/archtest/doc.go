// Package archtest holds the drawing of the house against the house: its test
// fails when a package imports what is not its business, when a library or
// unsafe code appears outside the rooms that it was given, when a package has
// no documentation, or when flanxd would carry a part made for tests.
//
// The rules are tables in rules_test.go. A new package needs a line there.
//
// There is nothing here but the test.
package archtest
