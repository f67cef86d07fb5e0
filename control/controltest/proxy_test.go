package controltest

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every byte with itself and closes after the test.
func echo(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the connection
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func connect(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answers says whether a byte comes back in time.
func answers(c net.Conn, within time.Duration) bool {
	if _, err := c.Write([]byte{7}); err != nil {
		return false
	}
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return false
	}
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}

func TestProxy(t *testing.T) {
	p := NewProxy(t, echo(t))
	c := connect(t, p)
	if !answers(c, patience) {
		t.Fatal("no answer through a whole line")
	}
	p.Freeze()
	if answers(c, 50*time.Millisecond) {
		t.Error("an answer through a frozen line")
	}
	p.Heal()
	if !answers(c, patience) {
		t.Error("no answer after the thaw")
	}
	p.Cut()
	_, _ = io.Copy(io.Discard, c) // what was under way, and then the end
	if answers(connect(t, p), patience) {
		t.Error("an answer through a cut line")
	}
	p.Heal()
	if !answers(connect(t, p), patience) {
		t.Error("no answer through a healed line")
	}
	p.Lead(echo(t))
	if !answers(connect(t, p), patience) {
		t.Error("no answer from the other server")
	}
}
