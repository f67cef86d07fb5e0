// Package labtest gives tests a lab that is gone when they end.
//
// It is for tests only. It owns nothing: the lab belongs to the test.
package labtest
